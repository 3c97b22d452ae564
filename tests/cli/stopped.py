"""The processes of a run, and a run that was stopped while it wrote."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

from support import BINARY, Result, command, environment
from tensors import even, noise


def descendants(pid):
    """The processes below `pid`, itself included, launcher first."""
    parents = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # ended meanwhile
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found


def workers(pid, binary=BINARY):
    """The processes of `reshard run` among the descendants, neither launchers nor children that read HDF5, in order of their ids."""
    found = []
    for candidate in descendants(pid):
        with contextlib.suppress(OSError):
            is_run = pathlib.Path(f"/proc/{candidate}/cmdline").read_bytes().split(b"\0")[1:2] == [b"run"]
            if is_run and os.path.samefile(f"/proc/{candidate}/exe", shutil.which(binary)):
                found.append(candidate)
    return sorted(found)


class Stopped:
    """A run of 150 MB under a small memory bound, stopped (SIGSTOP) as soon as it has begun to write; a context manager.

    `plan`, `source`, `expected`: what it runs and the files that must come out.
    """

    def __init__(self, case, target, processes=1, size=150_000_000, options=()):
        self.case, self.target, self.processes = case, target, processes
        self.source = case.dir / "large"
        value = noise("large", 3, size // 3, dtype="U8")
        self.expected = [{"w": part} for part in even(value, 0, 3)]
        if not self.source.exists():
            case.full({"w": value}, name="large")
        self.plan = case.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=3"]},
                               "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "large.json")
        self.words = ["run", self.plan, "--source", self.source, "--target", target, "--memory", "16MiB", "--threads", "1"]
        self.options = options

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in command(*self.words, *self.options, np=self.processes)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True)
        partial = pathlib.Path(f"{self.target}.partial")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None and not any(partial.glob("*.safetensors")):
            time.sleep(0.002)
        self.signal_all(signal.SIGSTOP)
        if self.process.poll() is not None:
            raise AssertionError(f"the run ended before it could be stopped: {self.process.communicate()}")
        return self

    def workers(self):
        return workers(self.process.pid)

    def signal_all(self, number):
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def go_on(self, timeout=60):
        """Continues every process and waits for the end."""
        start = time.monotonic()
        self.signal_all(signal.SIGCONT)
        out, err = self.process.communicate(timeout=timeout)
        return Result(self.process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - start)

    def again(self, *options):
        return self.case.reshard(*self.words, *self.options, *options, np=self.processes)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.signal_all(signal.SIGKILL)
            self.process.communicate()

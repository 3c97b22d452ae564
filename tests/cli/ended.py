"""Runs that end, or stand still, halfway, and a checkpoint large enough to catch them there."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import types
import unittest

from stopped import descendants
from support import BINARY, MPIEXEC, Case, Result, command, environment, execute, snapshot, write_safetensors
from tensors import Tensor, iota

MIB = 1 << 20
COUNT_IO = pathlib.Path(__file__).with_name("count_io.py")
STRACE = shutil.which("strace")


def may_trace():
    """Whether this process may watch its children."""
    return STRACE is not None and subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True).returncode == 0


needs_strace = unittest.skipUnless(may_trace(), "strace is not there or may not trace")


def stopped_below(process, timeout=30):
    """The process of the group that stands still."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        for pid in descendants(process.pid):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
                    return pid
        time.sleep(0.01)
    raise AssertionError(f"nothing has stopped: {process.poll()}")


@contextlib.contextmanager
def stopped_at(place, words):
    """A run of which one process stands still at a phase or a buffer; behind the block it goes on, and `result` is there."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               env=environment(RESHARD_TEST_SIGNAL=f"{int(signal.SIGSTOP)}:{place}"))
    run = types.SimpleNamespace()
    try:
        stopped = stopped_below(process)
        yield run
        start = time.monotonic()
        os.kill(stopped, signal.SIGCONT)
        out, err = process.communicate(timeout=60)
        run.result = Result(process.returncode, out.decode(), err.decode(), time.monotonic() - start)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


class Ended(Case):
    """One matrix cut by columns over eight ranks, all of whose files are open at a time, and small ones."""

    rows, columns = 6144, 4096  # 96 MiB

    def setUp(self):
        super().setUp()
        self.source = self.dir / "source"
        self.tensors = {"w": Tensor("F32", (self.rows, self.columns), os.urandom(self.rows * self.columns * 4)),
                        "padded": iota(50, 11, dtype="I16"), "converted": iota(64, 64), "whole": iota(3)}
        write_safetensors(self.source / "model.safetensors", self.tensors)
        (self.source / "config.json").write_text("{}")
        self.eight = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=8"]}, "tensors": [
            {"match": "w", "shard": {"1": "tp"}}, {"match": "padded", "target": {"shard": {"0": {"axes": "tp", "pad_to": 16}}}},
            {"match": "converted", "shard": {"0": "tp"}, "dtype": "bf16"}, {"match": "whole"}]})
        # Buffers of 'w' on their way to the files of one process: it is moved in pieces of half a MiB, each for eight ranks.
        self.buffers = 8 * self.rows * self.columns * 4 // (MIB // 2)
        self.target = self.dir / "target"
        self.partial = self.dir / "target.partial"

    def words(self, *options, plan=None, target=None):
        return ["run", plan or self.eight, "--source", self.source, "--target", target or self.target, "--quiet", "--report", "json", *options]

    def go(self, *options, np=1, env=None, **places):
        return execute(command(*self.words(*options, **places), np=np), env=env or environment())

    def end(self, number, buffer, *options, np=1, process=0, **places):
        """A run that gets a signal at a buffer of 'w' on one process."""
        return self.go(*options, np=np, env=environment(RESHARD_TEST_SIGNAL=f"{int(number)}:unpacked:w:{buffer}:{process}"), **places)

    def traced(self, inject, *options, np=1, process=0, timeout=60, words=None):
        """A run whose process number `process` has strace's injection; further ones follow as ` -e inject=`."""
        calls = ",".join(text.split(":")[0] for text in inject.split(" -e inject="))
        trace = f'{STRACE} -f -qq -o /dev/null -e trace={calls} -e inject={inject.format(journal=self.partial / "journal")} "$@"'
        script = f'if [ "${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}}" = {process} ]; then exec {trace}; else exec "$@"; fi'
        launcher = [MPIEXEC, "-n", str(np)] if np > 1 else []
        return execute([*launcher, "sh", "-c", script, "sh", BINARY, *(words or self.words(*options))], timeout=timeout)

    def put_old_target(self):
        """A finished target of another plan."""
        shutil.rmtree(self.target, ignore_errors=True)
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "unmatched": "drop", "tensors": [{"match": "whole"}]}, "old.json")
        self.assert_exit(self.go(plan=plan), 0)
        return snapshot(self.target)

    def undisturbed(self, *options, **places):
        target = self.dir / "undisturbed"
        if not target.exists():
            self.assert_exit(self.go(*options, target=target, **places), 0)
        return snapshot(target)

    def assert_resumed(self, *options, np=1, expected=None, **places):
        """Goes on, and gives the report."""
        result = self.go("--resume", *options, np=np, **places)
        self.assert_exit(result, 0)
        self.assertEqual(snapshot(self.target), expected or self.undisturbed())
        self.assertFalse(self.partial.exists())
        return result.json()

    def clear(self):
        for folder in (self.target, self.partial):
            shutil.rmtree(folder, ignore_errors=True)

    def extents(self):
        """(file, offset, length, digest) of every line of every journal."""
        found = []
        for journal in self.partial.glob("journal*"):
            first, *lines = journal.read_text().splitlines()
            self.assertRegex(first, "^reshard journal 1 [0-9a-f]{16}$")
            for line in lines:
                file, offset, length, digest = line.rsplit(" ", 3)
                found.append((file, int(offset), int(length), digest))
        return found


class WrittenBytes:
    """Bytes that a run hands to the system for the files of its target, as strace sees the calls. `words`: what to run it with."""

    CALL = re.compile(r"^(\d+) +(?:(?:pwrite64|pwritev2?|writev?)\(\d+<([^>]*)>.*?|<\.\.\. \w+ resumed>.*)(?:= (\d+)|<unfinished \.\.\.>)$")

    def __init__(self, log):
        self.words = [STRACE, "--seccomp-bpf", "-f", "-qq", "-y", "-s", "0", "-o", log, "-e", "trace=pwrite64,pwritev,pwritev2,write,writev,copy_file_range,sendfile"]
        self.log = pathlib.Path(log)

    def total(self):
        found, waiting = 0, {}
        for line in self.log.read_text().splitlines():
            call = self.CALL.match(line)
            if call is None:
                continue
            thread, path, count = call.groups()
            path = path or waiting.pop(thread, "")
            if count is None:
                waiting[thread] = path
            elif re.search(r"\.partial/rank-\d+\.", path):
                found += int(count)
        return found

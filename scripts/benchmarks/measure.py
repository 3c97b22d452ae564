"""Runs one command and counts what it took, with memory in the same state before every run."""

import dataclasses
import mmap
import os
import pathlib
import shutil
import subprocess
import time


class Failed(Exception):
    """A command that did not end with 0."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What a command and its children took; calls and bytes as the system counts them for read, write and their kin."""
    seconds: float
    user_seconds: float
    system_seconds: float
    read_calls: int
    write_calls: int
    read_bytes: int
    written_bytes: int
    output: str

    @property
    def cpu_seconds(self):
        return self.user_seconds + self.system_seconds


class Ballast:
    """Warm memory. On a virtual machine memory that lies free for some seconds goes back to the host and comes back slowly; a run that
    gets such memory is measured by its luck. So memory is held between runs and dropped as a run starts, the same for all."""

    def __init__(self, size):
        self._size = size
        self._map = None

    def fill(self):
        if self._map is None and self._size > 0:
            self._map = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0))

    def drop(self):
        if self._map is not None:
            self._map.close()
            self._map = None


def run(command, environment):
    """Runs the command to its end. Errors: Failed, with what it said."""
    begin = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment)
    output, errors = process.stdout.read(), process.stderr.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet reaped: its counters can still be read
    seconds = time.monotonic() - begin
    lines = pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines()
    io = {key: int(number) for key, number in (line.split(": ") for line in lines)}
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    if process.returncode != 0:
        raise Failed(f"exit {process.returncode}: {' '.join(str(word) for word in command)}\n{errors.decode(errors='replace')}")
    return Run(seconds, usage.ru_utime, usage.ru_stime, io["syscr"], io["syscw"], io["rchar"], io["wchar"],
               output.decode(errors="replace"))


def remove(folder):
    if folder.exists():
        shutil.rmtree(folder)


def tree_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

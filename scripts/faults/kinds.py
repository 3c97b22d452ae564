"""The faults of a campaign: what strace injects into one process, and what is done to a run from outside."""

import dataclasses
import os
import resource
import shutil
import signal

FORMAT, IO, MEMORY = 4, 5, 7  # exit codes; 4 also where a source has changed while it was read
KILLED = None  # any exit code but 0: it is the launcher that ends the job


@dataclasses.dataclass(frozen=True)
class Injected:
    """A system call that fails, or brings a signal, when it is called for the n-th time with one of the run's files."""
    name: str
    call: str
    action: str                # as strace has it: error=EIO, retval=0, signal=KILL
    exits: tuple               # the exit codes that may follow; 0 may always, if nothing was harmed
    and_later: bool = False    # the n-th and all after it
    on_files: bool = True      # or any call once the run has begun
    needs_old_target: bool = False
    can_exchange: bool = True  # else the file system is as one that cannot exchange two directories

    def expression(self, number):
        return f"inject={self.call}:{self.action}:when={number}{'+' if self.and_later else ''}"


def failing(call, error, **more):
    return Injected(**{"name": f"{call} {error}", "call": call, "action": f"error={error}", "exits": (IO,), **more})


INJECTED = [
    failing("pwrite64", "ENOSPC"), failing("pwrite64", "EIO"), failing("pwrite64", "EFBIG"), dataclasses.replace(failing("pwrite64", "ENOSPC", and_later=True), name="pwrite64 ENOSPC from there on"),
    failing("write", "ENOSPC"), failing("fsync", "EIO"), failing("fdatasync", "EIO"), failing("rename", "EIO"),
    failing("renameat2", "EIO", needs_old_target=True), failing("renameat2", "EINVAL", needs_old_target=True),
    failing("openat", "EIO"), failing("openat", "EACCES"), failing("openat", "EMFILE"),
    dataclasses.replace(failing("openat", "EMFILE", and_later=True), name="openat EMFILE from there on"),
    failing("pread64", "EIO"), Injected("pread64 at the end of the file", "pread64", "retval=0", (IO, FORMAT)),
    failing("ftruncate", "ENOSPC"), failing("mkdir", "EDQUOT"), failing("flock", "ENOLCK"), failing("newfstatat", "EIO"), failing("getdents64", "EIO"),
    failing("unlink", "EIO"), failing("unlinkat", "EIO", needs_old_target=True), failing("close", "EIO"),
    failing("mmap", "ENOMEM", on_files=False, exits=(IO, MEMORY)), failing("clone3", "EAGAIN", on_files=False, exits=(IO, MEMORY)),
    *(Injected(f"SIGKILL at {call}", call, "signal=KILL", KILLED) for call in ("openat", "pread64", "pwrite64", "write", "fsync", "rename", "close")),
    Injected("SIGKILL at renameat2", "renameat2", "signal=KILL", KILLED, needs_old_target=True),
    *(Injected(f"SIGKILL at {call}, no exchange", call, "signal=KILL", KILLED, needs_old_target=True, can_exchange=False) for call in ("rename", "unlink", "fsync")),
    failing("rename", "EIO", needs_old_target=True, can_exchange=False, name="rename EIO, no exchange"),
    Injected("SIGKILL at unlinkat", "unlinkat", "signal=KILL", KILLED, needs_old_target=True),
    *(Injected(f"SIGTERM at {call}", call, "signal=TERM", (128 + signal.SIGTERM,)) for call in ("openat", "pread64", "pwrite64", "fsync")),
]


@dataclasses.dataclass(frozen=True)
class Outside:
    """Something that is done while one process of the run stands still at a buffer, shortly after, or before it begins.

    `act(trial)`: does it, and returns what is to be undone before the run is continued, or nothing.
    """
    name: str
    act: object
    exits: tuple
    stopped: bool = True       # done while the process stands still; else a moment after it goes on
    beforehand: bool = False   # done before the run begins
    most_processes: int = 4
    needs_old_target: bool = False
    library_ends: bool = False  # the launcher is gone: the MPI library ends the processes, with codes of its own


def signal_one(number):
    def act(trial):
        workers = trial.workers()
        trial.signal(number, trial.random.sample(workers, min(1, len(workers))))
    return act


def signal_all(number):
    return lambda trial: trial.signal(number, trial.workers())


def signal_launcher(number):
    return lambda trial: trial.signal(number, [trial.process.pid])


def remove_staging(trial):
    shutil.rmtree(trial.site.partial, ignore_errors=True)


def remove_disk(trial):
    shutil.rmtree(trial.site.target.parent, ignore_errors=True)
    return lambda: trial.site.target.parent.mkdir(exist_ok=True)


def shorten_source(trial):
    path = trial.site.source_file()
    content = path.read_bytes()
    os.truncate(path, trial.random.randrange(len(content)))
    return lambda: path.write_bytes(content)


def fill_disk(trial):
    """A file system of its own with less room than the target needs; more, before the run is continued."""
    needed = sum(path.stat().st_size for path in trial.site.expected.iterdir())
    return trial.mount(trial.random.randrange(4096, needed))


def limit_file_size(trial):
    """Of a process alone: under MPI its shared memory would be beyond the limit."""
    trial.limit = (resource.RLIMIT_FSIZE, trial.random.randrange(1, trial.site.bytes))


END = (128 + signal.SIGTERM,)
OUTSIDE = [
    Outside("SIGKILL of one process", signal_one(signal.SIGKILL), KILLED), Outside("SIGKILL of one process, moving", signal_one(signal.SIGKILL), KILLED, stopped=False),
    Outside("SIGKILL of all processes", signal_all(signal.SIGKILL), KILLED), Outside("SIGKILL of the launcher", signal_launcher(signal.SIGKILL), KILLED, library_ends=True),
    Outside("SIGTERM of one process", signal_one(signal.SIGTERM), END), Outside("SIGTERM of all processes", signal_all(signal.SIGTERM), END),
    Outside("SIGTERM of the launcher", signal_launcher(signal.SIGTERM), KILLED, library_ends=True), Outside("SIGINT of one process", signal_one(signal.SIGINT), (128 + signal.SIGINT,)),
    Outside("staging directory vanishes", remove_staging, (IO,)), Outside("folder of the target vanishes", remove_disk, (IO,)),
    Outside("source becomes shorter", shorten_source, (IO, FORMAT)), Outside("disk full", fill_disk, (IO,), beforehand=True),
    Outside("file size limit", limit_file_size, (IO,), beforehand=True, most_processes=1),
]

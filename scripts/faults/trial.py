"""One run with one fault, and what must hold of it: it ends in time, everywhere with the same documented exit code and a message
that names what failed, leaves nothing that passes as finished, and is continued to the bytes of a run without a fault."""

import contextlib
import dataclasses
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from .kinds import KILLED, Injected
from .site import MATRICES, environment, snapshot
from stopped import workers
from support import exits_of_aborted_job

SECONDS_TO_END = 10
SECONDS_TO_HANG = 40
DOCUMENTED = {0, 2, 4, 5, 6, 7, 70, 128 + signal.SIGINT, 128 + signal.SIGTERM}
ERROR_LINE = re.compile(r"^reshard: (E_[A-Z_]+): (.*)$", re.M)
INJECTION = re.compile(r"^(?:\d+ +)?(\d+\.\d+) .*(?:\(INJECTED\)|\+\+\+ killed by SIGKILL \+\+\+|--- SIGTERM )", re.M)

# Runs a command, traced if its number is the one named, and leaves its exit code. Arguments: folder, number, what stands before
# the command there, up to "--", the command.
WRAPPER = """
folder=$1 traced=$2; shift 2
number=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
if [ "$number" != "$traced" ]; then while [ "$1" != -- ]; do shift; done; shift; fi
[ "$1" = -- ] && shift
"$@"
code=$?
echo $code > "$folder/exit.$number"
exit $code
"""


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a trial runs, beside its fault."""
    processes: int
    transport: str
    format: str
    process: int             # which one the fault befalls
    old_target: bool = False
    verify: bool = False
    resume_processes: int = 1


class Trial:
    def __init__(self, site, setting, fault, number, seed):
        self.site, self.setting, self.fault, self.number = site, setting, fault, number
        self.random = random.Random(seed)
        self.logs = site.folder / "logs"
        self.log = self.logs / "strace"
        self.limit = None
        self.undo = None
        self.mounted = False
        self.violations = []
        self.fault_time = None
        self.signals = 0

    # Running

    def options(self):
        out = ["--transport", self.setting.transport]
        if self.setting.old_target:
            out.append("--overwrite")
        if self.setting.verify:
            out.append("--verify")
        return out

    def before_command(self):
        """What stands before the command on the process that the fault befalls."""
        if isinstance(self.fault, Injected):
            paths = [word for path in self.site.paths() for word in ("-P", path)] if self.fault.on_files else []
            calls, also = (self.fault.call, []) if self.fault.can_exchange else (f"{self.fault.call},renameat2", ["-e", "inject=renameat2:error=EINVAL"])
            return ["strace", "-f", "-qq", "-ttt", "-e", "signal=all", "-o", self.log, "-e", f"trace={calls}", "-e", self.fault.expression(self.number), *also, *paths]
        if self.limit is not None:
            return ["prlimit", f"--fsize={self.limit[1]}"]
        return []

    def start(self, **variables):
        for path in self.logs.glob("*") if self.logs.exists() else ():
            path.unlink()
        self.logs.mkdir(exist_ok=True)
        wrapper = ["sh", "-c", WRAPPER, "sh", self.logs, str(self.setting.process), *self.before_command(), "--"]
        words = self.site.tool.command(self.setting.processes, map(str, wrapper), *self.site.words(*self.options()))
        self.out = open(self.logs / "out", "w+")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT, env=environment(**variables),
                                        start_new_session=True)

    def wait(self):
        """Until the run has ended, with everything it has started."""
        deadline = time.time() + SECONDS_TO_HANG
        try:
            self.code = self.process.wait(timeout=SECONDS_TO_HANG)
        except subprocess.TimeoutExpired:
            self.code = None
        while self.alive() and time.time() < deadline:
            time.sleep(0.01)
        self.end_time = time.time()
        if self.code is None or self.alive():
            self.violations.append(f"did not end within {SECONDS_TO_HANG} s")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.signal(signal.SIGKILL, self.alive())
            self.process.wait()
        self.out.seek(0)
        self.text = self.out.read()
        self.out.close()

    def alive(self):
        """Processes of this site's runs, by their command lines."""
        out, mark = [], str(self.site.target).encode() + b"\0"
        for folder in pathlib.Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != self.process.pid:
                with contextlib.suppress(OSError):
                    if mark in (folder / "cmdline").read_bytes():
                        out.append(int(folder.name))
        return out

    def workers(self):
        return workers(self.process.pid, self.site.tool.binary)

    def signal(self, number, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def standing(self):
        for pid in self.workers():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
                    return pid
        return None

    def mount(self, size):
        disk = self.site.target.parent
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
        self.mounted = True
        if self.setting.old_target:
            self.site.put_old_target()
        return lambda: subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)

    def run_injected(self):
        self.start()
        self.wait()
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        if not self.fault.can_exchange:  # that is the setting, not the fault
            text = re.sub(r"^.* renameat2\(.*\n", "", text, flags=re.M)
        found = INJECTION.search(text)
        self.fault_time = float(found.group(1)) if found else None
        # strace counts for each thread: where several make so many calls, each brings the signal, and the second one ends the process at once.
        self.signals = len(re.findall(r"--- SIGTERM \{", text))

    def run_outside(self):
        if self.fault.beforehand:
            self.undo = self.fault.act(self)
            self.start()
            self.fault_time = time.time()
            self.wait()
            return
        buffer = self.random.randrange(MATRICES)
        self.start(RESHARD_TEST_SIGNAL=f"{int(signal.SIGSTOP)}:unpacked:m{buffer}:0:{self.setting.process}")
        stopped = None
        while stopped is None and self.process.poll() is None:
            stopped = self.standing()
            time.sleep(0.002)
        if stopped is not None:
            self.fault_time = time.time()
            if self.fault.stopped:
                self.undo = self.fault.act(self)
                self.signal(signal.SIGCONT, [stopped])
            else:
                self.signal(signal.SIGCONT, [stopped])
                time.sleep(self.random.uniform(0, 0.03))
                self.undo = self.fault.act(self)
        self.wait()

    def run(self):
        self.site.clear()
        if self.setting.old_target:
            self.site.put_old_target()
        try:
            (self.run_injected if isinstance(self.fault, Injected) else self.run_outside)()
            self.check()
            if self.undo:
                self.undo()
            self.check_resume()
        finally:
            if self.mounted:
                subprocess.run(["umount", self.site.target.parent], check=True)
        return self.record()

    # What must hold

    def hit(self):
        return self.fault_time is not None

    def violate(self, text):
        self.violations.append(text)

    def check(self):
        if self.code is None:
            return
        if self.hit() and self.end_time - self.fault_time > SECONDS_TO_END:
            self.violate(f"ended {self.end_time - self.fault_time:.1f} s after the fault")
        if not self.hit() and self.code != 0:
            self.violate(f"nothing was injected, but exit {self.code}")
        self.check_code()
        self.check_places()
        if self.code > 0 and self.fault.exits is not KILLED and self.signals < 2:
            self.check_message()

    def check_code(self):
        killed = self.fault.exits is KILLED
        allowed = set().union(*(exits_of_aborted_job(code, self.site.tool.mpiexec) for code in self.fault.exits or ()))
        if self.code != 0 and not killed and self.code not in allowed:
            self.violate(f"exit {self.code}, expected {self.fault.exits}")
        if getattr(self.fault, "library_ends", False):
            return
        # Those that a signal has ended did not end by themselves.
        signalled = {128 + signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGPIPE} - set(self.fault.exits or ())
        codes = {int(text) for path in self.logs.glob("exit.*") if (text := path.read_text())} - signalled
        if len(codes) > 1 or (codes and not killed and not any(self.code in exits_of_aborted_job(code, self.site.tool.mpiexec) for code in codes)):
            self.violate(f"the processes ended with {sorted(codes)}, the launcher with {self.code}")
        if not codes <= DOCUMENTED:
            self.violate(f"exit codes that are not documented: {sorted(codes - DOCUMENTED)}")

    def check_places(self):
        """No directory passes as finished unless it is."""
        site, target = self.site, self.site.target
        there = snapshot(target) if target.exists() else None
        allowed = [site.expected_snapshot] if self.code == 0 else [site.expected_snapshot, site.old_snapshot if self.setting.old_target else None]
        vanished = self.fault.name == "folder of the target vanishes"
        if there not in allowed and not (vanished and there is None):
            # Without a way to exchange directories the old target is elsewhere for an instant, as documented.
            if not (there is None and pathlib.Path(f"{target}.old").exists() and (site.partial / "reshard.json").exists()):
                self.violate(f"the target is {'not there' if there is None else 'neither the old nor the new one'} after exit {self.code}")
        if there is not None and site.tool.run("verify", target).returncode != 0:
            self.violate("verify finds the target wrong")
        if site.partial.exists() and site.tool.run("verify", site.partial).returncode == 0:
            if snapshot(site.partial) not in (site.expected_snapshot, site.old_snapshot):
                self.violate("verify takes a staging directory for a finished target")

    def check_message(self):
        lines = ERROR_LINE.findall(self.text)
        if not lines:
            self.violate("no message")
        elif len(set(lines)) < len(lines):
            self.violate("a message is repeated")
        elif any(code in ("E_IO", "E_FORMAT") and not text.startswith(("/", "a file in memory")) for code, text in lines):
            self.violate("a message that names no file")

    def check_resume(self):
        site = self.site
        result = site.tool.run(*site.words("--resume", *(["--overwrite"] if self.setting.old_target else [])), np=self.setting.resume_processes)
        if result.returncode != 0:
            self.violate(f"--resume ends with {result.returncode}: {result.stderr.strip()}")
        elif snapshot(site.target) != site.expected_snapshot:
            self.violate("--resume has made other bytes")
        else:
            beside = [path.name for path in site.target.parent.iterdir() if path != site.target]
            if beside:
                self.violate(f"left beside the target: {beside}")

    def record(self):
        """One line of the report."""
        messages = [f"{code}: {text}" for code, text in ERROR_LINE.findall(self.text)]
        return {"fault": self.fault.name, "number": self.number, **dataclasses.asdict(self.setting), "hit": self.hit(), "exit": self.code,
                "seconds": round(self.end_time - self.fault_time, 2) if self.hit() else None, "messages": messages, "violations": self.violations,
                **({"output": self.text} if self.violations else {})}

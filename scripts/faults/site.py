"""The place where trials are held: a small checkpoint, the plan, and what must come out of it."""

import json
import pathlib
import shutil
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "cli"
sys.path.insert(0, str(TESTS))
from support import environment, snapshot, write_safetensors  # noqa: E402
from tensors import iota, noise  # noqa: E402

FORMATS = {"safetensors": ("safetensors", 4), "hdf5": ("h5", 2)}  # extension, ranks of the target
COLUMNS = 512
MATRICES = 12  # of 64 KiB and more

# Small enough for several rounds, so that faults fall before, between and behind them.
MEMORY = ("--memory", "512KiB")


class Tool:
    """The executable and the launcher."""

    def __init__(self, binary, mpiexec, launcher_options=()):
        self.binary, self.mpiexec, self.launcher_options = str(binary), mpiexec, tuple(launcher_options)

    def command(self, np, wrapper, *words):
        launcher = [self.mpiexec, *self.launcher_options, "-n", str(np)] if np > 1 else []
        return [*launcher, *wrapper, self.binary, *map(str, words)]

    def run(self, *words, np=1, timeout=60):
        return subprocess.run(self.command(np, (), *words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              env=environment())


class Site:
    """A folder with a source of one format, a plan, an old target and the one that is expected. Trials write below `disk`."""

    def __init__(self, folder, tool, file_format):
        self.folder, self.tool, self.format = pathlib.Path(folder), tool, file_format
        self.extension, self.ranks = FORMATS[file_format]
        self.source = self.folder / "source"
        self.plan = self.folder / "plan.json"
        self.target = self.folder / "disk" / "target"
        self.partial = self.folder / "disk" / "target.partial"
        self.target.parent.mkdir(parents=True)
        self.make_source()
        self.plan.write_text(json.dumps({
            "reshard": 1, "source": {"axes": []}, "target": {"axes": [f"tp={self.ranks}"]}, "tensors": [
                {"match": "m*", "shard": {"1": "tp"}}, {"match": "converted", "shard": {"0": "tp"}, "dtype": "bf16"},
                {"match": "padded", "target": {"shard": {"0": {"axes": "tp", "pad_to": 16}}}}, {"match": "whole"}]}))
        self.old, self.expected = self.folder / "old", self.folder / "expected"
        old_plan = self.folder / "old.json"
        old_plan.write_text(json.dumps({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "unmatched": "drop",
                                        "tensors": [{"match": "whole"}]}))
        self.must("run", old_plan, "--source", self.source, "--target", self.old)
        self.must(*self.words(target=self.expected))
        self.old_snapshot, self.expected_snapshot = snapshot(self.old), snapshot(self.expected)
        self.bytes = max(path.stat().st_size for path in self.expected.iterdir())

    def make_source(self):
        tensors = {f"m{i}": noise(f"m{i}", 32 + 8 * i, COLUMNS) for i in range(MATRICES)}
        tensors |= {"converted": iota(64, 64), "padded": iota(50, 11, dtype="I16"), "whole": iota(3)}
        whole = self.folder / "whole"
        write_safetensors(whole / "model.safetensors", tensors)
        if self.format == "safetensors":
            whole.rename(self.source)
        else:
            plan = self.folder / "whole.json"
            plan.write_text(json.dumps({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "tensors": [{"match": "**"}]}))
            self.must("run", plan, "--source", whole, "--target", self.source, "--target-format", self.format)
            (self.source / "reshard.json").unlink()
        (self.source / "config.json").write_text("{}\n")

    def must(self, *words):
        result = self.tool.run(*words)
        if result.returncode != 0:
            sys.exit(f"fault_campaign: an undisturbed run fails: {' '.join(map(str, words))}\n{result.stderr}")

    def words(self, *options, target=None):
        return ["run", self.plan, "--source", self.source, "--target", target or self.target, "--copy-side-files", *MEMORY, "--quiet", *options]

    def paths(self):
        """What a run opens of source and target, for strace to look at. That the plan cannot be opened is a fault of usage."""
        inside = [path.name for path in self.expected.iterdir()]
        inside += ["journal", "journal.new", *(f"journal.{p}" for p in range(1, 4)), *(f"journal.scratch.{p}" for p in range(4))]
        beside = [self.target.with_name(f"target.{ending}") for ending in ("old", "replacing")]
        return [self.source, *self.source.iterdir(), self.target.parent, self.target, self.partial, *beside,
                *(self.partial / name for name in inside), *(self.target / name for name in inside)]

    def source_file(self):
        return self.source / f"model.{self.extension}"

    def clear(self):
        for path in self.target.parent.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def put_old_target(self):
        shutil.copytree(self.old, self.target)

"""Results as Markdown for people and as JSON lines for programs."""

import dataclasses
import json
import statistics

FLOOR, LAUNCHER = "cp", "launcher"
CONFIGURATIONS = {"default": "1 process", "thread": "1 process, 1 thread", "mpirun": "2 processes", "mpi": "2 processes, `mpi`"}
PYTHON = {"numpy": "numpy", "torch": "torch", "h5py": "h5py"}


@dataclasses.dataclass
class Result:
    """All runs of one case. `floor_factor`: mean of source and target bytes over source bytes. `not_run`: reasons, by name."""
    name: str
    title: str
    source_bytes: int
    target_bytes: int
    runs: dict
    peak_rss_bytes: dict
    not_run: dict

    @property
    def floor_factor(self):
        return (self.source_bytes + self.target_bytes) / 2 / self.source_bytes

    def launched(self, name):
        return name in ("mpirun", "mpi")

    def figure(self, name, value, choose):
        """Of the chosen run (min or median); for a launched one without what the launcher alone takes."""
        out = choose(value(run) for run in self.runs[name])
        if self.launched(name):
            out -= choose(value(run) for run in self.runs[LAUNCHER])
        return out

    def times(self, name, value, choose):
        """A figure as a multiple of the time that cp takes for so many bytes."""
        floor = choose(run.seconds for run in self.runs[FLOOR]) * self.floor_factor
        return self.figure(name, value, choose) / floor


def seconds(run):
    return run.seconds


def cpu_seconds(run):
    return run.cpu_seconds


def json_lines(result):
    for name, runs in result.runs.items():
        best = min(runs, key=seconds)
        line = {"case": result.name, "configuration": name, "repeats": len(runs), "source_bytes": result.source_bytes,
                "target_bytes": result.target_bytes, "best_seconds": best.seconds,
                "median_seconds": statistics.median(map(seconds, runs)), "user_seconds": best.user_seconds,
                "system_seconds": best.system_seconds, "read_bytes": best.read_bytes, "written_bytes": best.written_bytes,
                "read_calls": best.read_calls, "write_calls": best.write_calls,
                "peak_rss_bytes": result.peak_rss_bytes.get(name)}
        if name != LAUNCHER:
            line["times_floor"] = result.times(name, seconds, min)
            line["share_of_floor"] = 1 / line["times_floor"]
        yield json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()})
    for name, why in result.not_run.items():
        yield json.dumps({"case": result.name, "configuration": name, "not_run": why})


def _rows(header, rows):
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _time_cell(result, name):
    if name not in result.runs:
        return "not run" if name in result.not_run else ""
    return (f"{result.figure(name, seconds, min):.2f} s: **{result.times(name, seconds, min):.2f}** "
            f"({result.times(name, seconds, statistics.median):.2f})")


def markdown(results):
    """The tables of the README."""
    def python_cell(result):
        cells = []
        for name, label in PYTHON.items():
            if name in result.runs:
                best = min(map(seconds, result.runs[name]))
                ratio = best / min(map(seconds, result.runs["default"]))
                cells.append(f"{label} {best:.1f} s: {ratio:.1f} times ours")
            elif name in result.not_run:
                cells.append(f"{label} not run")
        return ", ".join(cells)

    def cp_cell(result):
        return f"{min(map(seconds, result.runs[FLOOR])):.2f} s ({statistics.median(map(seconds, result.runs[FLOOR])):.2f} s)"

    yield from _rows(["case", "GB in, out", "`cp -r`", *CONFIGURATIONS.values(), "Python"],
                     ([result.title, f"{result.source_bytes / 1e9:.2f}, {result.target_bytes / 1e9:.2f}", cp_cell(result),
                       *(_time_cell(result, name) for name in CONFIGURATIONS), python_cell(result)] for result in results))
    yield ""
    launched = [run.seconds for result in results for run in result.runs.get(LAUNCHER, ())]
    if launched:
        yield f"The launcher alone: {min(launched):.2f} s ({statistics.median(launched):.2f} s)."
        yield ""

    def cost_cell(result, name):
        if name not in result.runs:
            return ""
        best = min(result.runs[name], key=seconds)
        return (f"{result.times(name, cpu_seconds, min):.2f}; {best.read_calls + best.write_calls:,}; "
                f"{result.peak_rss_bytes[name] / (1 << 20):.0f} MiB")

    yield from _rows(["case: CPU; calls; peak RSS", *CONFIGURATIONS.values()],
                     ([result.title, *(cost_cell(result, name) for name in CONFIGURATIONS)] for result in results))

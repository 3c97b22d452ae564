"""The memory bound: any tensor size under any bound that makes progress, and what is refused below it."""

import json
import pathlib
import re
import sys

from support import Case, command, environment, execute, needs_plain_build
from tensors import even, noise

MIB = 1024 * 1024
UNITS = {"": 1, "B": 1, "bytes": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}


class Bound(Case):
    def assert_within(self, result, bound, processes):
        self.assert_exit(result, 0)
        report = result.json()
        self.assertEqual(len(report["peak_staging_bytes"]), processes)
        for peak in report["peak_staging_bytes"]:
            self.assertLessEqual(peak, bound)
        return report

    def test_a_tensor_of_eight_times_the_bound(self):
        w = noise("w", 2048, 4096)  # 32 MiB
        source = self.full({"w": w})
        for rule, dim in (({"0": "tp"}, 0), ({"1": "tp"}, 1)):
            plan = self.tp_plan(0, 4, ("w", rule))
            for processes, transport in ((1, "direct"), (3, "direct"), (3, "mpi")):
                with self.subTest(dim=dim, processes=processes, transport=transport):
                    result = self.run_plan(plan, source, "--memory", "4MiB", "--transport", transport, "--report", "json", np=processes)
                    self.assert_within(result, 4 * MIB, processes)
                    self.assert_files(self.target, [{"w": s} for s in even(w, dim, 4)])

    def test_rows_to_columns_under_the_bound(self):
        w = noise("w", 4096, 1024)  # 16 MiB
        source = self.ranks([{"w": s} for s in even(w, 0, 4)])
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=4"]}, "target": {"axes": ["tp=2"]}, "tensors": [
            {"match": "w", "shard": {"0": "tp"}, "target": {"shard": {"0": None, "1": "tp"}}}]})
        for processes, transport in ((1, "direct"), (2, "mpi"), (3, "mpi")):
            with self.subTest(processes=processes, transport=transport):
                result = self.run_plan(plan, source, "--memory", "2MiB", "--transport", transport, "--report", "json", np=processes)
                self.assert_within(result, 2 * MIB, processes)
                self.assert_files(self.target, [{"w": s} for s in even(w, 1, 2)])

    def test_threads_change_neither_output_nor_bound(self):
        w = noise("w", 1024, 4096)
        source = self.full({"w": w})
        plan = self.tp_plan(0, 4, ("w", {"1": "tp"}))
        for threads in (1, 2, 7):
            result = self.run_plan(plan, source, "--memory", "4MiB", "--threads", threads, "--report", "json")
            self.assert_within(result, 4 * MIB, 1)
            self.assert_files(self.target, [{"w": s} for s in even(w, 1, 4)])

    def test_too_small_a_bound_names_the_least_that_works(self):
        source = self.full({"w": noise("w", 64, 4096)})
        plan = self.tp_plan(0, 2, ("w", {"1": "tp"}))
        for processes in (1, 2):
            result = self.run_plan(plan, source, "--memory", "1", np=processes)
            self.assert_refused(result, 7, "E_MEMORY")
            line = next(line for line in result.err.splitlines() if "E_MEMORY" in line)
            sizes = [(float(number) * UNITS[unit], f"{number}{'' if unit == 'bytes' else unit}")
                     for number, unit in re.findall(r"\b(\d+(?:\.\d+)?) ?(KiB|MiB|GiB|bytes|B)\b", line)]
            least = min((size, text) for size, text in sizes if size > 1)[1]
            result = self.run_plan(plan, source, "--memory", least, "--report", "json", np=processes)
            self.assert_exit(result, 0)

    def test_the_least_that_works_where_some_tensors_are_exchanged(self):
        source = self.full({name: noise(name, 1200, 144) for name in ("row", "col", "all")})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [
            {"match": "row", "shard": {"0": ["dp", "tp"]}}, {"match": "col", "shard": {"1": ["dp", "tp"]}}, {"match": "all"}]})
        for np in (2, 3):
            refused = self.run_plan(plan, source, "--memory", "1KiB", np=np)
            self.assert_exit(refused, 7)
            least = re.search(r"at least (\d+) bytes", refused.err)[1]
            self.assert_exit(self.run_plan(plan, source, "--memory", least, np=np), 0)
            self.assert_exit(self.run_plan(plan, source, "--memory", str(int(least) - 64), np=np), 7)

    def test_the_dry_run_foretells_the_peak(self):
        source = self.full({"w": noise("w", 1024, 4096)})
        plan = self.tp_plan(0, 4, ("w", {"1": "tp"}))
        result = self.reshard("plan", plan, "--source", source, "--memory", "4MiB", "--processes", "3", "--report", "json")
        self.assert_exit(result, 0)
        memory = result.json()["memory"]
        self.assertEqual(memory["bound_bytes"], 4 * MIB)
        self.assertEqual(len(memory["peak_staging_bytes"]), 3)
        for peak in memory["peak_staging_bytes"]:
            self.assertLessEqual(peak, 4 * MIB)


@needs_plain_build
class Resident(Case):
    def test_RES_1_resident_memory_does_not_follow_the_model(self):
        peaks = {}
        for tensors in (4, 16):
            source = self.ranks([{f"t{i}": noise(f"t{i}", 1024, 1024) for i in range(tensors)} for _ in range(4)], name=f"source-{tensors}")
            result = self.run_plan(self.tp_plan(4, 2, ("*", {"0": "tp"})), source, "--memory", "16MiB", "--report", "json", np=2)
            self.assert_exit(result, 0)
            peaks[tensors] = max(result.json()["peak_rss_bytes"])
            self.assertLess(peaks[tensors], 16 * MIB + 128 * MIB)
        self.assertLess(abs(peaks[16] - peaks[4]), 8 * MIB)

    def test_resident_memory_of_many_tensors_is_bounded_by_their_number(self):
        tensors = 20000
        shards = {f"layers.{i // 100}.adapters.{i % 100}.weight": noise(f"t{i}", 2, 4) for i in range(tensors)}
        source = self.ranks([shards, shards])
        plan = self.tp_plan(2, 1, ("**", {"0": "tp"}))
        for processes, touched in ((1, 3 * tensors), (2, 3 * tensors)):  # two source files and one target file
            result = self.run_plan(plan, source, "--memory", "8MiB", "--report", "json", np=processes)
            self.assert_exit(result, 0)
            for peak in result.json()["peak_rss_bytes"]:
                self.assertLessEqual(peak, 8 * MIB + 64 * MIB + 512 * touched)


class Calls(Case):
    def counted(self, *words, np=1):
        """Input and output counters of every process of a run."""
        folder = self.new_target()
        folder.mkdir()
        launcher = command(np=np)
        wrapped = [*launcher[:-1], sys.executable, pathlib.Path(__file__).parent / "count_io.py", launcher[-1], *words]
        result = execute(wrapped, env=environment(COUNT_IO_FOLDER=str(folder)))
        self.assert_exit(result, 0)
        return [json.loads(path.read_text()) for path in folder.iterdir()]

    def test_RES_3_columns_are_read_in_few_calls(self):
        w = noise("w", 4096, 64)
        source = self.full({"w": w})
        plan = self.tp_plan(0, 8, ("w", {"1": "tp"}))
        counters, = self.counted("run", plan, "--source", source, "--target", self.dir / "out")
        self.assertLess(counters["syscr"], 4096)
        self.assert_files(self.dir / "out", [{"w": s} for s in even(w, 1, 8)])

    def test_small_tensors_that_lie_side_by_side_are_read_and_written_together(self):
        tensors = {f"t{i:04}": noise(f"t{i}", 8, 16) for i in range(4000)}  # of 512 bytes
        source = self.ranks([{name: even(t, 0, 2)[rank] for name, t in tensors.items()} for rank in range(2)])
        plan = self.tp_plan(2, 1, ("*", {"0": "tp"}))
        for words in ((), ("--threads", "1"), ("--threads", "3"), ("--memory", "4KiB")):
            with self.subTest(words=words):
                target = self.new_target()
                counters, = self.counted("run", plan, "--source", source, "--target", target, *words)
                self.assert_full(target, tensors)
                if "--memory" not in words:
                    self.assertLess(counters["syscw"], 400)
                    self.assertLess(counters["syscr"], 400)

    def test_small_tensors_that_are_cut_in_turns(self):
        """Neighbours are cut by rows, by columns, by rows of another shape, and not at all; more of them than are read together."""
        shapes = ((4, 6), (4, 6), (8, 3), (5,))
        cuts = (0, 1, 0, None)
        tensors = {f"t{i:04}.{'rcsw'[i % 4]}": noise(f"t{i}", *shapes[i % 4]) for i in range(1200)}
        halves = {name: [t, t] if cuts[i % 4] is None else even(t, cuts[i % 4], 2) for i, (name, t) in enumerate(tensors.items())}
        source = self.ranks([{name: half[rank] for name, half in halves.items()} for rank in range(2)])
        plan = self.tp_plan(2, 1, ("*.{r,s}", {"0": "tp"}), ("*.c", {"1": "tp"}), ("*.w", None))
        for words in (("--threads", "1"), ("--threads", "2"), ("--memory", "4KiB")):
            with self.subTest(words=words):
                self.assert_full(self.convert(plan, source, *words), tensors)

    def test_RES_4_no_process_writes_more_than_half_of_the_replicas(self):
        source = self.full({f"t{i}": noise(f"t{i}", 1024, 512) for i in range(8)})  # 8 x 2 MiB
        plan = self.tp_plan(0, 8, ("*", None))
        written = [counters["wchar"] for counters in self.counted("run", plan, "--source", source, "--target", self.dir / "out", "--transport", "direct", np=4)]
        self.assertEqual(len(written), 4)
        self.assertGreaterEqual(sum(written), 8 * 8 * 2 * MIB)
        self.assertLessEqual(max(written), sum(written) / 2)

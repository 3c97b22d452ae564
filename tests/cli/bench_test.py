"""scripts/bench: every case runs in small, and the comparison of results finds what differs."""

import json
import pathlib
import sys
import unittest

from support import BINARY, MPIEXEC, REPOSITORY, Case, environment, execute, write_safetensors
from tensors import iota

sys.path.insert(0, str(REPOSITORY / "scripts"))
from benchmarks import cases, checkpoint, measure  # noqa: E402

CONFIGURATIONS = {"cp", "default", "thread", "mpirun", "mpi", "launcher"}


class Bench(Case):
    def bench(self, *words):
        return execute([sys.executable, "-B", REPOSITORY / "scripts/bench", "--binary", BINARY, "--mpiexec", MPIEXEC, "--scratch", self.dir,
                        "--disk", self.dir, *words], timeout=600)

    @unittest.skipUnless(pathlib.Path("/proc/self/io").exists(), "the system does not count the calls of a process")
    def test_every_case_runs_in_small(self):
        result = self.bench("--quick", "--json", self.dir / "lines.json")
        self.assert_exit(result, 0)
        lines = [json.loads(line) for line in (self.dir / "lines.json").read_text().splitlines()]
        expected = cases.all_cases(1, tiny=True)
        self.assertEqual(list(dict.fromkeys(line["case"] for line in lines)), [case.name for case in expected])
        for case in expected:
            of_case = {line["configuration"]: line for line in lines if line["case"] == case.name}
            self.assertEqual(set(of_case), CONFIGURATIONS | set(case.incumbents))
            for name, line in of_case.items():
                with self.subTest(case=case.name, configuration=name):
                    if "not_run" in line:
                        self.assertIn(name, case.incumbents)
                        continue
                    self.assertGreater(line["best_seconds"], 0)
                    if name != "launcher":
                        # What source ranks repeat is read once.
                        self.assertGreaterEqual(line["read_bytes"], 0.99 * line["source_bytes"])
                        # Padding may stay a hole, and a target may lack what every source rank repeats.
                        self.assertGreaterEqual(line["written_bytes"], min(line["source_bytes"], line["target_bytes"]))
            self.assertIn(case.title, result.out)
        self.assertEqual(list(self.dir.iterdir()), [self.dir / "lines.json"])

    def test_wrong_use_is_refused(self):
        for words in (("--case", "nonsense"), ("--repeats", "0"), ("--quick", "--scratch", self.dir / "nothing")):
            self.assertEqual(self.bench(*words).code, 2, words)

    def test_a_command_that_fails_is_told_with_what_it_said(self):
        with self.assertRaisesRegex(measure.Failed, "(?s)exit 3: sh .*no such thing"):
            measure.run(["sh", "-c", "echo no such thing >&2; exit 3"], environment())


class Difference(Case):
    def test_files_are_equal_whatever_the_order_of_their_tensors(self):
        a, b = iota(2, 3), iota(4, first=7)
        write_safetensors(self.dir / "one", {"a": a, "b": b})
        write_safetensors(self.dir / "two", {"b": b, "a": a})
        self.assertIsNone(checkpoint.difference(self.dir / "one", self.dir / "two"))

    def test_other_names_shapes_and_bytes_are_told(self):
        write_safetensors(self.dir / "one", {"a": iota(2, 3)})
        for other, told in (({"b": iota(2, 3)}, "names"), ({"a": iota(3, 2)}, r"a: F32\[2, 3\] and F32\[3, 2\]"),
                            ({"a": iota(2, 3, first=1)}, "a: other bytes")):
            write_safetensors(self.dir / "two", other)
            self.assertRegex(checkpoint.difference(self.dir / "one", self.dir / "two"), told)


if __name__ == "__main__":
    unittest.main()

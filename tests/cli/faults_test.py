"""Faults at every phase of a run, on one of several processes: all end, soon, with the same exit code and one message; nothing passes
as finished, and --resume goes on to the bytes of a run without a fault.

By default every phase fails in one way at one number of processes; RESHARD_TEST_ALL=1 tries all ways at 1 to 4 processes.
"""

import os
import re
import shutil
import signal

from support import BINARY, MPIEXEC, Case, environment, execute, exits_of_aborted_job, snapshot, write_safetensors
from tensors import iota, noise

# What the processes agree on, and what ends the job at once: the exit codes of interface and README.
AGREED = {"io": (5, "E_IO"), "format": (4, "E_FORMAT")}
ABORTED = {"memory": (7, "E_MEMORY"), "exception": (70, "E_INTERNAL")}

# (place, options of the run, after a run that has ended before it published)
PLACES = [("prepare", (), False), ("claim", (), False), ("stage", (), False), ("create", (), False), ("trust", ("--resume",), True), ("move", (), False),
          ("read:w:1", ("--transport", "direct"), False), ("unpacked:w:1", ("--transport", "direct"), False),
          ("read:w:0", ("--transport", "mpi"), False), ("packed:w:0", ("--transport", "mpi"), False), ("received:w:0", ("--transport", "mpi"), False),
          ("unpacked:w:0", ("--transport", "mpi"), False), ("flush", (), False), ("flush", ("--resume",), True), ("manifest", (), False),
          ("readback:w:0", ("--verify",), False), ("publish", (), False), ("publish", ("--resume", "--overwrite"), True)]

RECORDED = 'n=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}; "$@"; code=$?; echo $code > "$0/$n"; exit $code'


class Together(Case):
    def setUp(self):
        super().setUp()
        self.source, self.target, self.partial = self.dir / "source", self.dir / "target", self.dir / "target.partial"
        write_safetensors(self.source / "model.safetensors", {"w": noise("w", 512, 512), "n": iota(3)})
        self.eight = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=8"]},
                                "tensors": [{"match": "w", "shard": {"1": "tp"}}, {"match": "n"}]})
        self.assert_exit(self.go(target=self.dir / "undisturbed"), 0)
        self.undisturbed = snapshot(self.dir / "undisturbed")
        self.codes = self.dir / "codes"

    def go(self, *options, np=1, target=None, **variables):
        """A run each of whose processes leaves its exit code."""
        codes = self.dir / "codes"
        shutil.rmtree(codes, ignore_errors=True)
        codes.mkdir()
        launcher = [MPIEXEC, "-n", str(np)] if np > 1 else []
        words = ["run", self.eight, "--source", self.source, "--target", target or self.target, "--memory", "256KiB", "--threads", "2", "--quiet", *options]
        return execute([*launcher, "sh", "-c", RECORDED, codes, BINARY, *words], env=environment(**variables))

    def told(self):
        """Exit codes by process; a process that was killed has told nothing."""
        return {path.name: int(text) for path in self.codes.iterdir() if (text := path.read_text())}

    def try_fault(self, place, options, after_another, fault, np, process):
        shutil.rmtree(self.target, ignore_errors=True)
        shutil.rmtree(self.partial, ignore_errors=True)
        if after_another:
            self.assert_exit(self.go(RESHARD_TEST_FAIL="io:flush:0"), 5)
        result = self.go(*options, np=np, RESHARD_TEST_FAIL=f"{fault}:{place}:{process}")
        code, name = {**AGREED, **ABORTED}[fault]
        self.assertIn(result.code, exits_of_aborted_job(code) if fault in ABORTED else {code}, str(result))
        self.assertLess(result.seconds, 10)
        codes = self.told()
        # Open MPI ends the others as soon as one process has ended with an error: not all come to tell.
        by_themselves = {number: told for number, told in codes.items() if told not in (128 + signal.SIGTERM, 128 + signal.SIGKILL)}
        self.assertEqual(by_themselves, dict.fromkeys(by_themselves, code), str(result))
        if fault in AGREED:
            self.assertTrue(by_themselves)
        lines = re.findall(r"^reshard: (E_\w+): .*$", result.err, re.M)
        self.assertEqual(lines, [name], str(result))
        self.assertFalse(self.target.exists())
        self.assert_exit(self.go("--resume"), 0)
        self.assertEqual(snapshot(self.target), self.undisturbed)
        self.assertFalse(self.partial.exists())

    def test_every_phase_at_several_processes(self):
        everything = os.environ.get("RESHARD_TEST_ALL") == "1"
        for number, (place, options, after_another) in enumerate(PLACES):
            faults = [*AGREED, *ABORTED]
            for fault in faults if everything else [faults[number % 4]]:
                needs_peers = place.startswith(("packed", "received"))
                for np in range(2 if needs_peers else 1, 5) if everything else [2 + number % 3]:
                    process = (number + np) % np
                    with self.subTest(place=place, options=options, fault=fault, np=np, process=process):
                        self.try_fault(place, options, after_another, fault, np, process)

    def test_a_byte_that_changes_on_one_process(self):
        for place, np, process in (("received:w:0", 2, 1), ("packed:w:0", 3, 2), ("unpacked:w:0", 4, 3)):
            with self.subTest(place=place, np=np):
                result = self.go("--transport", "mpi", "--overwrite", np=np, RESHARD_TEST_FLIP=f"{place}:{process}")
                self.assert_exit(result, 70)
                self.assertLess(result.seconds, 10)
                self.assertLessEqual(set(self.told().values()), {70, 128 + signal.SIGTERM, 128 + signal.SIGKILL})
                self.assert_error_lines(result, "E_DIGEST")
                self.assertFalse(self.target.exists())

    def test_a_variable_that_cannot_be_read(self):
        for text in ("io", "io:nowhere:0", "io:read:w:x:0", "flood:move:0"):
            self.assert_exit(self.go(np=1, RESHARD_TEST_FAIL=text), 2)

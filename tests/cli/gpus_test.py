"""The transport between GPUs: what an executable says that has no GPU, and whole runs on simulated ones.

RESHARD_SIMULATED_GPU_BINARY names the executable whose CUDA and NCCL are the stand-in of tests/support/simulated_gpu; without it
those tests are skipped. It proves nothing about a real GPU.
"""

import json
import os
import shutil
import signal
import unittest

import support
from support import REPOSITORY, Case, environment, snapshot, write_safetensors
from tensors import even, iota, noise

SIMULATED = os.environ.get("RESHARD_SIMULATED_GPU_BINARY", "")
MIB = 1 << 20


class WithoutGpu(Case):
    def setUp(self):
        super().setUp()
        if shutil.which("nvidia-smi"):
            self.skipTest("there may be a GPU here")
        self.reason = "this build is without CUDA and NCCL" if "NCCL: not built in" in self.reshard("--version").out else "no GPU"
        self.source = self.ranks([{"w": part} for part in even(iota(8, 2), 0, 2)])
        self.four = self.tp_plan(2, 4, ("w", {"0": "tp"}))

    def test_nccl_is_refused_before_anything_is_written(self):
        for np in (1, 2):
            with self.subTest(np=np):
                result = self.run_plan(self.four, self.source, "--transport", "nccl", "--report", "json", np=np)
                self.assert_refused(result, 6, "E_DEVICE", words=("--transport nccl: ", self.reason, "--transport mpi"))
                self.assertEqual([error["code"] for error in result.json()["errors"]], ["E_DEVICE"])
                self.assertFalse(os.path.lexists(f"{self.target}.partial"))

    def test_auto_does_without(self):
        for np in (1, 2):
            result = self.run_plan(self.four, self.source, "--report", "json", np=np)
            self.assert_exit(result, 0)
            self.assertNotEqual(result.json()["transport"]["name"], "nccl")

    def test_a_dry_run_needs_no_gpu(self):
        result = self.reshard("plan", self.four, "--source", self.source, "--transport", "nccl", "--processes", "4",
                              "--device-memory", "64MiB", "--report", "json")
        self.assert_exit(result, 0)
        plan = result.json()
        self.assertEqual(plan["transport"], {"name": "nccl", "why": "asked for"})
        self.assertEqual(plan["memory"]["device_bound_bytes"], 64 * MIB)
        self.assertEqual(len(plan["memory"]["peak_device_bytes"]), 4)
        self.assertTrue(all(0 < peak <= 64 * MIB for peak in plan["memory"]["peak_device_bytes"]))
        text = self.reshard("plan", self.four, "--source", self.source, "--transport", "nccl").out
        self.assertIn("GPU memory", text)
        self.assertNotIn("GPU memory", self.reshard("plan", self.four, "--source", self.source).out)

    def test_bounds_that_are_too_small_name_what_works(self):
        def refused(*options):
            result = self.reshard("plan", self.four, "--source", self.source, "--transport", "nccl", *options)
            self.assert_refused(result, 7, "E_MEMORY", words=("at least ",))
            return result.err
        both = refused("--memory", "1", "--device-memory", "1")
        self.assertIn("--memory 1 ", both)
        self.assertIn("--device-memory 1 ", both)
        err = refused("--device-memory", "1000")
        self.assertNotIn("E_MEMORY: --memory", err)
        least = err.split("at least ")[1].split()[0]
        self.assert_exit(self.reshard("plan", self.four, "--source", self.source, "--transport", "nccl", "--device-memory", least), 0)
        self.assert_refused(self.reshard("plan", self.four, "--source", self.source, "--device-memory", "much"), 2, "E_USAGE",
                            words=("--device-memory much",))


@unittest.skipUnless(SIMULATED, "there is no executable with simulated GPUs")
class Simulated(Case):
    """A matrix cut by rows and columns, a conversion, padding, whole and small tensors, over eight ranks of the target."""

    def setUp(self):
        super().setUp()
        self.source = self.dir / "source"
        self.tensors = {"w": noise("w", 768, 1024, dtype="F32"), "converted": noise("converted", 96, 64, dtype="F32"),
                        "padded": iota(50, 11, dtype="I16"), "whole": iota(3), "bytes": noise("bytes", 1001, 3, dtype="U8")}
        write_safetensors(self.source / "model.safetensors", self.tensors)
        self.eight = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=8"]}, "tensors": [
            {"match": "w", "shard": {"1": "tp"}}, {"match": "converted", "shard": {"0": "tp"}, "dtype": "bf16"},
            {"match": "padded", "target": {"shard": {"0": {"axes": "tp", "pad_to": 16}}}},
            {"match": "bytes", "target": {"shard": {"0": {"axes": "tp", "pad_to": 8, "fill": "last"}}}}, {"match": "whole"}]})

    def simulated(self, *options, np=1, target=None, plan=None, timeout=120, **variables):
        self.target = target or self.new_target()
        words = ["run", plan or self.eight, "--source", self.source, "--target", self.target, "--transport", "nccl", "--report", "json",
                 "--threads", "2", *options]
        launcher = [support.MPIEXEC, "-n", str(np)] if np > 1 else []
        return support.execute([*launcher, SIMULATED, *words], timeout=timeout, env=environment(**variables))

    def expected(self, plan=None):
        target = self.convert(plan or self.eight, self.source, "--transport", "direct")
        return snapshot(target)

    def test_the_job_of_the_examples(self):
        programs = self.dir / "programs"
        programs.mkdir()
        (programs / "reshard").symlink_to(SIMULATED)
        (programs / "srun").write_text('#!/bin/sh\nexec "$@"\n')
        (programs / "srun").chmod(0o755)
        target, reports = self.dir / "target", self.dir / "reports"
        words = ["bash", REPOSITORY / "scripts/examples/reshard-gpu.slurm", self.eight, self.source, target, reports]
        variables = {"PATH": os.pathsep.join([str(programs), os.environ["PATH"]]), "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2"}
        for _ in range(2):  # a requeued job does nothing again
            self.assert_exit(support.execute(words, env=environment(**variables)), 0)
        self.assertEqual(snapshot(target), self.expected())
        for name in ("plan", "run"):
            report = json.loads((reports / f"7-{name}.json").read_text())
            self.assertEqual((report["schema"], report["transport"]["name"]), (f"reshard.{name}", "nccl"))
        other = [*words[:4], self.dir / "other", reports]
        self.assert_exit(support.execute(other, env=environment(**variables, SIMULATED_GPU_COUNT="0")), 6)
        self.assertEqual(json.loads((reports / "7-run.json").read_text())["errors"][0]["code"], "E_DEVICE")
        self.assert_exit(support.execute(words[:3], env=environment(**variables)), 2)

    def test_it_says_that_it_is_simulated(self):
        lines = support.execute([SIMULATED, "--version"]).out.splitlines()
        for name in ("CUDA", "NCCL"):
            line, = (line for line in lines if line.startswith(name))
            self.assertRegex(line, r"\d.*\(simulated\)")
        result = self.simulated()
        self.assert_exit(result, 0)
        self.assertRegex(result.json()["transport"]["why"], r"asked for; CUDA .*\(simulated\), NCCL .*\(simulated\)")

    def test_every_number_of_processes_gives_the_bytes_of_the_direct_transport(self):
        expected = self.expected()
        for np in (1, 2, 3, 5):
            for memory in ((), ("--memory", "600KiB", "--device-memory", "1500KiB")):
                with self.subTest(np=np, memory=memory):
                    result = self.simulated(*memory, np=np)
                    self.assert_exit(result, 0)
                    self.assertEqual(snapshot(self.target), expected)
                    report = result.json()
                    self.assertEqual(report["transport"]["name"], "nccl")
                    if memory:
                        self.assertGreater(report["totals"]["rounds"], 5)
                        self.assertTrue(all(peak <= 600 * 1024 for peak in report["peak_staging_bytes"]))
                        self.assertTrue(all(peak <= 1500 * 1024 for peak in report["memory"]["peak_device_bytes"]))
                    self.assertEqual(report["totals"]["bytes_exchanged"] > 0, np > 1)
                    self.assertEqual(report["stages"]["exchange"]["bytes"], report["totals"]["bytes_exchanged"])

    def test_more_processes_than_gpus(self):
        result = self.simulated(np=3, SIMULATED_GPU_COUNT="2")
        self.assert_refused(result, 6, "E_DEVICE", words=("3 processes share 2 GPUs",))
        result = self.simulated(np=2, SIMULATED_GPU_COUNT="0")
        self.assert_refused(result, 6, "E_DEVICE", words=("no GPU",))

    def test_auto_falls_back_to_host_memory(self):
        for count, told in (("1", False), ("8", True)):
            target = self.new_target()
            result = support.execute(
                [support.MPIEXEC, "-n", "2", SIMULATED, "run", self.eight, "--source", self.source, "--target", target, "--report", "json"],
                env=environment(SIMULATED_GPU_COUNT=count))
            self.assert_exit(result, 0)
            transport = result.json()["transport"]
            self.assertNotEqual(transport["name"], "nccl")  # a megabyte: GPUs never pay
            if transport["name"] == "mpi":
                self.assertEqual("between GPUs" in transport["why"], told)

    def test_what_fails_ends_all_with_exit_code_6(self):
        expected = self.expected()
        calls = ("cudaSetDevice:1", "cudaHostAlloc:1", "cudaMalloc:2", "cudaMemcpyAsync:3", "ncclCommInitRankConfig:1", "ncclSend:3",
                 "ncclGroupEnd:2", "cudaEventQuery:5", "ncclCommGetAsyncError:9", "cudaStreamWaitEvent:4", "launch_copies:3")
        for np in (1, 2):
            for call in calls:
                with self.subTest(np=np, call=call):
                    result = self.simulated("--memory", "2MiB", np=np, SIMULATED_GPU_FAIL=f"{call}:{np - 1}")
                    self.assertIn(result.code, {7} if "lloc" in call else support.exits_of_aborted_job(6), str(result))
                    self.assert_error_lines(result, "E_MEMORY" if "lloc" in call else "(E_DEVICE|E_TRANSPORT)")
                    self.assertLess(result.seconds, 15)
                    self.assertFalse(self.target.exists())
                    self.assertFalse((self.target.parent / (self.target.name + ".partial") / "reshard.json").exists())
                    resumed = self.simulated("--memory", "2MiB", "--resume", np=2, target=self.target)
                    self.assert_exit(resumed, 0)
                    self.assertEqual(snapshot(self.target), expected)

    def test_a_gpu_with_less_memory_than_the_plan_takes(self):
        for np in (1, 3):
            result = self.simulated("--memory", "8MiB", np=np, SIMULATED_GPU_MEMORY="1500000")
            self.assert_refused(result, 7, "E_MEMORY", words=("has 1500000 bytes free", "give --device-memory "))
            self.assertEqual(len(result.json()["errors"]), 1, str(result))
            self.assertFalse(os.path.lexists(f"{self.target}.partial"))
            fits = result.err.split("give --device-memory ")[1].split()[0]
            self.assert_exit(self.simulated("--memory", "8MiB", "--device-memory", fits, np=np, target=self.target, SIMULATED_GPU_MEMORY="1500000"), 0)
            self.assertEqual(snapshot(self.target), self.expected())

    def test_a_bit_that_flips_on_a_gpu_fails_the_digest(self):
        for np in (1, 2):
            for launch in (1, 2, 3, 4):
                with self.subTest(np=np, launch=launch):
                    result = self.simulated("--memory", "2MiB", np=np, SIMULATED_GPU_FLIP=f"{launch}:{np - 1}")
                    self.assert_exit(result, 70)
                    self.assert_error_lines(result, "E_DIGEST")
                    self.assertFalse(self.target.exists())

    def test_a_read_that_fails_ends_all_with_its_code(self):
        for np in (1, 2):
            for process in range(np):
                result = self.simulated("--memory", "2MiB", np=np, RESHARD_TEST_FAIL=f"io:read:w:1:{process}")
                self.assert_exit(result, 5)
                self.assertLess(result.seconds, 15)
                self.assertFalse(self.target.exists())

    def test_killed_and_continued(self):
        expected = self.expected()
        for np in (1, 2):
            result = self.simulated("--memory", "2MiB", np=np, RESHARD_TEST_SIGNAL=f"{int(signal.SIGKILL)}:unpacked:w:6:{np - 1}")
            self.assertNotEqual(result.code, 0)
            self.assertFalse(self.target.exists())
            self.assert_exit(self.simulated("--memory", "2MiB", "--resume", np=3 - np, target=self.target), 0)
            self.assertEqual(snapshot(self.target), expected)

    def test_signals_end_it_in_order(self):
        result = self.simulated("--memory", "2MiB", np=2, RESHARD_TEST_SIGNAL=f"{int(signal.SIGTERM)}:unpacked:w:2:0")
        self.assert_exit(result, 128 + signal.SIGTERM)
        self.assert_exit(self.simulated("--memory", "2MiB", "--resume", np=2, target=self.target), 0)
        self.assertEqual(snapshot(self.target), self.expected())

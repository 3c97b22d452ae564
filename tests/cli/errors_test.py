"""Failures at several processes: one verdict, one exit code, everybody ends, nothing is published."""

import contextlib
import hashlib
import os
import pathlib
import signal
import time
import unittest

import schemas
from stopped import Stopped, descendants
from support import Case, command, environment, execute, is_hydra
from tensors import even, iota, noise

ROOT = os.geteuid() == 0
SMALL_DISK = ["unshare", "--mount", "sh", "-c"]


def small_disks():
    """Whether this process may mount a file system of its own."""
    return os.path.exists("/usr/bin/unshare") and ROOT and os.system("unshare --mount mount -t tmpfs -o size=1m tmpfs /mnt 2>/dev/null") == 0


class OneVerdict(Case):
    def setUp(self):
        super().setUp()
        self.w = iota(16, 4)
        self.source = self.ranks([{"w": s} for s in even(self.w, 0, 4)])
        self.four = self.tp_plan(4, 2, ("w", {"0": "tp"}))

    def assert_agreed(self, code, words, np=4):
        result = self.run_plan(self.four, self.source, np=np)
        self.assert_refused(result, code, "E_", words=words)
        self.assertLess(result.seconds, 15)
        return result

    def test_COL_2_a_truncated_file(self):
        for rank in (2, 0):
            path = self.source / f"rank-0000{rank}.safetensors"
            content = path.read_bytes()
            path.write_bytes(content[:-1])
            for np in (1, 4):
                self.assert_agreed(4, [path.name], np)
            path.write_bytes(content)

    @unittest.skipIf(ROOT, "root reads every file")
    def test_COL_2_an_unreadable_file(self):
        path = self.source / "rank-00002.safetensors"
        path.chmod(0)
        for np in (1, 4):
            self.assert_agreed(5, [path.name], np)

    def test_a_directory_in_place_of_a_file(self):
        path = self.source / "rank-00002.safetensors"
        path.unlink()
        path.mkdir()
        for np in (1, 4):
            result = self.run_plan(self.four, self.source, np=np)
            self.assertIn(result.code, (4, 5), str(result))
            self.assertIn(path.name, result.err)
            self.assertFalse(self.target.exists())

    def test_a_message_that_cannot_be_written_changes_no_exit_code(self):
        for script in ('"$@" 2>/dev/full', '"$@" 2>&-', '"$@" >/dev/full 2>/dev/full'):
            result = execute(["bash", "-c", script, "bash", *command("run", self.four, "--source", self.dir / "nowhere", "--target", self.dir / "t")])
            self.assert_exit(result, 4)

    def test_a_large_report_that_cannot_be_written_is_an_error(self):
        source = self.full({f"layers.{i}.weight": iota(4) for i in range(300)}, name="many")
        plan = self.tp_plan(0, 2, ("**", {"0": "tp"}))
        report = self.dir / "report"
        for words in (("plan", plan, "--source", source, "--report", "json"), ("plan", plan, "--source", source, "--report", "html"),
                      ("inspect", source, "--report", "json")):
            with self.subTest(words=words):
                result = execute(["bash", "-c", '"$@" >/dev/full', "bash", *command(*words)])
                self.assert_exit(result, 5)
                self.assertIn("standard output", result.err)
                result = execute(["bash", "-c", 'ulimit -f 1; "$@"', "bash", *command(*words, "--output", report)])
                self.assert_exit(result, 5)
                self.assertIn("File too large", result.err)
                self.assertEqual(report.read_text(), "")

    def test_help_that_cannot_be_written_is_an_error(self):
        for words in (("--help",), ("--version",), ("run", "--help")):
            result = execute(["bash", "-c", '"$@" >/dev/full', "bash", *command(*words)])
            self.assert_exit(result, 5)
            self.assertIn("standard output", result.err)

    def test_no_command_of_that_name(self):
        for words in (("foo",), ("foo", "--help")):
            result = self.reshard(*words)
            self.assert_exit(result, 2)
            self.assertIn("'foo'", result.err)

    def test_the_message_appears_once(self):
        (self.source / "rank-00002.safetensors").unlink()
        result = self.assert_agreed(4, ["rank-00002.safetensors"])
        self.assertEqual(len([line for line in result.err.splitlines() if "E_MISSING" in line and "rank-00002" in line]), 1, str(result))

    def test_the_error_report_is_one_json_document(self):
        (self.source / "rank-00002.safetensors").unlink()
        for np in (1, 4):
            result = self.run_plan(self.four, self.source, "--report", "json", np=np)
            self.assert_exit(result, 4)
            report = result.json()
            self.assertEqual((report["schema"], report["version"], set(report)), ("reshard.error", 1, {"schema", "version", "errors"}))
            self.assertEqual([error["code"] for error in report["errors"]], ["E_MISSING"])
            self.assertEqual(set(report["errors"][0]), {"code", "where", "tensor", "message"})

    def test_usage_errors_are_reported_too(self):
        run = ("run", self.four, "--source", self.source, "--target", self.dir / "t")
        for words, named in (((*run, "--threads", "x"), "--threads"), (("plan", self.four, "--processes", "0"), "--processes"), (("plan",), "PLAN"),
                             ((*run, "--memory", ""), "--memory"), (("frobnicate",), "frobnicate"), ((*run, "--frobnicate"), "--frobnicate")):
            with self.subTest(words=[str(word) for word in words]):
                plain = self.reshard(*words)
                self.assert_refused(plain, 2, "E_USAGE", words=(named,), target=self.dir / "t")
                self.assertEqual(plain.out, "")
                for report in (("--report", "json"), ("--report=json",)):
                    result = self.reshard(*words, *report)
                    self.assert_exit(result, 2)
                    self.assertEqual(len(result.err.splitlines()), 1, str(result))
                    document = result.json()
                    if schemas.available:
                        self.assertEqual(schemas.problems("report-error", document), [])
                    self.assertEqual(document["schema"], "reshard.error")
                    error, = document["errors"]
                    self.assertEqual(error["code"], "E_USAGE")
                    self.assertIn(named, error["message"])
        result = self.reshard("plan", "--report", "json", np=3)
        self.assert_exit(result, 2)
        self.assertEqual(result.json()["schema"], "reshard.error")
        self.assertEqual(self.reshard("plan", "--report", "text").out, "")

    def test_set_takes_numbers_as_plans_write_them(self):
        plan = self.plan({"reshard": 1, "vars": {"n": 2}, "target": {"axes": ["tp=${n}"]}, "tensors": [{"match": "**"}]})
        for number in ("04", "-04", "00", "-00"):
            result = self.reshard("plan", plan, "--check", "--set", f"n={number}")
            self.assert_refused(result, 2, "E_USAGE", words=(f"--set n={number}", "leading zeros"))
        self.assert_exit(self.reshard("plan", plan, "--check", "--set", "n=40"), 0)
        for number in ("0", "-1"):  # numbers, but no sizes of an axis
            self.assert_exit(self.reshard("plan", plan, "--check", "--set", f"n={number}"), 3)

    def test_a_staging_directory_that_cannot_be_made(self):
        target = self.dir / "target"
        pathlib.Path(f"{target}.partial").write_text("a file in the way")
        for np in (1, 2):
            result = self.run_plan(self.four, self.source, np=np, target=target)
            self.assert_exit(result, 2)
            self.assertFalse(target.exists())


class DuringARun(Case):
    def setUp(self):
        super().setUp()
        self.target = self.dir / "target"
        self.partial = self.dir / "target.partial"

    def test_BI_33_a_source_that_shrinks(self):
        for processes in (1, 3):
            with self.subTest(processes=processes), Stopped(self, self.target, processes) as stopped:
                os.truncate(stopped.source / "model.safetensors", 100_000)
                result = stopped.go_on()
                self.assert_exit(result, 5)
                self.assert_error_lines(result, "E_IO")
                self.assertIn("model.safetensors", result.err)
                self.assertFalse(self.target.exists())
            self.clear(stopped)

    def test_BI_34_one_process_killed(self):
        for victim in (0, 2):
            with self.subTest(victim=victim), Stopped(self, self.target, 3) as stopped:
                os.kill(stopped.workers()[victim], signal.SIGKILL)
                result = stopped.go_on()
                self.assertNotEqual(result.code, 0)
                self.assertLess(result.seconds, 10)
                self.assertFalse(self.target.exists())
                self.assertTrue(self.partial.exists())
                self.assert_exit(stopped.again("--resume"), 0)
                self.assert_files(self.target, stopped.expected)
            self.clear(stopped)

    def test_BI_34_the_launcher_is_told_to_end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number), Stopped(self, self.target, 2, size=45_000_000) as stopped:
                workers, everything = stopped.workers(), descendants(stopped.process.pid)
                stopped.process.send_signal(number)
                for pid in everything:  # without a launcher they are nobody's descendants
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                result = stopped.go_on()
                # The launcher may take its time to pass it on: all may have ended well by then. MPICH's may lose the code (README).
                is_told = is_hydra() and "E_INTERRUPTED" in result.err
                self.assertTrue(result.code != 0 or self.target.exists() or is_told, str(result))
                deadline = time.monotonic() + 10
                while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertLess(time.monotonic(), deadline, "processes are left")
                self.assertNotEqual(self.partial.exists(), self.target.exists())
                self.assert_exit(stopped.again("--resume"), 0)
                self.assert_files(self.target, stopped.expected)
            self.clear(stopped)

    def clear(self, stopped):
        for folder in (self.target, self.partial, stopped.source):
            if folder.exists():
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()


@unittest.skipUnless(small_disks(), "may not mount a small file system")
class FullDisk(Case):
    """BI-32."""

    def test_ATM_3_a_full_disk(self):
        source = self.full({"w": noise("w", 1024, 1024)})  # 4 MiB onto 1 MiB
        disk = self.dir / "disk"
        disk.mkdir()
        for extra in ((), ("--target-format", "hdf5")):
            for np in (1, 2):
                with self.subTest(options=extra, processes=np):
                    words = command("run", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", source, "--target", disk / "target", *extra, np=np)
                    script = 'mount -t tmpfs -o size=1m tmpfs "$0" && "$@"; code=$?; ls "$0" | sed "s/^/LEFT /" >&2; exit $code'
                    result = execute([*SMALL_DISK, script, disk, *words], env=environment())
                    self.assert_exit(result, 5)
                    self.assert_error_lines(result, "E_IO")
                    self.assertIn("target.partial", result.err)
                    self.assertNotIn("LEFT target\n", result.err)


    def test_ATM_3_more_room_and_it_goes_on(self):
        source = self.full({"w": noise("w", 32, 1024, 1024, dtype="U8")})  # 32 MiB onto 20
        disk = self.dir / "disk"
        disk.mkdir()
        for np in (1, 2):
            with self.subTest(processes=np):
                words = command("run", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", source, "--target", disk / "target", "--resume", "--report", "json", np=np)
                script = ('mount -t tmpfs -o size=20m tmpfs "$0" && "$@" >&2; code=$?; mount -o remount,size=50m "$0" && "$@" && ls "$0" | sed "s/^/LEFT /" >&2; '
                          'cat "$0"/target/rank-0000*.safetensors | sha256sum >&2; exit $code')
                result = execute([*SMALL_DISK, script, disk, *words], env=environment())
                self.assert_exit(result, 5)
                self.assertGreater(result.json()["bytes_resumed"], 0)
                self.assertIn("LEFT target\n", result.err)
                self.assertNotIn("LEFT target.partial", result.err)
                whole = self.convert(self.dir / "plan.json", source)
                expected = hashlib.sha256(b"".join((whole / f"rank-0000{rank}.safetensors").read_bytes() for rank in (0, 1))).hexdigest()
                self.assertIn(expected, result.err)


class ReadOnly(Case):
    @unittest.skipUnless(ROOT and small_disks(), "may not mount a read-only file system")
    def test_BI_32_a_read_only_target_is_found_before_any_byte_moves(self):
        source = self.full({"w": iota(4)})
        disk = self.dir / "disk"
        disk.mkdir()
        for np in (1, 2):
            words = command("run", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", source, "--target", disk / "target", np=np)
            result = execute([*SMALL_DISK, 'mount -t tmpfs -o ro,size=1m tmpfs "$0" && "$@"', disk, *words])
            self.assert_exit(result, 5)
            self.assert_error_lines(result, "E_IO")
            self.assertIn("target", result.err)

    @unittest.skipIf(ROOT, "root writes everywhere")
    def test_BI_32_a_directory_without_write_permission(self):
        source = self.full({"w": iota(4)})
        folder = self.dir / "folder"
        folder.mkdir(mode=0o555)
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), source, target=folder / "target")
        self.assert_exit(result, 5)
        self.assert_error_lines(result, "E_IO")

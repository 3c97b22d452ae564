"""Runs that end halfway: what they leave, and that --resume makes of it what an undisturbed run would have made."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from ended import COUNT_IO, Ended, MIB, WrittenBytes, needs_strace
from support import command, crc64, environment, execute, needs_plain_build, read_header, snapshot, write_safetensors
from tensors import Tensor, iota


class Killed(Ended):
    def test_at_many_points_it_goes_on_to_the_same_bytes(self):
        for target_format in ("safetensors", "hdf5"):
            options = ("--target-format", target_format)
            shutil.rmtree(self.dir / "undisturbed", ignore_errors=True)
            expected = self.undisturbed(*options)
            for share, np in ((0, 1), (0.02, 3), (0.3, 2), (0.6, 1), (0.97, 1)):
                with self.subTest(format=target_format, share=share, np=np):
                    result = self.end(signal.SIGKILL, int(share * self.buffers), *options)
                    self.assertEqual(result.code, -signal.SIGKILL)
                    self.assertFalse(self.target.exists())
                    self.assertFalse((self.partial / "reshard.json").exists())
                    told = sum(length for _, _, length, _ in self.extents())
                    report = self.assert_resumed(*options, np=np, expected=expected)
                    self.assertGreaterEqual(report["bytes_resumed"], share * 96 * MIB - 10 * MIB)
                    self.assertLessEqual(report["bytes_resumed"], told)
                    self.clear()

    def test_half_of_the_way_is_not_gone_twice(self):
        for np, transport in ((1, "direct"), (2, "mpi")):
            with self.subTest(np=np, transport=transport):
                process = np - 1
                result = self.end(signal.SIGKILL, self.buffers // 2 // np, "--transport", transport, np=np, process=process)
                self.assertNotEqual(result.code, 0)
                self.assertLess(result.seconds, 20)
                report = self.assert_resumed("--transport", transport, np=np)
                self.assertGreater(report["bytes_resumed"], 96 * MIB / 3 - (np - 1) * 8 * MIB)
                self.clear()

    def test_little_is_written_twice(self):
        def written(prefix, *options, buffer=None):
            folder = self.dir / prefix
            folder.mkdir()
            changes = {"RESHARD_TEST_SIGNAL": f"9:unpacked:w:{buffer}:0"} if buffer is not None else {}
            execute([sys.executable, COUNT_IO, *command(*self.words(*options))], env=environment(COUNT_IO_FOLDER=str(folder), **changes))
            return sum(json.loads(path.read_text())["wchar"] for path in folder.iterdir())

        once = written("once")
        self.clear()
        for share in (0.1, 0.5, 0.9):
            first = written(f"first-{share}", buffer=int(share * self.buffers))
            self.assertLess(first, once)
            rest = written(f"rest-{share}", "--resume")
            self.assertLess(first + rest - once, 12 * MIB)
            self.clear()

    def test_again_and_again_by_other_numbers_of_processes(self):
        self.assertEqual(self.end(signal.SIGKILL, self.buffers // 4).code, -signal.SIGKILL)
        before = 0
        for np, transport, share in ((2, "mpi", 0.3), (3, "direct", 0.2), (1, "direct", 0.8)):
            result = self.end(signal.SIGKILL, int(share * self.buffers / np), "--resume", "--transport", transport, np=np)
            self.assertNotEqual(result.code, 0)
            told = sum(length for _, _, length, _ in self.extents())
            self.assertGreaterEqual(told, before)
            before = told
        self.assertGreater(self.assert_resumed(np=2)["bytes_resumed"], 50 * MIB)

    def test_the_journal_tells_what_is_in_the_files(self):
        self.end(signal.SIGKILL, self.buffers // 8)
        extents = self.extents()
        self.assertGreaterEqual(sum(length for _, _, length, _ in extents), 4 * MIB)
        file, offset, length, digest = min(extents, key=lambda extent: extent[2])
        self.assertEqual(crc64((self.partial / file).read_bytes()[offset:offset + length]), digest)
        for file, offset, length, _ in extents:
            self.assertEqual(offset // (64 * MIB), (offset + length - 1) // (64 * MIB))

    def test_signals_end_it_in_order_and_it_goes_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for np, transport in ((1, "direct"), (2, "mpi")):
                with self.subTest(signal=number, np=np):
                    start = time.monotonic()
                    result = self.end(number, self.buffers // 2 // np, "--transport", transport, np=np)
                    self.assert_exit(result, 128 + number)
                    self.assertLess(time.monotonic() - start, 10)
                    self.assertEqual([error["code"] for error in result.json()["errors"]], ["E_INTERRUPTED"])
                    self.assertTrue(self.partial.exists())
                    self.assertGreater(self.assert_resumed(np=np)["bytes_resumed"], 96 * MIB / 2.2)
                    self.clear()

    def test_what_a_killed_process_wrote_it_has_told(self):
        # All but less than 64 MiB; the journal is written every few MiB.
        buffer = self.buffers // 2 // 2
        self.end(signal.SIGKILL, buffer, "--transport", "direct", np=2, process=1)
        journal = (self.partial / "journal.1").read_text().splitlines()[1:]
        told = sum(int(line.split()[-2]) for line in journal)
        self.assertGreater(told, buffer * (MIB // 2 // 8) - 12 * MIB)
        self.assertGreater(self.assert_resumed("--transport", "direct", np=2)["bytes_resumed"], told)

    def test_verify_reads_what_both_runs_have_written(self):
        for np in (1, 2):
            with self.subTest(np=np):
                self.end(signal.SIGKILL, self.buffers // 2)
                result = self.go("--resume", "--verify", np=np, env=environment(RESHARD_TEST_FLIP="readback:w:0:0"))
                self.assert_exit(result, 70)
                self.assert_error_lines(result, "E_DIGEST")
                self.assertFalse(self.target.exists())
                self.assertFalse((self.partial / "reshard.json").exists())
                self.assertGreater(self.assert_resumed("--verify", np=np)["bytes_resumed"], 90 * MIB)
                self.clear()

    def test_an_old_target_stays_whatever_ends_the_run(self):
        old = self.put_old_target()
        for number, np in ((signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGKILL, 2)):
            with self.subTest(signal=number, np=np):
                self.assertNotEqual(self.end(number, self.buffers // 4 // np, "--overwrite", np=np, process=np - 1).code, 0)
                self.assertEqual(snapshot(self.target), old)
                self.assert_exit(self.reshard("verify", self.target), 0)
                self.assert_exit(self.reshard("verify", self.partial), 4)
        self.assert_resumed("--overwrite", np=2)

    def test_an_old_target_stays_until_the_new_one_is_there(self):
        old = self.put_old_target()
        self.end(signal.SIGKILL, self.buffers // 2, "--overwrite")
        self.assertEqual(snapshot(self.target), old)
        self.assert_exit(self.go("--resume"), 2)  # the old target is in the way
        self.assertEqual(snapshot(self.target), old)
        self.assertGreater(self.assert_resumed("--overwrite")["bytes_resumed"], 30 * MIB)

    def test_sets_folders_and_side_files(self):
        numbered = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "97MiB"}, "tensors": [{"match": "**"}]}, "numbered.json")
        folders = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], "files": "part {tp}/of/model"},
                             "tensors": [{"match": "w", "shard": {"0": "tp"}}, {"match": "**"}]}, "folders.json")
        for plan in (numbered, folders):
            with self.subTest(plan=plan.name):
                shutil.rmtree(self.dir / "undisturbed", ignore_errors=True)
                expected = self.undisturbed("--copy-side-files", plan=plan)
                self.assertIn("config.json", expected)
                self.assertEqual(self.end(signal.SIGKILL, self.buffers // 8 // 2, plan=plan).code, -signal.SIGKILL)
                # What a run leaves that was ended while it published.
                (self.partial / "config.json").write_text("of an earlier source")
                (self.partial / "journal.scratch.0").write_text("{")
                self.assertGreater(self.assert_resumed("--copy-side-files", plan=plan, expected=expected)["bytes_resumed"], 20 * MIB)
                self.clear()


@needs_plain_build
@needs_strace
class WrittenTwice(Ended):
    """Of all bytes that both runs hand to the system: what strace sees, not what reports say."""

    rows = 12288  # 192 MiB

    def test_is_little_and_half_of_the_way_is_resumed(self):
        expected = self.undisturbed()
        once = sum(path.stat().st_size for path in (self.dir / "undisturbed").glob("rank-*"))

        def written(name, *options, np, **environ):
            count = WrittenBytes(self.dir / name)
            result = execute([*count.words, *command(*self.words(*options), np=np)], env=environment(**environ), timeout=120)
            return result, count.total()

        for np, transport in ((1, "direct"), (3, "direct"), (1, "mpi"), (3, "mpi")):
            with self.subTest(np=np, transport=transport):
                options = ("--transport", transport)
                result, first = written("first", *options, np=np, RESHARD_TEST_SIGNAL=f"9:unpacked:w:{self.buffers // 2 // np}:{np - 1}")
                self.assertNotEqual(result.code, 0)
                self.assertFalse(self.target.exists())
                result, rest = written("rest", "--resume", *options, np=np)
                self.assert_exit(result, 0)
                self.assertEqual(snapshot(self.target), expected)
                resumed = result.json()["bytes_resumed"]
                self.assertTrue(0.4 < first / once < 0.75, (first, once))
                self.assertGreater(resumed, once / 3)
                self.assertGreaterEqual(first + rest, once)
                self.assertLess(first + rest - once, 64 * MIB * np)
                # The journal is written every 8 MiB; what the threads are at comes on top.
                self.assertLess(first + rest - once, 12 * MIB * np)
                self.assertAlmostEqual(rest, once - resumed, delta=MIB)  # headers
                self.clear()


class Damaged(Ended):
    """What a crash of the machine, or anything else, has done to the files in between."""

    def leave(self, *options):
        self.undisturbed(*options)
        self.assertEqual(self.end(signal.SIGKILL, self.buffers * 3 // 4, *options).code, -signal.SIGKILL)
        return sum(length for _, _, length, _ in self.extents())

    def overwrite(self, file, offset, data):
        with open(self.partial / file, "r+b") as stream:
            stream.seek(offset)
            stream.write(data)

    def test_extents_that_do_not_hold_what_they_say_are_written_again(self):
        told = self.leave()
        extents = self.extents()
        for file, offset, length, _ in extents[:2]:
            self.overwrite(file, offset + length // 2, b"\xff" * 7)
        resumed = self.assert_resumed(np=2)["bytes_resumed"]
        self.assertLess(resumed, told)
        self.assertGreater(resumed, told // 2)

    def test_files_that_are_gone_short_or_have_another_header(self):
        for target_format, extension in (("safetensors", "safetensors"), ("hdf5", "h5")):
            with self.subTest(format=target_format):
                shutil.rmtree(self.dir / "undisturbed", ignore_errors=True)
                told = self.leave("--target-format", target_format)
                (self.partial / f"rank-00000.{extension}").unlink()
                os.truncate(self.partial / f"rank-00001.{extension}", 10 * MIB)
                self.overwrite(f"rank-00002.{extension}", 20, b"\xff")
                os.truncate(self.partial / f"rank-00003.{extension}", 20 * MIB)
                (self.partial / f"rank-00004.{extension}").unlink()
                (self.partial / f"rank-00004.{extension}").symlink_to(self.source / "model.safetensors")
                resumed = self.assert_resumed("--target-format", target_format, np=3)["bytes_resumed"]
                self.assertGreater(resumed, 0)
                self.assertLessEqual(resumed, told // 2 + MIB)  # four files of eight, and small tensors
                self.clear()

    def test_padding_is_zero_whatever_was_there(self):
        self.leave()
        file = self.partial / "rank-00007.safetensors"
        header, start = read_header(file)
        first, last = header["padded"]["data_offsets"]
        self.overwrite(file.name, start + first, b"\xff" * (last - first))
        self.assert_resumed()

    def test_journals_that_are_torn_or_gone(self):
        for damage in ("gone", "empty", "torn", "noise", "lines"):
            with self.subTest(damage=damage):
                self.leave()
                journal = self.partial / "journal"
                content = journal.read_bytes()
                if damage == "gone":
                    journal.unlink()
                elif damage == "lines":
                    lines = content.splitlines(keepends=True)
                    journal.write_bytes(b"".join([*lines[:3], b"rank-00000.safetensors 0 99999999999 0000000000000000\n", b"\x00\xff\n", *lines[4:]]))
                else:
                    journal.write_bytes({"empty": b"", "torn": content[:len(content) // 2 + 5], "noise": os.urandom(1000)}[damage])
                if damage in ("torn", "lines"):
                    self.assertGreater(self.assert_resumed()["bytes_resumed"], 20 * MIB)
                else:  # nothing tells whose files these are
                    before = snapshot(self.partial)
                    self.assert_exit(self.go("--resume"), 2)
                    self.assertEqual(snapshot(self.partial), before)
                    self.assert_exit(self.go("--overwrite"), 0)
                    self.assertEqual(snapshot(self.target), self.undisturbed())
                self.clear()


class Refused(Ended):
    def assert_untouched(self, result, code, *words):
        self.assert_exit(result, code)
        for word in words:
            self.assertIn(word, result.err)
        self.assertEqual(snapshot(self.partial), self.before)
        self.assertFalse(self.target.exists())

    def leave(self):
        self.end(signal.SIGKILL, self.buffers // 2)
        self.before = snapshot(self.partial)
        return re.search("[0-9a-f]{16}", (self.partial / "journal").read_text()).group()

    def test_without_an_option_the_choices_are_named(self):
        self.leave()
        self.assert_untouched(self.go(), 2, "E_EXISTS", "target.partial", "--resume", "--overwrite")

    def test_another_plan_or_source_is_refused_with_both_digests(self):
        digest = self.leave()
        other = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**"}]}, "other.json")
        theirs = json.loads(execute(command("plan", other, "--source", self.source, "--report", "json")).out)["plan_digest"]
        for options in ((), ("--overwrite",)):
            for np in (1, 2):
                self.assert_untouched(self.go("--resume", *options, plan=other, np=np), 2, "E_EXISTS", digest, theirs)
        write_safetensors(self.source / "model.safetensors", {**self.tensors, "new": iota(1)})
        self.assert_exit(self.go("--resume", "--allow-extra"), 2)
        self.assert_exit(self.go("--overwrite", plan=other), 0)

    def test_other_bytes_in_the_source(self):
        self.leave()
        w = self.tensors["w"]
        changed = bytearray(w.data)
        changed[1000] ^= 1  # in the first row, which is there already
        write_safetensors(self.source / "model.safetensors", {**self.tensors, "w": Tensor(w.dtype, w.shape, bytes(changed))})
        for np in (1, 2):
            result = self.go("--resume", np=np)
            self.assert_exit(result, 4)
            self.assert_error_lines(result, "E_DIGEST")
            self.assertIn("rank-0000", result.err)
            self.assertIn("source has changed", result.err)
            self.assertFalse(self.target.exists())
            self.assertFalse((self.partial / "reshard.json").exists())
        self.assert_exit(self.go("--overwrite"), 0)
        self.assertEqual(snapshot(self.target), self.undisturbed())

    def test_a_second_run_while_the_first_lives(self):
        process = subprocess.Popen([str(word) for word in command(*self.words())], stdout=subprocess.DEVNULL,
                                   env=environment(RESHARD_TEST_SIGNAL=f"{int(signal.SIGSTOP)}:unpacked:w:{self.buffers // 2}:0"))
        try:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            for options in ((), ("--resume",), ("--overwrite",), ("--resume", "--overwrite")):
                self.assert_exit(self.go(*options), 2)
        finally:
            process.send_signal(signal.SIGCONT)
            self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(snapshot(self.target), self.undisturbed())

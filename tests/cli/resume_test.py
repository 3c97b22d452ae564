"""Runs that end halfway: what they leave, and that --resume makes of it what an undisturbed run would have made."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import unittest

from stopped import descendants
from support import (BINARY, MPIEXEC, Case, Result, command, crc64, environment, execute, needs_plain_build, read_header,
                     snapshot, write_safetensors)
from tensors import Tensor, iota

MIB = 1 << 20
COUNT_IO = pathlib.Path(__file__).with_name("count_io.py")
STRACE = shutil.which("strace")


def may_trace():
    """Whether this process may watch its children."""
    return STRACE is not None and subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True).returncode == 0


needs_strace = unittest.skipUnless(may_trace(), "strace is not there or may not trace")


def stopped_below(process, timeout=30):
    """The process of the group that stands still."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        for pid in descendants(process.pid):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
                    return pid
        time.sleep(0.01)
    raise AssertionError(f"nothing has stopped: {process.poll()}")


@contextlib.contextmanager
def stopped_at(place, words):
    """A run of which one process stands still at a phase or a buffer; behind the block it goes on, and `result` is there."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               env=environment(RESHARD_TEST_SIGNAL=f"{int(signal.SIGSTOP)}:{place}"))
    run = types.SimpleNamespace()
    try:
        stopped = stopped_below(process)
        yield run
        start = time.monotonic()
        os.kill(stopped, signal.SIGCONT)
        out, err = process.communicate(timeout=60)
        run.result = Result(process.returncode, out.decode(), err.decode(), time.monotonic() - start)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


class Ended(Case):
    """One matrix cut by columns over eight ranks, all of whose files are open at a time, and small ones."""

    rows, columns = 6144, 4096  # 96 MiB

    def setUp(self):
        super().setUp()
        self.source = self.dir / "source"
        self.tensors = {"w": Tensor("F32", (self.rows, self.columns), os.urandom(self.rows * self.columns * 4)),
                        "padded": iota(50, 11, dtype="I16"), "converted": iota(64, 64), "whole": iota(3)}
        write_safetensors(self.source / "model.safetensors", self.tensors)
        (self.source / "config.json").write_text("{}")
        self.eight = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=8"]}, "tensors": [
            {"match": "w", "shard": {"1": "tp"}}, {"match": "padded", "target": {"shard": {"0": {"axes": "tp", "pad_to": 16}}}},
            {"match": "converted", "shard": {"0": "tp"}, "dtype": "bf16"}, {"match": "whole"}]})
        # Buffers of 'w' on their way to the files of one process: it is moved in pieces of half a MiB, each for eight ranks.
        self.buffers = 8 * self.rows * self.columns * 4 // (MIB // 2)
        self.target = self.dir / "target"
        self.partial = self.dir / "target.partial"

    def words(self, *options, plan=None, target=None):
        return ["run", plan or self.eight, "--source", self.source, "--target", target or self.target, "--quiet", "--report", "json", *options]

    def go(self, *options, np=1, env=None, **places):
        return execute(command(*self.words(*options, **places), np=np), env=env or environment())

    def end(self, number, buffer, *options, np=1, process=0, **places):
        """A run that gets a signal at a buffer of 'w' on one process."""
        return self.go(*options, np=np, env=environment(RESHARD_TEST_SIGNAL=f"{int(number)}:unpacked:w:{buffer}:{process}"), **places)

    def put_old_target(self):
        """A finished target of another plan."""
        shutil.rmtree(self.target, ignore_errors=True)
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "unmatched": "drop", "tensors": [{"match": "whole"}]}, "old.json")
        self.assert_exit(self.go(plan=plan), 0)
        return snapshot(self.target)

    def undisturbed(self, *options, **places):
        target = self.dir / "undisturbed"
        if not target.exists():
            self.assert_exit(self.go(*options, target=target, **places), 0)
        return snapshot(target)

    def assert_resumed(self, *options, np=1, expected=None, **places):
        """Goes on, and gives the report."""
        result = self.go("--resume", *options, np=np, **places)
        self.assert_exit(result, 0)
        self.assertEqual(snapshot(self.target), expected or self.undisturbed())
        self.assertFalse(self.partial.exists())
        return result.json()

    def clear(self):
        for folder in (self.target, self.partial):
            shutil.rmtree(folder, ignore_errors=True)

    def extents(self):
        """(file, offset, length, digest) of every line of every journal."""
        found = []
        for journal in self.partial.glob("journal*"):
            first, *lines = journal.read_text().splitlines()
            self.assertRegex(first, "^reshard journal 1 [0-9a-f]{16}$")
            for line in lines:
                file, offset, length, digest = line.rsplit(" ", 3)
                found.append((file, int(offset), int(length), digest))
        return found


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
                    report = self.assert_resumed(*options, np=np, expected=expected)
                    self.assertGreaterEqual(report["bytes_resumed"], share * 96 * MIB - 10 * MIB)
                    self.assertLessEqual(report["bytes_resumed"], share * 96 * MIB + MIB)
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
                (self.partial / "tokenizer.json").write_text("of an earlier source")
                (self.partial / "reshard.json.tmp").write_text("{")
                self.assertGreater(self.assert_resumed("--copy-side-files", plan=plan, expected=expected)["bytes_resumed"], 20 * MIB)
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
                self.assertLessEqual(resumed, told // 2)
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


class Strays(Ended):
    """Files that somebody else has put into the staging directory."""

    rows, columns = 64, 64

    def test_a_stray_file_is_named_and_nothing_is_published(self):
        expected = self.undisturbed()
        for np, options in ((1, ()), (2, ("--overwrite",))):
            with self.subTest(np=np):
                old = self.put_old_target() if options else None
                stray = self.partial / "notes.txt"
                with stopped_at("publish:0", command(*self.words(*options), np=np)) as run:
                    stray.write_text("mine")
                result = run.result
                self.assert_exit(result, 2)
                self.assertEqual([(error["code"], error["where"]) for error in result.json()["errors"]], [("E_EXISTS", str(stray))])
                self.assert_error_lines(result, "E_EXISTS")
                self.assertEqual(snapshot(self.target) if self.target.exists() else None, old)
                self.assert_exit(self.go("--resume", *options, np=np), 2)  # still there
                self.assertEqual(stray.read_text(), "mine")
                stray.unlink()
                self.assert_resumed(*options, np=np, expected=expected)
                self.clear()

    def test_a_directory_of_somebody_else_is_left_alone(self):
        self.partial.mkdir()
        (self.partial / "notes.txt").write_text("mine")
        for np in (1, 2):
            for options in ((), ("--resume",), ("--resume", "--overwrite")):
                result = self.go(*options, np=np)
                self.assert_exit(result, 2)
                self.assert_error_lines(result, "E_EXISTS")
                for word in ("target.partial", "notes.txt", "move it away", "--overwrite without --resume"):
                    self.assertIn(word, result.err)
                self.assertEqual((self.partial / "notes.txt").read_text(), "mine")
        (self.partial / "notes.txt").rename(self.dir / "notes.txt")
        self.assert_resumed()

    def test_it_goes_on_from_before_the_first_file(self):
        for place in ("stage:0", "create:0"):
            with self.subTest(place=place):
                result = self.go(env=environment(RESHARD_TEST_SIGNAL=f"9:{place}"))
                self.assertEqual(result.code, -signal.SIGKILL)
                self.assert_resumed()
                self.clear()

    def test_a_file_that_has_gone_is_named_and_nothing_is_published(self):
        with stopped_at("publish:0", command(*self.words())) as run:
            (self.partial / "rank-00003.safetensors").unlink()
        self.assert_exit(run.result, 4)
        self.assert_error_lines(run.result, "E_MISSING")
        self.assertIn("rank-00003.safetensors", run.result.err)
        self.assertFalse(self.target.exists())
        self.assert_exit(self.go("--overwrite"), 0)
        self.assertEqual(snapshot(self.target), self.undisturbed())


class Finished(Ended):
    rows, columns = 64, 64

    def test_from_nothing(self):
        report = self.assert_resumed(np=2)
        self.assertEqual((report["schema"], report["bytes_resumed"]), ("reshard.run", 0))

    def test_a_finished_target_stays_as_it_is(self):
        self.assert_exit(self.go(), 0)
        before = snapshot(self.target)
        inode = os.stat(self.target).st_ino
        for np in (1, 2):
            for options in ((), ("--overwrite",)):
                result = self.go("--resume", *options, np=np)
                self.assert_exit(result, 0)
                self.assertEqual((snapshot(self.target), os.stat(self.target).st_ino), (before, inode))
                report = result.json()
                self.assertEqual((report["bytes_resumed"], sum(report["bytes_read"])), (report["totals"]["bytes_written"], 0))
        text = self.reshard("run", self.eight, "--source", self.source, "--target", self.target, "--resume")
        self.assert_exit(text, 0)
        self.assertIn("finished already", text.out)

    def test_a_finished_target_that_lost_a_file_is_not_finished(self):
        self.assert_exit(self.go(), 0)
        whole = snapshot(self.target)
        name = sorted(path.name for path in self.target.iterdir() if path.suffix == ".safetensors")[0]
        for spoil in (lambda file: file.unlink(), lambda file: os.truncate(file, 8)):
            spoil(self.target / name)
            spoiled = snapshot(self.target)
            result = self.go("--resume")
            self.assert_exit(result, 2)
            self.assert_error_lines(result, "E_EXISTS")
            self.assertIn(name, result.err)
            self.assertEqual(snapshot(self.target), spoiled)
            self.assert_exit(self.go("--resume", "--overwrite"), 0)
            self.assertEqual(snapshot(self.target), whole)

    def test_side_files_that_a_finished_target_lacks_are_named(self):
        self.assert_exit(self.go(), 0)
        before = snapshot(self.target)
        for options in ((), ("--copy-side-files",)):
            report = self.go("--resume", *options).json()
            self.assertEqual((report["side_files"], report["side_files_left"]), ([], ["config.json"]))
            text = self.reshard("run", self.eight, "--source", self.source, "--target", self.target, "--resume", *options)
            self.assert_exit(text, 0)
            self.assertIn("finished already", text.out)
            self.assertRegex(text.out, "not copied +config.json")
            self.assertEqual(snapshot(self.target), before)
        self.assert_exit(self.go("--overwrite", "--copy-side-files"), 0)
        self.assertIn("config.json", snapshot(self.target))
        self.assertEqual(self.go("--resume", "--copy-side-files").json()["side_files_left"], [])

    def test_another_target_is_in_the_way(self):
        other = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**"}]}, "other.json")
        self.assert_exit(self.go(plan=other), 0)
        before = snapshot(self.target)
        result = self.go("--resume")
        self.assert_exit(result, 2)
        self.assert_error_lines(result, "E_EXISTS")
        self.assertEqual(snapshot(self.target), before)
        self.assert_resumed("--overwrite")

    def test_a_finished_target_that_was_not_renamed(self):
        for np in (1, 2):
            self.assert_exit(self.go(), 0)
            self.target.rename(self.partial)
            self.assert_exit(self.go(), 2)
            report = self.assert_resumed(np=np)
            self.assertEqual(sum(report["bytes_read"]), 0)
            self.clear()

    def test_verify_looks_at_it_before_it_is_renamed(self):
        self.assert_exit(self.go(), 0)
        file = self.target / "rank-00003.safetensors"
        content = file.read_bytes()
        self.target.rename(self.partial)
        file = self.partial / file.name
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        for np in (1, 2):
            result = self.go("--resume", "--verify", np=np)
            self.assert_exit(result, 70)
            self.assert_error_lines(result, "E_DIGEST")
            self.assertFalse(self.target.exists())
        file.write_bytes(content)
        self.assert_resumed("--verify", np=2)

    def test_the_journals_name_is_taken(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "files": "journal"}, "tensors": [{"match": "**"}]}, "journal.json")
        result = self.go(plan=plan)
        self.assert_exit(result, 3)
        self.assertIn("journal", result.err)
        (self.source / "journal").write_text("a diary")
        self.assert_exit(self.go("--copy-side-files"), 0)
        self.assertFalse((self.target / "journal").exists())


@needs_plain_build
@needs_strace
class Injected(Ended):
    """System calls that fail, or kill, at the point that is asked for."""

    rows, columns = 512, 4096  # 8 MiB

    def traced(self, inject, *options, np=1, process=0, timeout=60, words=None):
        """A run whose process number `process` has strace's injection."""
        trace = f'{STRACE} -f -qq -o /dev/null -e trace={inject.split(":")[0]} -e inject={inject.format(journal=self.partial / "journal")} "$@"'
        script = f'if [ "${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}}" = {process} ]; then exec {trace}; else exec "$@"; fi'
        launcher = [MPIEXEC, "-n", str(np)] if np > 1 else []
        return execute([*launcher, "sh", "-c", script, "sh", BINARY, *(words or self.words(*options))], timeout=timeout)

    def test_calls_that_fail(self):
        """BI-32 too: a disk that is full, or over its quota, at a write or only when files are flushed."""
        old = self.put_old_target()
        for inject, np, process in (("pwrite64:error=ENOSPC:when=5", 1, 0), ("pwrite64:error=EIO:when=9+", 3, 1),
                                    ("fsync:error=ENOSPC:when=1", 1, 0), ("fsync:error=EIO:when=2+", 3, 2), ("write:error=ENOSPC -P {journal}", 2, 0), ("write:error=ENOSPC", 1, 0),
                                    ("ftruncate:error=ENOSPC:when=2", 1, 0), ("mkdir:error=EDQUOT", 1, 0), ("renameat2:error=EIO", 2, 0),
                                    ("rename:error=EIO", 1, 0), ("flock:error=ENOLCK", 2, 0)):
            with self.subTest(inject=inject, np=np, process=process):
                result = self.traced(inject, "--overwrite", np=np, process=process)
                self.assert_exit(result, 5)
                self.assertLess(result.seconds, 10)
                self.assertEqual(snapshot(self.target), old)
                self.assertFalse((self.partial / "reshard.json").exists() and "rename" not in inject)
                self.assert_resumed("--overwrite", np=np)
                self.put_old_target()

    def test_signals_while_verifying_and_comparing(self):
        self.assert_exit(self.go(), 0)
        before = snapshot(self.dir)
        for words, path in ((("verify", self.target), self.target / "rank-00001.safetensors"),
                            (("compare", self.source, self.target, "--plan", self.eight), self.source / "model.safetensors")):
            for number, np in ((signal.SIGTERM, 1), (signal.SIGINT, 2)):
                with self.subTest(command=words[0], signal=number, np=np):
                    result = self.traced(f"pread64:signal={number.name}:when=2 -P {path} -e signal=none", np=np, process=np - 1, words=words)
                    self.assert_exit(result, 128 + number)
                    self.assertLess(result.seconds, 10)
                    self.assert_error_lines(result, "E_INTERRUPTED")
                    self.assertEqual(result.err.count("E_INTERRUPTED"), 1)
                    self.assertEqual(snapshot(self.dir), before)

    def test_kills_while_publishing(self):
        """At every flush, and before and after every renaming."""
        self.undisturbed("--copy-side-files")
        points = [f"fsync:signal=KILL:when={n}" for n in range(1, 16)] + ["rename:signal=KILL:when=1", "rename:signal=KILL:when=2", "rename:signal=KILL:when=3",
                                                                         "unlinkat:signal=KILL:when=1"]
        for inject in points:
            with self.subTest(inject=inject):
                self.traced(inject, "--copy-side-files")
                if self.target.exists():
                    self.assertEqual(snapshot(self.target), self.undisturbed())
                self.assert_resumed("--copy-side-files")
                self.clear()

    def test_kills_while_exchanging(self):
        for inject in ("renameat2:signal=KILL", "unlinkat:signal=KILL:when=2", "unlinkat:signal=KILL:when=3", "unlinkat:signal=KILL:when=5"):
            with self.subTest(inject=inject):
                old = self.put_old_target()
                self.traced(inject, "--overwrite")
                self.assertIn(snapshot(self.target), (old, self.undisturbed()))
                self.assert_resumed("--overwrite")
                self.clear()

    def test_a_file_system_that_cannot_exchange(self):
        for reason in ("EINVAL", "ENOSYS"):
            self.put_old_target()
            self.assert_exit(self.traced(f"renameat2:error={reason}", "--overwrite"), 0)
            self.assertEqual(snapshot(self.target), self.undisturbed())
            self.assertEqual([path.name for path in self.dir.glob("target*")], ["target"])
            self.clear()

    def test_something_at_the_place_of_the_old_target(self):
        self.assert_exit(self.go(), 0)
        mine = self.dir / "target.old"
        mine.mkdir()
        (mine / "notes.txt").write_text("mine")
        result = self.traced("renameat2:error=EINVAL", "--overwrite")
        self.assert_exit(result, 2)
        self.assertIn("target.old", result.err)
        self.assertEqual((mine / "notes.txt").read_text(), "mine")
        self.assertEqual(snapshot(self.target), self.undisturbed())
        shutil.rmtree(mine)
        self.assert_resumed("--overwrite")


class Vanishing(Ended):
    def test_the_staging_directory_goes_while_the_run_lives(self):
        for np, process in ((1, 0), (3, 1)):
            with self.subTest(np=np):
                place = f"unpacked:w:{self.buffers // 4 // np}:{process}"
                with stopped_at(place, command(*self.words("--transport", "mpi"), np=np)) as run:
                    shutil.rmtree(self.partial)
                result = run.result
                self.assert_exit(result, 5)
                self.assertLess(result.seconds, 10)
                self.assert_error_lines(result, "E_IO")
                self.assertFalse(self.target.exists())
                self.clear()

"""How a target is put in place: strays, finished targets, system calls that fail and kills on the way."""

import os
import shutil
import signal

from ended import Ended, needs_strace, stopped_at
from support import command, environment, execute, needs_plain_build, snapshot


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

    def test_an_empty_folder_of_somebody_is_not_published(self):
        with stopped_at("publish:0", command(*self.words())) as run:
            (self.partial / "deep" / "empty").mkdir(parents=True)
        self.assert_exit(run.result, 2)
        self.assert_error_lines(run.result, "E_EXISTS")
        shutil.rmtree(self.partial / "deep")
        self.assert_resumed()

    def test_what_somebody_put_beside_unfinished_files_is_left_alone(self):
        for np, options in ((1, ()), (2, ("--overwrite",))):
            self.assertNotEqual(self.go(np=np, env=environment(RESHARD_TEST_SIGNAL="9:flush:0")).code, 0)
            stray = self.partial / "mine" / "thesis.tex"
            stray.parent.mkdir()
            stray.write_text("mine")
            result = self.go("--resume", *options, np=np)
            self.assert_exit(result, 2)
            self.assert_error_lines(result, "E_EXISTS")
            self.assertIn(str(stray.parent), result.err)
            self.assertEqual(stray.read_text(), "mine")
            shutil.rmtree(stray.parent)
            self.assert_resumed(*options, np=np)
            self.clear()

    def test_a_source_that_changes_while_it_is_read(self):
        def written():
            with open(self.source / "model.safetensors", "r+b") as file:
                file.seek(-4, os.SEEK_END)
                file.write(b"\x01\x02\x03\x04")

        def replaced():
            shutil.copy(self.source / "model.safetensors", self.dir / "other")
            os.replace(self.dir / "other", self.source / "model.safetensors")

        for change, np in ((written, 1), (replaced, 2)):
            with self.subTest(change=change.__name__):
                with stopped_at("flush:0", command(*self.words(), np=np)) as run:
                    change()
                self.assert_exit(run.result, 4)
                self.assert_error_lines(run.result, "E_DIGEST")
                self.assertIn("model.safetensors: has changed while it was read", run.result.err)
                self.assertFalse(self.target.exists())
                self.clear()

    def test_a_target_that_appears_during_the_run_is_left_alone(self):
        def file():
            self.target.write_text("mine")

        def folder():
            self.target.mkdir()
            (self.target / "notes.txt").write_text("mine")

        for appear in (file, folder):
            with self.subTest(appear=appear.__name__):
                with stopped_at("publish:0", command(*self.words())) as run:
                    appear()
                self.assert_exit(run.result, 2)
                self.assert_error_lines(run.result, "E_EXISTS")
                for word in ("has appeared", "target.partial", "--resume"):
                    self.assertIn(word, run.result.err)
                if appear is folder:
                    self.assert_resumed("--overwrite")
                else:
                    self.assertEqual(self.target.read_text(), "mine")
                    self.target.unlink()
                    self.assert_resumed()
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

    def test_what_lies_beside_a_finished_target_is_told_and_kept(self):
        """A complete copy, newer, and one that a run was killed in: neither is this run's to remove without --overwrite."""
        self.assert_exit(self.go(), 0)
        before = snapshot(self.target)
        shutil.copytree(self.target, self.partial)
        os.utime(self.partial / "reshard.json")  # the later one of two
        for unfinished in (False, True):
            if unfinished:
                (self.partial / "reshard.json").unlink()
                (self.partial / "note").write_text("mine")
            there = snapshot(self.partial)
            report = self.go("--resume").json()
            self.assertIn(("W_PARTIAL", str(self.partial)), [(w["code"], w["where"]) for w in report["warnings"]])
            self.assertEqual((snapshot(self.target), snapshot(self.partial)), (before, there))

    def test_a_file_of_somebodys_is_not_removed_with_the_old_target(self):
        self.assert_exit(self.go(), 0)
        shutil.copytree(self.target, self.partial)
        os.utime(self.partial / "reshard.json", ns=(0, 0))  # the earlier one: what the finished target replaced
        (self.partial / "notes.txt").write_text("mine")
        both = snapshot(self.target), snapshot(self.partial)
        result = self.go("--resume")
        self.assert_exit(result, 2)
        self.assert_error_lines(result, "E_EXISTS")
        self.assertIn("notes.txt", result.err)
        self.assertEqual((snapshot(self.target), snapshot(self.partial)), both)
        (self.partial / "notes.txt").unlink()
        self.assert_exit(self.go("--resume"), 0)
        self.assertFalse(self.partial.exists())

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
                if inject.startswith("pwrite64") or inject.endswith("when=2+"):  # something was written by then
                    self.assertIn("; what was written is kept beside the target, --resume continues it", result.err)
                self.assertEqual(snapshot(self.target), old)
                self.assertFalse((self.partial / "reshard.json").exists() and "rename" not in inject)
                self.assert_resumed("--overwrite", np=np)
                self.put_old_target()

    def test_a_file_of_which_the_system_cannot_tell_is_not_one_that_is_not_there(self):
        """A source's manifest and side files too: an error of the disk ends the run, or did not matter."""
        small = self.plan({"reshard": 1, "target": {"axes": []}, "tensors": [{"match": "**"}]}, "small.json")
        self.assert_exit(self.go("--copy-side-files"), 0)  # a source with a manifest and side files
        source, self.target = self.target, self.dir / "next"
        words = ["run", small, "--source", source, "--target", self.target, "--copy-side-files", "--quiet"]
        self.assert_exit(execute(command(*words)), 0)
        expected = snapshot(self.target)
        for path in (source / "reshard.json", source / "config.json", source / "rank-00003.safetensors", self.dir / "next.partial"):
            for number in range(1, 5):
                with self.subTest(path=path.name, number=number):
                    shutil.rmtree(self.target, ignore_errors=True)
                    shutil.rmtree(self.dir / "next.partial", ignore_errors=True)
                    result = self.traced(f"newfstatat:error=EIO:when={number} -P {path}", words=words)
                    self.assert_exit(result, 5 if number == 1 or result.code else 0)
                    self.assertEqual(snapshot(self.target) if self.target.exists() else None, None if result.code else expected)

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


    def test_a_kill_before_the_directory_of_the_old_one_goes(self):
        """The next run finds the target finished: it writes nothing anew, and what is left goes."""
        for options in (("--resume",), ("--resume", "--overwrite")):
            with self.subTest(options=options):
                self.put_old_target()
                self.traced("rmdir:signal=KILL:when=1", "--overwrite")
                self.assertEqual(list(self.partial.iterdir()), [])
                before = {path.name: path.stat().st_ino for path in self.target.iterdir()}
                self.assert_exit(self.go(*options), 0)
                self.assertEqual(before, {path.name: path.stat().st_ino for path in self.target.iterdir()})
                self.assertFalse(self.partial.exists())
                self.assertEqual(snapshot(self.target), self.undisturbed())
                self.clear()

    def test_a_flush_that_fails_once_the_target_is_in_place(self):
        for options in ((), ("--overwrite",)):
            told = 0
            for number in range(1, 20):
                if options:
                    self.put_old_target()
                result = self.traced(f"fsync:error=EIO:when={number}", *options)
                if result.code == 0:
                    break
                self.assert_exit(result, 5)
                is_in_place = self.target.exists() and snapshot(self.target) == self.undisturbed()
                self.assertEqual("the new target is in place and complete" in result.err, is_in_place, result.err)
                told += is_in_place
                self.assert_exit(self.go("--resume", "--overwrite"), 0)
                self.assertEqual(snapshot(self.target), self.undisturbed())
                self.assertFalse(self.partial.exists())
                self.clear()
            self.assertEqual((result.code, told > 0), (0, True))
            self.clear()


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

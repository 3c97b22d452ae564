"""An old target on a file system that cannot exchange two directories: renames, kills and failures at each, and directories of others."""

import shutil

from ended import Ended, needs_strace
from support import command, execute, needs_plain_build, snapshot

NO_EXCHANGE = "renameat2:error=EINVAL"
# The calls of rename(2) of a run with --overwrite, by number: the first two are the journal's and the manifest's.
RECORD, OLD_AWAY, NEW_IN, OLD_ON = 3, 4, 5, 6


class Renaming(Ended):
    rows, columns = 64, 64

    def setUp(self):
        super().setUp()
        self.old_place, self.record = self.dir / "target.old", self.dir / "target.replacing"
        self.undisturbed()
        self.other = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**"}]}, "other.json")

    def replace(self, *injections, np=1):
        """A run that cannot exchange directories, with further injections."""
        return self.traced(" -e inject=".join((NO_EXCHANGE, *injections)), "--overwrite", np=np)

    def killed_at(self, number, np=1):
        """Before the rename of that number. Gives the old target's snapshot."""
        old = self.put_old_target()
        self.assertNotEqual(self.replace(f"rename:signal=KILL:when={number}", np=np).code, 0)
        return old

    def beside(self):
        return sorted(path.name for path in self.dir.glob("target*"))

    def assert_replaced(self, expected=None):
        self.assertEqual(snapshot(self.target), expected or self.undisturbed())
        self.assertEqual(self.beside(), ["target"])

    def clear(self):
        super().clear()
        shutil.rmtree(self.old_place, ignore_errors=True)
        self.record.unlink(missing_ok=True)


@needs_plain_build
@needs_strace
class Replacing(Renaming):
    def test_nothing_stays_beside(self):
        for reason in ("EINVAL", "ENOSYS", "EOPNOTSUPP"):
            for np in (1, 2):
                self.put_old_target()
                self.assert_exit(self.traced(f"renameat2:error={reason}", "--overwrite", np=np), 0)
                self.assert_replaced()

    def test_a_kill_at_any_renaming(self):
        """The old target or the new one is whole; the next run ends with the new one, and nothing beside it."""
        for np in (1, 2):
            for number in range(1 if np == 1 else RECORD, OLD_ON + 1):
                for options in (("--resume", "--overwrite"), ("--overwrite",)):
                    with self.subTest(np=np, number=number, options=options):
                        old = self.killed_at(number, np=np)
                        if number == NEW_IN:
                            self.assertFalse(self.target.exists())
                            self.assertEqual(snapshot(self.old_place), old)
                            self.assertEqual(snapshot(self.partial), self.undisturbed())
                        else:
                            self.assertEqual(snapshot(self.target), self.undisturbed() if number == OLD_ON else old)
                        self.assert_exit(self.go(*options, np=np), 0)
                        self.assert_replaced()
                        self.clear()

    def test_a_kill_while_the_old_one_is_removed(self):
        for call in ("unlinkat", "unlink", "rmdir"):
            for number in range(1, 8):
                with self.subTest(call=call, number=number):
                    old = self.put_old_target()
                    self.replace(f"{call}:signal=KILL:when={number}")
                    self.assertIn(snapshot(self.target), (old, self.undisturbed()))
                    self.assert_exit(self.traced(NO_EXCHANGE, "--resume", "--overwrite"), 0)
                    self.assert_replaced()
                    self.clear()

    def test_kill_after_kill(self):
        for first, second in ((NEW_IN, 1), (OLD_ON, 1), (NEW_IN, 2), (NEW_IN, 3), (NEW_IN, 4), (NEW_IN, 5)):
            with self.subTest(first=first, second=second):
                old = self.killed_at(first)
                self.traced(f"{NO_EXCHANGE} -e inject=rename:signal=KILL:when={second}", "--resume", "--overwrite")
                self.assertTrue(any(path.exists() and snapshot(path) in (old, self.undisturbed()) for path in (self.target, self.old_place)))
                self.assert_resumed("--overwrite")
                self.assert_replaced()

    def test_a_run_without_the_options_puts_the_old_one_back(self):
        for options in ((), ("--resume",)):
            old = self.killed_at(NEW_IN)
            result = self.go(*options)
            self.assert_exit(result, 2)
            self.assert_error_lines(result, "E_EXISTS")
            self.assertIn("--overwrite", result.err)
            self.assertEqual(snapshot(self.target), old)
            self.assertEqual(self.beside(), ["target", "target.partial"])
            self.assertEqual(sum(self.assert_resumed("--overwrite")["bytes_read"]), 0)
            self.assert_replaced()

    def test_a_job_that_is_started_again_finds_the_target_finished(self):
        self.killed_at(OLD_ON)
        self.assert_exit(self.reshard("verify", self.target), 0)
        self.assertEqual(sum(self.assert_resumed()["bytes_read"]), 0)
        self.assert_replaced()

    def test_a_run_of_another_plan(self):
        self.assert_exit(self.go(plan=self.other, target=self.dir / "by-other"), 0)
        expected = snapshot(self.dir / "by-other")
        for number in (NEW_IN, OLD_ON):
            for options in (("--overwrite",), ("--resume", "--overwrite")):
                with self.subTest(number=number, options=options):
                    old = self.killed_at(number)
                    result = self.go("--resume", plan=self.other)
                    self.assert_exit(result, 2)
                    self.assertEqual(snapshot(self.target), old if number == NEW_IN else self.undisturbed())
                    self.assert_exit(self.go(*options, plan=self.other), 0)
                    self.assert_replaced(expected)

    def test_an_old_target_of_the_same_plan(self):
        for number in (NEW_IN, OLD_ON):
            self.clear()
            self.assert_exit(self.go(), 0)
            self.replace(f"rename:signal=KILL:when={number}")
            self.assertTrue(self.old_place.exists())
            self.assert_resumed("--overwrite")
            self.assert_replaced()

    def test_an_old_directory_that_is_no_target(self):
        for options in (("--overwrite",), ("--resume", "--overwrite")):
            self.target.mkdir()
            (self.target / "notes.txt").write_text("mine")
            self.replace(f"rename:signal=KILL:when={NEW_IN}")
            self.assertEqual((self.old_place / "notes.txt").read_text(), "mine")
            self.assert_exit(self.go(*options), 0)
            self.assert_replaced()
            self.clear()

    def test_renamings_that_fail(self):
        for number, later in ((RECORD, ""), (OLD_AWAY, ""), (NEW_IN, ""), (NEW_IN, "+"), (OLD_ON, "")):
            with self.subTest(number=number, later=later):
                old = self.put_old_target()
                result = self.replace(f"rename:error=EIO:when={number}{later}")
                self.assert_exit(result, 5)
                self.assert_error_lines(result, "E_IO")
                if later:
                    self.assertEqual(snapshot(self.old_place), old)
                else:
                    self.assertEqual(snapshot(self.target), self.undisturbed() if number == OLD_ON else old)
                    self.assertEqual(self.old_place.exists(), number == OLD_ON)
                self.assert_resumed("--overwrite")
                self.assert_replaced()

    def test_an_old_target_that_cannot_be_removed(self):
        # Calls of unlink(2): of the journal, of the record, of the old target's file.
        for number, word in ((2, "target.replacing"), (3, "the new target is in place")):
            self.put_old_target()
            result = self.replace(f"unlink:error=EACCES:when={number}")
            self.assert_exit(result, 5)
            self.assertIn(word, result.err)
            self.assertEqual(snapshot(self.target), self.undisturbed())
            self.assert_resumed("--overwrite")
            self.assert_replaced()

    def test_where_the_old_one_is_is_told(self):
        def asked():
            return (("verify", self.target), ("compare", self.source, self.target, "--plan", self.eight), ("inspect", self.target),
                    ("plan", self.eight, "--source", self.target), ("run", self.eight, "--source", self.target, "--target", self.dir / "next"))

        self.killed_at(NEW_IN)
        for words in asked():
            for np in (1, 2):
                result = self.reshard(*words, np=np)
                self.assertIn(result.code, (2, 4))
                for word in ("target.old", "--resume --overwrite"):
                    self.assertIn(word, result.err)
        self.clear()
        self.old_place.mkdir()  # somebody's
        for words in asked():
            result = self.reshard(*words)
            self.assertIn(result.code, (2, 4))
            self.assertNotIn("target.old", result.err)

    def test_a_source_in_the_old_target_is_refused(self):
        for number in (NEW_IN, OLD_ON):
            old = self.killed_at(number)
            result = execute(command("run", self.other, "--source", self.old_place, "--target", self.target, "--overwrite"))
            self.assert_exit(result, 2)
            self.assert_error_lines(result, "E_USAGE")
            self.assertEqual(snapshot(self.old_place), old)
            self.clear()


@needs_plain_build
@needs_strace
class Foreign(Renaming):
    """What lies at the names that renaming takes, but is somebody's."""

    def test_at_the_place_of_the_old_target(self):
        for make in (lambda path: shutil.copytree(self.dir / "undisturbed", path), lambda path: path.mkdir(), lambda path: path.write_text("mine")):
            for name in ("target.old", "target.replacing"):
                old = self.put_old_target()
                mine = self.dir / name
                make(mine)
                before = snapshot(mine)
                result = self.replace()
                self.assert_exit(result, 2)
                self.assertIn(name, result.err)
                self.assertEqual(snapshot(self.target), old)
                self.assert_resumed("--overwrite")  # here they can be exchanged
                self.assertEqual(snapshot(mine), before)
                self.assertEqual(self.beside(), ["target", name])
                shutil.rmtree(mine) if mine.is_dir() else mine.unlink()
                self.clear()

    def test_what_has_taken_the_place_of_the_old_target_since(self):
        for number in (NEW_IN, OLD_ON):
            for change in (lambda: (self.old_place / "notes.txt").write_text("mine"),
                           lambda: (self.old_place.rename(self.dir / "kept"), self.old_place.mkdir()),
                           lambda: (self.old_place.rename(self.dir / "kept"), self.old_place.write_text("mine"))):
                with self.subTest(number=number):
                    self.killed_at(number)
                    change()
                    before = {path: snapshot(path) for path in self.dir.glob("target*")}
                    for options in (("--overwrite",), ("--resume", "--overwrite")):
                        result = self.go(*options)
                        self.assert_exit(result, 2)
                        self.assert_error_lines(result, "E_EXISTS")
                        self.assertIn("target.old", result.err)
                        self.assertEqual({path: snapshot(path) for path in self.dir.glob("target*")}, before)
                    self.old_place.rename(self.dir / "mine")
                    self.assert_resumed("--overwrite")
                    self.assert_replaced()
                    for path in (self.dir / "kept", self.dir / "mine"):
                        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def test_a_directory_made_before_anything_was_moved(self):
        old = self.killed_at(OLD_AWAY)
        self.assertTrue(self.record.exists())
        self.old_place.mkdir()
        (self.old_place / "notes.txt").write_text("mine")
        self.assertEqual(snapshot(self.target), old)
        self.assert_resumed("--overwrite")
        self.assertEqual((self.old_place / "notes.txt").read_text(), "mine")
        self.assertEqual(self.beside(), ["target", "target.old"])

    def test_something_at_the_place_of_the_target(self):
        self.killed_at(NEW_IN)
        self.target.mkdir()
        (self.target / "notes.txt").write_text("mine")
        before = snapshot(self.dir)
        result = self.go("--resume", "--overwrite")
        self.assert_exit(result, 2)
        self.assertIn("target.old", result.err)
        self.assertEqual(snapshot(self.dir), before)
        shutil.rmtree(self.target)
        self.assert_resumed("--overwrite")
        self.assert_replaced()

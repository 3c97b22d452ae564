"""The target directory: what may be there, what is replaced, what stays after a failure, resuming."""

import json
import shutil
import signal

from stopped import Stopped
from support import Case, command, execute, snapshot
from tensors import even, iota, noise


class Places(Case):
    def setUp(self):
        super().setUp()
        self.source = self.full({"w": iota(4)})
        self.two = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        self.four = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=4"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "four.json")

    def run_to(self, target, *options, plan=None, np=1):
        return self.reshard("run", plan or self.two, "--source", self.source, "--target", target, *options, np=np)

    def assert_usage(self, result, code, *words):
        self.assert_exit(result, 2)
        self.assert_error_lines(result, code)
        for word in words:
            self.assertIn(str(word), result.err)

    def test_an_empty_directory_is_a_target(self):
        target = self.dir / "target"
        target.mkdir()
        self.assert_exit(self.run_to(target), 0)
        self.assert_files(target, [{"w": s} for s in even(iota(4), 0, 2)])

    def test_an_existing_target_is_refused_and_left_alone(self):
        target = self.dir / "target"
        self.assert_exit(self.run_to(target), 0)
        before = snapshot(self.dir)
        for np in (1, 3):
            self.assert_usage(self.run_to(target, plan=self.four, np=np), "E_EXISTS", target)
        self.assertEqual(snapshot(self.dir), before)

    def test_source_files_that_lie_in_the_target_are_not_replaced(self):
        target = self.dir / "target"
        self.assert_exit(self.run_to(target), 0)
        linked = self.dir / "linked"
        linked.mkdir()
        for path in target.iterdir():
            if path.suffix == ".safetensors":
                (linked / path.name).symlink_to(path)
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": []}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "back.json")
        before = snapshot(self.dir)
        result = self.reshard("run", plan, "--source", linked, "--target", target, "--overwrite")
        self.assert_usage(result, "E_USAGE", "rank-00000.safetensors")
        self.assertEqual(snapshot(self.dir), before)
        self.assert_exit(self.reshard("run", plan, "--source", linked, "--target", self.dir / "other"), 0)

    def test_a_report_goes_into_no_checkpoint(self):
        before = snapshot(self.dir)
        target = self.dir / "target"
        for words in (("plan", self.two, "--source", self.source), ("inspect", self.source), ("compare", self.source, self.source),
                      ("run", self.two, "--source", self.source, "--target", target)):
            for output in (self.source / "model.safetensors", self.source / "new.json", self.dir / "no-folder" / "x.json"):
                with self.subTest(command=words[0], output=output):
                    self.assert_usage(self.reshard(*words, "--report", "json", "--output", output), "E_USAGE", output)
        self.assert_usage(self.run_to(target, "--output", target / "x.json"), "E_USAGE", target)
        self.assertEqual(snapshot(self.dir), before)

    def test_a_report_goes_where_no_run_makes_a_directory(self):
        """TARGET, TARGET.partial and TARGET.old, whether or not they are there, for every command that knows the target."""
        target, old = self.dir / "target", self.dir / "target.old"
        wrong = self.plan(f"reshard: 1\ntarget: {{path: {target}}}\ntensors: 3\n", "wrong.yaml")
        named = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], "path": str(target)}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "named.json")
        plans = (("plan", self.two, "--source", self.source, "--target", target), ("plan", named, "--source", self.source), ("plan", self.two, "--check", "--target", target),
                 ("plan", wrong, "--source", self.source), ("run", self.two, "--source", self.source, "--target", target), ("run", named, "--source", self.source))

        def refused(commands, outputs):
            before = snapshot(self.dir)
            for words in commands:
                for output in outputs:
                    with self.subTest(words=words, output=output):
                        result = self.reshard(*words, "--report", "json", "--output", output)
                        self.assert_usage(result, "E_USAGE", output)
                        self.assertEqual(result.json()["schema"], "reshard.error")
                        self.assertEqual(snapshot(self.dir), before)

        refused(plans, (target, self.dir / "target.partial", old))
        self.assert_exit(self.run_to(target), 0)
        old.mkdir()
        (self.dir / "link.json").symlink_to(old / "x.json")
        refused((*plans, ("verify", target)), (target / "x.json", old / "x.json", old, self.dir / "target.partial", self.dir / "link.json"))
        for words in (*plans[:3], ("verify", target)):
            self.assert_exit(self.reshard(*words, "--output", self.dir / "target.older"), 0)

    def test_the_report_of_an_error_replaces_no_input(self):
        wrong = self.plan("reshard: 1\ntarget: {}\ntensors: 3\n", "wrong.yaml")
        bad = self.dir / "bad"
        bad.mkdir()
        (bad / "model.safetensors").write_bytes(b"no checkpoint at all")
        before = snapshot(self.dir)
        for output, plan, source in ((wrong, wrong, self.source), (self.source / "model.safetensors", wrong, self.source),
                                     (bad / "model.safetensors", self.two, bad)):
            for words in (("plan",), ("run", "--target", self.dir / "target")):
                with self.subTest(command=words[0], output=output):
                    result = self.reshard(*words, plan, "--source", source, "--report", "json", "--output", output)
                    self.assert_usage(result, "E_USAGE", output)
                    self.assertEqual(result.json()["schema"], "reshard.error")
                    self.assertEqual(snapshot(self.dir), before)
        self.assert_usage(self.reshard("plan", self.two, "--memory", "much", "--report", "json", "--output", self.two), "E_USAGE", self.two)
        self.assertEqual(snapshot(self.dir), before)
        notes = self.dir / "notes.txt"
        notes.write_text("mine")
        self.assert_usage(self.reshard("plan", self.two, "--memory", "much", "--report", "json", "--output", notes), "E_USAGE", "much")
        self.assertEqual(notes.read_text(), "mine")

    def test_the_report_of_an_error_of_a_plan_that_names_its_source_replaces_nothing(self):
        weights = self.source / "model.safetensors"
        side = f"source: {{path: {self.source}}}"
        wrong, cut_off = self.plan(f"reshard: 1\n{side}\ntarget: {{}}\ntensors: 3\n", "wrong.yaml"), self.plan(f"reshard: 1\n{side}\ntensors: [\n", "cut-off.yaml")
        (self.dir / "notes.txt").write_text("mine")
        before = snapshot(self.dir)
        for command in (("plan",), ("plan", "--check"), ("run", "--target", self.dir / "target")):
            for output in (weights, self.source / "new.json"):
                with self.subTest(command=command, output=output):
                    self.assert_usage(self.reshard(*command, wrong, "--report", "json", "--output", output), "E_USAGE", output)
            # Which is the source is not known: what a checkpoint's file is tells its content, other files are kept too.
            self.assert_usage(self.reshard(*command, cut_off, "--report", "json", "--output", weights), "E_USAGE", weights)
            result = self.reshard(*command, cut_off, "--report", "json", "--output", self.dir / "notes.txt")
            self.assert_refused(result, 3, "E_SYNTAX")
            self.assertEqual(result.json()["schema"], "reshard.error")
            self.assertEqual(snapshot(self.dir), before)

    def test_the_report_of_an_error_replaces_a_report(self):
        cut_off, output = self.plan("reshard: 1\ntensors: [\n", "cut-off.yaml"), self.dir / "report.json"
        output.write_text("")
        for _ in range(2):
            result = self.reshard("plan", cut_off, "--report", "json", "--output", output)
            self.assert_refused(result, 3, "E_SYNTAX")
            self.assertEqual((result.out, json.loads(output.read_text())["schema"]), ("", "reshard.error"))
            self.assert_exit(self.reshard("plan", self.two, "--source", self.source, "--report", "json", "--output", output), 0)
            self.assertEqual(json.loads(output.read_text())["schema"], "reshard.plan")
        for kept in ("notes", self.reshard("inspect", self.source, "--report", "json").out):
            output.write_text(kept)
            self.assertIn("reshard.error", self.reshard("plan", cut_off, "--report", "json", "--output", output).out)
            self.assertEqual(output.read_text(), kept)

    def test_a_link_leads_a_report_into_no_checkpoint(self):
        target = self.dir / "target"
        link = self.dir / "link.json"
        for place in (self.source / "model.safetensors", self.source / "new.json"):
            link.symlink_to(place)
            before = snapshot(self.dir)
            self.assert_usage(self.reshard("plan", self.two, "--source", self.source, "--output", link), "E_USAGE", link)
            self.assert_usage(self.run_to(target, "--output", link), "E_USAGE", link)
            self.assertEqual(snapshot(self.dir), before)
            link.unlink()
        for place in (target / "x.json", self.dir / "target.partial" / "x.json"):
            link.symlink_to(place)
            self.assert_usage(self.run_to(target, "--output", link), "E_USAGE", link)
            link.unlink()
        link.symlink_to(self.two)
        self.assert_usage(self.reshard("plan", self.two, "--check", "--output", link), "E_USAGE", link)

    def test_an_unfinished_target_is_no_source(self):
        target = self.dir / "target"
        self.assert_exit(self.run_to(target), 0)
        (target / "journal").write_text("reshard journal 1 995dc9bbdf1939fa\n")
        (target / "reshard.json").unlink()
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": []}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "back.json")
        for result in (self.reshard("run", plan, "--source", target, "--target", self.dir / "out"), self.reshard("plan", plan, "--source", target),
                       self.reshard("inspect", target)):
            self.assert_exit(result, 4)
            self.assert_error_lines(result, "E_FORMAT")
            self.assertIn("995dc9bbdf1939fa", result.err)

    def test_overwrite_leaves_no_file_of_the_old_target(self):
        target = self.dir / "target"
        self.assert_exit(self.run_to(target, plan=self.four), 0)
        (target / "notes.txt").write_text("from an earlier run")
        for np in (1, 2):
            self.assert_exit(self.run_to(target, "--overwrite", np=np), 0)
            self.assert_files(target, [{"w": s} for s in even(iota(4), 0, 2)])
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["four.json", "plan.json", "source", "target"])

    def test_a_refused_overwrite_keeps_the_old_target(self):
        target = self.dir / "target"
        self.assert_exit(self.run_to(target), 0)
        before = snapshot(target)
        bad = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=3"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]}, "bad.json")
        self.assert_exit(self.run_to(target, "--overwrite", plan=bad), 4)
        self.assertEqual(snapshot(target), before)
        self.assertFalse((self.dir / "target.partial").exists())

    def test_a_target_that_is_a_file(self):
        target = self.dir / "target"
        target.write_text("a file")
        self.assert_usage(self.run_to(target), "E_EXISTS")
        self.assertEqual(target.read_text(), "a file")

    def test_source_and_target_overlap(self):
        link = self.dir / "link"
        link.symlink_to(self.source)
        inside = self.source / "inside"
        before = snapshot(self.source)
        for target in (self.source, link, inside, link / "inside", self.dir / "." / "source", self.source / ".." / "source", self.dir):
            for option in ((), ("--overwrite",)):
                with self.subTest(target=str(target), option=option):
                    self.assert_usage(self.run_to(target, *option), "E_USAGE|E_EXISTS")
                    self.assertEqual(snapshot(self.source), before)

    def test_the_source_inside_the_target(self):
        outer = self.dir / "outer"
        outer.mkdir()
        self.source.rename(outer / "source")
        self.source = outer / "source"
        self.assert_usage(self.run_to(outer, "--overwrite"), "E_USAGE")
        self.assertTrue((self.source / "model.safetensors").exists())

    def test_the_folder_above_must_exist(self):
        self.assert_usage(self.run_to(self.dir / "no" / "target"), "E_USAGE", "no")

    def test_a_link_to_an_old_target_elsewhere(self):
        elsewhere = self.dir / "elsewhere"
        self.assert_exit(self.run_to(elsewhere), 0)
        target = self.dir / "target"
        target.symlink_to(elsewhere)
        self.assert_usage(self.run_to(target), "E_EXISTS")
        self.assertTrue(target.is_symlink())

    def test_a_trailing_slash(self):
        self.assert_exit(self.run_to(f"{self.dir / 'target'}/"), 0)
        self.assert_files(self.dir / "target", [{"w": s} for s in even(iota(4), 0, 2)])
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["four.json", "plan.json", "source", "target"])

    def test_a_relative_target(self):
        result = execute(command("run", self.two, "--source", "source", "--target", "target"), cwd=self.dir)
        self.assert_exit(result, 0)
        self.assert_files(self.dir / "target", [{"w": s} for s in even(iota(4), 0, 2)])


class PlanFile(Case):
    """The plan is an input: nothing that a command writes takes its place."""

    def setUp(self):
        super().setUp()
        self.source = self.full({"w": iota(4)})
        self.folder = self.dir / "folder"
        self.folder.mkdir()
        self.plan_file = self.folder / "plan.json"
        shutil.copy(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.plan_file)
        self.before = snapshot(self.folder)

    def refused(self, *words):
        result = self.reshard(*words)
        self.assert_exit(result, 2)
        self.assert_error_lines(result, "E_USAGE")
        self.assertIn("plan.json", result.err)
        self.assertEqual(snapshot(self.folder), self.before)

    def test_in_the_target(self):
        self.refused("run", self.plan_file, "--source", self.source, "--target", self.folder, "--overwrite")

    def test_as_output(self):
        run = ("run", self.plan_file, "--source", self.source, "--target", self.dir / "target")
        self.refused(*run, "--output", self.plan_file)
        self.refused("plan", self.plan_file, "--source", self.source, "--report", "json", "--output", self.plan_file)
        self.refused("plan", self.plan_file, "--check", "--report", "json", "--output", self.plan_file)
        self.assert_exit(self.reshard(*run), 0)
        self.refused("compare", self.source, self.dir / "target", "--plan", self.plan_file, "--output", self.plan_file)


class Partial(Case):
    """A staging directory that an earlier run left."""

    def setUp(self):
        super().setUp()
        self.w = noise("w", 64, 1000)
        self.source = self.full({"w": self.w})
        self.two = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        self.target = self.dir / "target"
        self.partial = self.dir / "target.partial"
        self.expected = [{"w": s} for s in even(self.w, 0, 2)]

    def run_again(self, *options, np=1, plan=None):
        return self.reshard("run", plan or self.two, "--source", self.source, "--target", self.target, *options, np=np)

    def leave(self):
        self.partial.mkdir()
        (self.partial / "rank-00000.safetensors").write_bytes(b"half a file")

    def test_it_is_in_the_way(self):
        self.leave()
        before = snapshot(self.partial)
        result = self.run_again()
        self.assert_exit(result, 2)
        self.assert_error_lines(result, "E_EXISTS")
        self.assertIn("target.partial", result.err)
        self.assertEqual(snapshot(self.partial), before)
        self.assertFalse(self.target.exists())

    def test_overwrite_discards_it(self):
        self.leave()
        (self.partial / "stale.safetensors").write_bytes(b"stale")
        self.assert_exit(self.run_again("--overwrite", np=2), 0)
        self.assert_files(self.target, self.expected)
        self.assertFalse(self.partial.exists())

    def test_it_is_locked_while_a_run_lives(self):
        with Stopped(self, self.target) as stopped:
            for options in ((), ("--overwrite",), ("--resume",)):
                self.assert_exit(self.run_again(*options), 2)
            stopped.go_on()
        self.assert_files(self.target, stopped.expected)

    def test_a_killed_run_leaves_no_target_and_can_be_continued_or_run_again(self):
        for processes, number in ((1, signal.SIGKILL), (2, signal.SIGKILL), (1, signal.SIGTERM)):
            with self.subTest(processes=processes, signal=number):
                with Stopped(self, self.target, processes) as stopped:
                    stopped.signal_all(number)
                    stopped.go_on()
                self.assertFalse(self.target.exists())
                self.assertTrue(self.partial.exists())
                self.assertFalse((self.partial / "reshard.json").exists())
                kept = self.dir / "kept.partial"
                shutil.copytree(self.partial, kept)
                for option in ("--resume", "--overwrite"):
                    self.assert_exit(stopped.again(option), 0)
                    self.assert_files(self.target, stopped.expected)
                    shutil.rmtree(self.target)
                    shutil.copytree(kept, self.partial)
                shutil.rmtree(self.partial)
                shutil.rmtree(kept)

    def test_an_interrupted_run_ends_within_a_second_and_says_so(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with Stopped(self, self.target) as stopped:
                stopped.signal_all(number)
                result = stopped.go_on()
            self.assert_exit(result, 128 + number)
            self.assertLess(result.seconds, 2)
            self.assert_error_lines(result, "E_INTERRUPTED")
            self.assertTrue(self.partial.exists())
            self.assertFalse(self.target.exists())
            shutil.rmtree(self.partial)

"""Where results go: --output to files, links, pipes and devices; and options with an empty value."""

import json
import os
import shutil
import subprocess

from support import Case, command, environment, execute, snapshot
from tensors import iota


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.source = self.full({"w": iota(4)})
        self.words = ("inspect", self.source, "--report", "json")
        self.expected = self.reshard(*self.words).out
        self.assertEqual(json.loads(self.expected)["schema"], "reshard.inspect")

    def test_a_file_is_created_or_replaced(self):
        for before in (None, "", "longer than the report " * 1000):
            output = self.dir / "report.json"
            if before is not None:
                output.write_text(before)
            self.assert_exit(self.reshard(*self.words, "--output", output), 0)
            self.assertEqual(output.read_text(), self.expected)

    def test_a_link_is_followed(self):
        place = self.dir / "place.json"
        chain = self.dir / "folder"
        chain.mkdir()
        (self.dir / "link.json").symlink_to("folder/next.json")
        (chain / "next.json").symlink_to("../place.json")
        for _ in range(2):  # to nothing yet; to a file
            self.assert_exit(self.reshard(*self.words, "--output", self.dir / "link.json"), 0)
            self.assertEqual(place.read_text(), self.expected)
            self.assertTrue((self.dir / "link.json").is_symlink())

    def test_a_link_to_itself(self):
        (self.dir / "link.json").symlink_to("link.json")
        self.assert_refused(self.reshard(*self.words, "--output", self.dir / "link.json"), 5, "E_IO", words=("link.json",))

    def test_devices(self):
        result = self.reshard(*self.words, "--output", "/dev/null")
        self.assert_exit(result, 0)
        self.assertEqual((result.out, result.err), ("", ""))
        self.assert_refused(self.reshard(*self.words, "--output", "/dev/full"), 5, "E_IO", words=("/dev/full",))

    def test_a_pipe_by_name(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        try:
            self.assert_exit(self.reshard(*self.words, "--output", pipe), 0)
            self.assertEqual(reader.communicate(timeout=30)[0].decode(), self.expected)
        finally:
            reader.kill()
            reader.wait()

    def test_standard_output_by_name(self):
        for name in ("/dev/stdout", "/proc/self/fd/1"):
            result = self.reshard(*self.words, "--output", name)
            self.assert_exit(result, 0)
            self.assertEqual(result.out, self.expected)
        output = self.dir / "report.json"
        result = execute(["sh", "-c", 'exec "$@" >"$0"', output, *command(*self.words, "--output", "/dev/stdout")], env=environment())
        self.assert_exit(result, 0)
        self.assertEqual(output.read_text(), self.expected)

    def test_of_a_run(self):
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        for output in ("/dev/null", "/dev/stdout"):
            result = self.run_plan(plan, self.source, "--report", "json", "--output", output)
            self.assert_exit(result, 0)
            self.assertEqual(result.out != "", output == "/dev/stdout")


class Mistaken(Case):
    """Places of reports that are files of checkpoints, plans or directories: of whatever checkpoint, an input or not."""

    def setUp(self):
        super().setUp()
        self.source = self.full({"w": iota(4)})
        self.plan_file = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        target = self.convert(self.plan_file, self.source)
        hdf5 = self.convert(self.plan_file, self.source, "--target-format", "hdf5")
        self.other = self.dir / "other"
        self.other.mkdir()
        for path in (target / "rank-00000.safetensors", hdf5 / "rank-00001.h5", target / "reshard.json"):
            shutil.copy(path, self.other / f"copy-of-{path.name}")
        (self.other / "index.json").write_text('{"metadata": {"total_size": 16}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}')
        (self.other / "plan.yaml").write_text("# a plan\nreshard: 1\n")
        shutil.copy(self.plan_file, self.other / "plan.json")
        (self.other / "folder").mkdir()
        self.target = self.dir / "never"
        self.commands = (("inspect", self.source), ("compare", self.source, self.source), ("verify", target), ("plan", self.plan_file, "--source", self.source),
                         ("plan", self.plan_file, "--check"), ("run", self.plan_file, "--source", self.source, "--target", self.target))

    def test_are_refused_and_stay_as_they_are(self):
        before = snapshot(self.other)
        for place in self.other.iterdir():
            for words in self.commands:
                with self.subTest(place=place.name, command=words[0]):
                    self.assert_refused(self.reshard(*words, "--report", "json", "--output", place), 2, "E_USAGE", words=(place,))
        self.assertEqual(snapshot(self.other), before)

    def test_other_names_of_a_file_keep_what_it_held(self):
        hard = self.dir / "report.json"
        kept = self.dir / "kept.json"
        kept.write_text("kept")
        os.link(kept, hard)
        (self.dir / "link.json").symlink_to(hard)
        self.assert_exit(self.reshard(*self.commands[0], "--report", "json", "--output", self.dir / "link.json"), 0)
        self.assertEqual(kept.read_text(), "kept")
        self.assertEqual(json.loads(hard.read_text())["schema"], "reshard.inspect")

    def test_a_report_that_cannot_be_written_says_that_the_target_is_complete(self):
        result = self.reshard(*self.commands[-1], "--output", "/dev/full")
        self.assert_exit(result, 5)
        self.assertIn(f"the target is complete at {self.target}", result.err)
        self.assert_exit(self.reshard("verify", self.target), 0)

    def test_a_report_of_an_unknown_format_is_no_source(self):
        report = self.dir / "report.json"
        report.write_text(self.reshard("inspect", self.source, "--report", "json").out.replace('"format": "safetensors"', '"format": "pickles"'))
        self.assert_refused(self.reshard("plan", self.plan_file, "--source", report), 4, "E_FORMAT", words=(report, "pickles"))


class EmptyValues(Case):
    def test_are_refused_whatever_the_option(self):
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        source = self.full({"w": iota(4)})
        planning = ("--source", "--target", "--transport", "--memory", "--set", "--target-format", "--report", "--output")
        commands = {"plan": ((plan, "--source", source), (*planning, "--tensor", "--rank", "--processes")),
                    "run": ((plan, "--source", source, "--target", self.dir / "target"), (*planning, "--threads")),
                    "inspect": ((source,), ("--report", "--output")),
                    "verify": ((source,), ("--report", "--output")),
                    "compare": ((source, source), ("--report", "--output", "--plan"))}
        for name, (words, options) in commands.items():
            for option in options:
                with self.subTest(command=name, option=option):
                    given = [word for i, word in enumerate(words) if option not in words[max(0, i - 1):i + 1]]
                    result = self.reshard(name, *given, option, "")
                    self.assert_refused(result, 2, "E_USAGE", words=(option,), target=self.dir / "target")
        for words, name in ((("plan", ""), "PLAN"), (("inspect", ""), "PATH")):
            self.assert_refused(self.reshard(*words), 2, "E_USAGE", words=(name,))

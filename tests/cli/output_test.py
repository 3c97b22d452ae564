"""Where results go: --output to files, links, pipes and devices; and options with an empty value."""

import json
import os
import subprocess

from support import Case, command, environment, execute
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

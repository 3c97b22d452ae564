"""What a person at a terminal gets: colour, drawings, help for a plan that does not fit, completion, and the example jobs."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import unittest

import schemas
from support import BINARY, REPOSITORY, Case, command, environment, execute
from tensors import even, iota

COMMANDS = ("run", "plan", "inspect", "verify", "compare")
COMPLETION = REPOSITORY / "apps" / "reshard" / "completion"
EXAMPLES = REPOSITORY / "scripts" / "examples"


class Terminal(Case):
    def on_a_terminal(self, *words, stream="stdout", code=0, cwd=None, **variables):
        """What a terminal receives of one stream; standard error is otherwise empty."""
        master, slave = pty.openpty()
        process = subprocess.Popen([str(word) for word in command(*words)], stdin=subprocess.DEVNULL, cwd=cwd,
                                   **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, stream: slave},
                                   env={**environment(), "TERM": "xterm", **variables})
        os.close(slave)
        received = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                part = b""
            if not part:
                break
            received += part
        os.close(master)
        self.assertEqual(process.wait(timeout=60), code)
        if process.stderr is not None:
            self.assertEqual(process.stderr.read(), b"")
            process.stderr.close()
        return received.decode().replace("\r\n", "\n")


class Colour(Terminal):
    def test_colour_is_for_terminals(self):
        words = ("plan", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", self.full({"w": iota(4)}))
        plain = self.reshard(*words, env=environment(TERM="xterm"))
        self.assert_exit(plain, 0)
        self.assertNotIn("\x1b", plain.out)
        self.assertTrue(any(line.startswith("plan ") for line in plain.out.splitlines()))
        coloured = self.on_a_terminal(*words)
        self.assertIn("\x1b[1mtensors\x1b[0m", coloured)
        self.assertEqual(re.sub(r"\x1b\[[0-9]*m", "", coloured), plain.out)
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertEqual(self.on_a_terminal(*words, **variables), plain.out)
        self.assertEqual(self.on_a_terminal(*words, NO_COLOR=""), coloured)
        self.assertNotIn("\x1b", self.on_a_terminal(*words, "--report", "json"))
        self.on_a_terminal(*words, "--output", self.dir / "plan.txt")
        self.assertEqual((self.dir / "plan.txt").read_text(), plain.out)

    def test_warnings_are_wrapped_for_terminals(self):
        source = self.ranks([{"w": s} for s in even(iota(8), 0, 2)])
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["dp=2", "pp=2"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        plain = self.run_plan(plan, source).err
        received = self.on_a_terminal("run", plan, "--source", source, "--target", self.dir / "t", stream="stderr")
        self.assertEqual([line for line in received.splitlines() if len(line) > 80], [])
        self.assertEqual(received.split(), plain.split())

    def test_errors_are_wrapped_for_terminals(self):
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["tp=2"]}, "tensors": [
            {"match": f"model.layers.{i}.w", "shard": {"0": "tpp"}} for i in range(2)]})
        for words, code, issues in ((("plan", plan, "--check"), 3, 2), (("plan", plan, "--source", self.dir, "--processes", "0"), 2, 1)):
            plain = self.reshard(*words)
            self.assert_exit(plain, code)
            self.assertEqual(len(plain.err.splitlines()), issues)
            self.assertGreater(max(len(line) for line in plain.err.splitlines()), 80)
            received = self.on_a_terminal(*words, stream="stderr", code=code)
            self.assertEqual([line for line in received.splitlines() if len(line) > 80], [])
            self.assertEqual(received.split(), plain.err.split())
            self.assertEqual(len([line for line in received.splitlines() if not line.startswith("  ")]), issues)

    def test_a_launcher_s_terminal_shows_none(self):
        """A launcher may give its first process a terminal although the job's own output goes to a file."""
        words = ("plan", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", self.full({"w": iota(4)}))
        result = self.reshard(*words, np=2, env=environment(TERM="xterm"))
        self.assert_exit(result, 0)
        self.assertIn("tensors", result.out)
        self.assertNotIn("\x1b", result.out)

    def test_80_columns_whatever_the_ranks(self):
        words = ["python3", "-B", REPOSITORY / "scripts" / "make_report.py", self.dir / "moe", "--layers", "16", "--experts", "16"]
        self.assert_exit(execute(words), 0)
        for options in ((), ("--tensor", "**.q_proj.weight"), ("--tensor", "**experts.3.**")):
            result = self.reshard("plan", self.dir / "moe" / "plan.yaml", "--source", self.dir / "moe" / "report.json", "--processes", "16", *options)
            self.assert_exit(result, 0)
            self.assertEqual([line for line in result.out.splitlines() if len(line) > 80], [])
            self.assertLess(len(result.out.splitlines()), 150 if options else 80)

    def test_a_tensor_that_was_asked_for_is_drawn(self):
        source = self.ranks([{"w": part} for part in even(iota(8, 4), 0, 2)])
        result = self.reshard("plan", self.tp_plan(2, 4, ("w", {"0": "tp"})), "--source", source, "--tensor", "w")
        self.assert_exit(result, 0)
        self.assertIn("4:8 |  1  |", result.out)
        self.assertIn("6:8 |  3  |", result.out)
        self.assertRegex(result.out, r"1 -> 3 +\[2:4, 0:4\] +\[0:2, 0:4\] +32 B")


class Columns(Terminal):
    """Nothing that can be folded goes beyond 80 columns."""

    def assert_80(self, *words, code=0, beyond=(), cwd=None):
        """What a terminal gets; only lines of a single name of `beyond` may be longer."""
        shown = self.on_a_terminal(*words, code=code, cwd=cwd, TERM="dumb")
        self.assertEqual([line for line in shown.splitlines() if len(line) > 80 and line.strip() not in beyond], [])
        return shown

    def forms(self, plan, source, tensor, *options):
        words = ("plan", plan, "--source", source, *options)
        return self.assert_80(*words), self.assert_80(*words, "--tensor", tensor), self.assert_80(*words, "--rank", "1")

    def squeezed(self, text):
        return re.sub(r"\s+", " ", text)

    def report_of(self, *tensors, ranks=1):
        """A report of `inspect` in place of data: (name, shape)."""
        path = self.dir / "report.json"
        path.write_text(json.dumps({"schema": "reshard.inspect", "version": 1, "format": "safetensors", "ranks": ranks, "axes": None, "files": None, "bytes": 0, "warnings": [],
                                    "tensors": [{"name": name, "dtype": "bf16", "stored": [[shape, [0, ranks - 1]]], "global_shape": None} for name, shape in tensors]}))
        return path

    def test_many_long_axes_that_cut_one_dim(self):
        names = [f"a_rather_long_name_of_an_axis_{letter}" for letter in "abcdef"]
        mesh = [f"{name}=2" for name in names]
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": mesh}, "tensors": [{"match": "**", "shard": {"0": names[:5], "1": names[5]}}]})
        whole, drawn, local = self.forms(plan, self.report_of(("w", [64, 4])), "w")
        self.assertIn("dim 0 whole -> " + " x ".join(f"{name} 2" for name in names[:5]), self.squeezed(drawn))
        self.assertTrue(all(f"{name} 2" in whole for name in names))
        self.assertIn(" ".join(f"{name}=0" for name in names), self.squeezed(whole))
        self.assertIn("rank 1 stores 1 tensor", local)

    def test_many_dims_of_long_lengths(self):
        shape = [4, 3_000_000, 2_000, *[1] * 9]
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2", "ep=2"]}, "tensors": [{"match": "**", "shard": {"1": "tp", "2": "ep"}}]})
        whole, drawn, local = self.forms(plan, self.report_of(("w", shape)), "w")
        self.assertIn(f"bf16 {shape}", self.squeezed(drawn))
        self.assertIn("3000000,", whole)
        self.assertIn("1500000,", local)
        transfer = self.squeezed(drawn[drawn.index("  ranks"):])  # two cells, folded beside each other: what stands in them, in any order
        self.assertEqual(transfer.count("1500000:3000000,"), 2)
        self.assertEqual(transfer.count("0:1500000,"), 6)

    def test_long_names_and_lists(self):
        name = "model." + "x" * 90
        tensors = [(name, [4, 4]), *((f"layers.{2 ** i}.w", [4]) for i in range(40))]
        source, folder = self.report_of(*tensors), self.full({n: iota(*shape) for n, shape in tensors}, name="folder")
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], "files": "f" * 60 + "-{rank}.safetensors"}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        for words in (("plan", plan, "--source", source), ("plan", plan, "--source", folder, "--rank", "1"), ("inspect", folder)):
            shown = self.assert_80(*words, beyond=(name,))
            self.assertIn(name, shown)

    def test_lists_of_compare_and_verify(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**", "shard": {"11": "tp"}}]})
        source = self.full({"w": iota(*[1] * 11, 4)})
        self.full({"w": iota(*[1] * 11, 4, first=1)}, name="other")
        target = self.convert(plan, source)
        self.assert_80("run", plan, "--source", source, "--target", self.dir / "again")
        shown = self.assert_80("compare", "source", "other", code=1, cwd=self.dir)
        self.assertIn("E_DIFFERENT: tensor 'w': value at [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]: A has 0 (model.safetensors), B has 1 (model.safetensors)", self.squeezed(shown))
        for file in target.glob("rank-*"):
            content = bytearray(file.read_bytes())
            content[-1] ^= 1
            file.write_bytes(content)
        target.rename(self.dir / "t")
        shown = self.assert_80("verify", "t", code=1, cwd=self.dir)
        self.assertEqual(shown.count("E_DIGEST: rank-0"), 2)
        piped = self.reshard("verify", "t", cwd=self.dir).out  # for a search in a log, a line each
        self.assertRegex(piped, r"(?m)^E_DIGEST: rank-00000.safetensors: expected \w{16}, found \w{16}$")


class Names(Case):
    """Names from files that a terminal would obey or not show."""

    def test_no_command_prints_them_as_they_are(self):
        unseen = "\x1b\x85\x9b\u200e\u202e\u2066\u2028\u2029\u200b\ufeff"
        name = f"w{unseen}é"
        source = self.full({name: iota(4), name + "2": iota(4)})
        (source / f"{name}.json").write_text("{}")
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "w*", "shard": {"0": "tp"}}]})
        bad = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=3"]}, "tensors": [{"match": "w*", "shard": {"0": "tp"}}]}, "bad.json")
        target = self.dir / "target"
        for code, words in ((0, ("inspect", source)), (0, ("plan", plan, "--source", source)), (0, ("plan", plan, "--source", source, "--tensor", "**")),
                            (0, ("plan", plan, "--source", source, "--rank", "1")), (0, ("run", plan, "--source", source, "--target", target, "--verbose")),
                            (0, ("verify", target, "--verbose")), (0, ("compare", source, target, "--plan", plan)), (4, ("plan", bad, "--source", source))):
            with self.subTest(words=words[0]):
                result = self.reshard(*words)
                self.assert_exit(result, code)
                self.assertEqual([hex(ord(c)) for c in result.out + result.err if c in unseen], [])
        self.assertIn("w\\x1b\\u0085\\u009b\\u200e\\u202e\\u2066\\u2028\\u2029\\u200b\\ufeffé", result.err)
        self.assertIn(name, [tensor["name"] for tensor in self.reshard("inspect", source, "--report", "json").json()["tensors"]])


    def test_names_with_blanks_at_their_ends_and_without_letters_are_seen(self):
        names = {"": '""', "   ": '"   "', " w": '" w"', "w ": '"w "', '"w"': '""w""', "w\u00a0": '"w\u00a0"', "a b": "a b"}
        source = self.full({name: iota(4) for name in names})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        target = self.convert(plan, source)
        for words in (("inspect", source), ("plan", plan, "--source", source), ("plan", plan, "--source", source, "--tensor", "re: *"), ("plan", plan, "--source", source, "--rank", "1")):
            with self.subTest(words=words):
                result = self.reshard(*words)
                self.assert_exit(result, 0)
                for name, shown in names.items():
                    if "--tensor" not in words or not name.strip(" "):
                        self.assertRegex(result.out, rf"(?m)^(?:  )?{re.escape(shown)}(?:  |$)")
        dropped = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "re: *", "drop": True}, {"match": "**", "shard": {"0": "tp"}}]}, "dropped.json")
        self.assertIn('left out   2 tensors of the source: "", "   "', self.reshard("plan", dropped, "--source", source).out)
        renamed = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "re:()", "rename": "x"}, {"match": "**"}]}, "renamed.json")
        self.assertIn('  "" -> x\n', self.reshard("plan", renamed, "--source", source).out)

    def test_a_fault_of_a_tensor_names_it_whatever_its_name(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=3"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        for name, shown in {"": 'tensor ""', " ": 'tensor " "', "w ": 'tensor "w "', "w": "tensor 'w'"}.items():
            with self.subTest(name=name):
                result = self.reshard("plan", plan, "--source", self.full({name: iota(4)}, name=f"source{len(name)}{name.strip()}"), "--report", "json")
                self.assert_refused(result, 4, "E_INDIVISIBLE", words=(f": {shown}: ",))
                self.assertEqual([error["tensor"] for error in result.json()["errors"]], [name])
                self.assertEqual(schemas.problems_of_text("report-error", result.out) if schemas.available else (), ())
        result = self.reshard("plan", plan, "--source", self.dir / "nowhere", "--report", "json")
        self.assertEqual([error["tensor"] for error in result.json()["errors"]], [""])
        self.assertNotIn("tensor", result.err)

    def test_a_fault_of_a_tensor_without_a_name_is_agreed_on_by_all_processes(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=3"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        result = self.reshard("run", plan, "--source", self.full({"": iota(4)}), "--target", self.dir / "target", np=2)
        self.assert_refused(result, 4, "E_INDIVISIBLE", words=(': tensor "": ',), target=self.dir / "target")

    def test_verify_and_compare_name_a_tensor_without_a_name(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "**", "shard": {"0": "tp"}}]})
        target = self.convert(plan, self.full({"": iota(4)}))
        manifest = json.loads((target / "reshard.json").read_text())
        manifest["tensors"][""]["digest"] = "0" * 16
        (target / "reshard.json").write_text(json.dumps(manifest))
        result = self.reshard("verify", target)
        self.assert_exit(result, 1)
        self.assertIn('E_DIGEST: tensor "": expected ', result.out)
        self.assertEqual([problem["tensor"] for problem in self.reshard("verify", target, "--report", "json").json()["problems"]], [""])
        result = self.reshard("compare", self.full({"": iota(4)}), self.full({"": iota(4, first=1)}, name="other"))
        self.assert_exit(result, 1)
        self.assertIn('E_DIFFERENT: tensor "": value at [0]', result.out)


class Help(Case):
    def test_unmatched_names_and_unused_rules_stand_side_by_side(self):
        source = self.full({"model.layers.0.self_attn.q_proj.weight": iota(4, 2), "model.layers.0.mlp.gate.weight": iota(2), "other": iota(2)})
        plan = self.tp_plan(0, 2, ("**.q_prj.weight", {"0": "tp"}), ("**.mlp", {"out": "tp"}, {"members": {"gates.weight": "out", "bias?": "out"}}))
        result = self.reshard("plan", plan, "--source", source)
        self.assert_exit(result, 4)
        lines = result.err.splitlines()
        unused = [line for line in lines if "E_RULE_UNUSED" in line]
        self.assertEqual(len(unused), 2)
        self.assertIn("nearest: 'model.layers.0.self_attn.q_proj.weight'", unused[0])
        self.assertIn("nearest: 'model.layers.0.mlp.gate.weight'", unused[1])
        unmatched = {re.search("tensor '(.*?)'", line)[1]: line for line in lines if "E_TENSOR_UNMATCHED" in line}
        self.assertIn("nearest: tensors[0] '**.q_prj.weight'", unmatched["model.layers.0.self_attn.q_proj.weight"])
        self.assertIn("nearest: tensors[1] '**.mlp.{gates.weight,bias}'", unmatched["model.layers.0.mlp.gate.weight"])
        self.assertNotIn("nearest", unmatched["other"])

    def test_80_columns(self):
        """Every option begins a line, and its description is whole, though folded under the description column."""
        described = {"run": ("--check-replicas", "Read all copies in the source and require equal bytes"),
                     "plan": ("--rank", "List only what this target rank stores: its local model layout"),
                     "inspect": ("--output", "Write the result to this file instead of standard output"),
                     "verify": ("--quiet", "No progress, warnings and notices on standard error"),
                     "compare": ("--plan", "needed where a checkpoint of several ranks has no manifest")}
        options = {"run": "--source --target --transport --memory --device-memory --threads --overwrite --resume --check-replicas --verify --allow-extra "
                          "--allow-missing --allow-external --set --target-format --copy-side-files",
                   "plan": "--source --target --transport --memory --device-memory --allow-extra --allow-missing --allow-external --set --target-format "
                           "--tensor --rank --processes --check",
                   "inspect": "--allow-external", "verify": "--allow-external", "compare": "--plan --allow-external"}
        for name in ("", *COMMANDS):
            with self.subTest(command=name):
                result = self.reshard(*name.split(), "--help")
                self.assert_exit(result, 0)
                lines = result.out.splitlines()
                self.assertEqual([line for line in lines if len(line) > 80 or line != line.rstrip()], [])
                wanted = ["--version"] if name == "" else [*options[name].split(), "--report", "--output", "--quiet", "--verbose"]
                begun = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]
                for option in (*wanted, *(COMMANDS if name == "" else ())):
                    self.assertEqual(begun.count(option), 1, option)
                if name:
                    option, text = described[name]
                    at = next(i for i, line in enumerate(lines) if line.startswith(f"  {option} "))
                    end = next(i for i in range(at + 1, len(lines)) if not lines[i].startswith(30 * " "))
                    self.assertIn(text, " ".join(" ".join(lines[at:end]).split()))

    def test_a_plan_alone(self):
        good = self.tp_plan(2, 4, ("w", {"0": "tp"}))
        result = self.reshard("plan", good, "--check")
        self.assert_exit(result, 0)
        self.assertIn("well formed", result.out)
        result = self.reshard("plan", good, "--check", "--report", "json")
        self.assert_exit(result, 0)
        self.assertEqual(result.json(), {"schema": "reshard.check", "version": 1, "errors": [], "warnings": []})
        for option, value in (("--rank", "0"), ("--tensor", "w")):
            result = self.reshard("plan", good, "--check", option, value)
            self.assert_refused(result, 2, "E_USAGE", words=("--check", option, "the plan alone"))
            self.assertEqual(result.out, "")
        result = self.reshard("plan", good)
        self.assert_refused(result, 2, "E_USAGE", words=("--source", "--check"))
        result = self.reshard("plan", self.tp_plan(2, 4, ("w", {"0": "tpp"}), ("v", {"0": {"axes": "tp", "units": 2}})), "--check")
        self.assert_refused(result, 3, "E_AXIS_UNKNOWN", "E_SCHEMA", words=("the nearest is 'tp'", "did you mean 'unit'?"))


    def test_stars_that_stop_too_early_are_pointed_at(self):
        source = self.full({f"model.layers.{i}.self_attn.{part}_proj.weight": iota(4) for i in range(3) for part in "qkvo"})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "tensors": [
            {"match": "**.{q,k,v}_proj.weight"}, {"match": "*.o_proj.weight"}]})
        result = self.reshard("plan", plan, "--source", source)
        self.assert_refused(result, 4, "E_RULE_UNUSED", "E_TENSOR_UNMATCHED", words=("'**' in its place, as in '**.o_proj.weight', matches 'model.layers.0.self_attn.o_proj.weight'", "nearest: tensors[1] '*.o_proj.weight'"))
        whole = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "tensors": [{"match": "**"}]}, "whole.json")
        result = self.reshard("plan", whole, "--source", source, "--tensor", "o_proj.weight")
        self.assert_refused(result, 2, "E_USAGE", words=("a pattern is for the whole name: '**.o_proj.weight' matches 3 of them",))
        for part in ("o_proj", "o_proj*", "**o_proj"):
            result = self.reshard("plan", whole, "--source", source, "--tensor", part)
            self.assert_refused(result, 2, "E_USAGE", words=("a pattern is for the whole name: '**o_proj**' matches 3 of them",))


class Completion(Case):
    def options_of(self, name):
        result = self.reshard(name, "--help")
        self.assert_exit(result, 0)
        return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", result.out, re.M))

    def bash_offers(self, *words):
        script = f'source "{COMPLETION / "reshard.bash"}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reshard; printf "%s\\n" "${{COMPREPLY[@]}}"'
        result = execute(["bash", "-c", script, "bash", "reshard", *words], cwd=self.dir)
        self.assert_exit(result, 0)
        return set(result.out.split())

    def test_bash_knows_every_command_and_option(self):
        self.assertEqual(self.bash_offers(""), {*COMMANDS, "--help", "--version"})
        for name in COMMANDS:
            options = self.options_of(name)
            self.assertGreaterEqual(len(options), 6)
            self.assertEqual(self.bash_offers(name, "--"), options, name)
        self.assertEqual(self.bash_offers("plan", "--report", ""), {"text", "json", "html"})
        self.assertEqual(self.bash_offers("run", "--report", "j"), {"json"})
        self.assertEqual(self.bash_offers("run", "--target-format", ""), {"hdf5", "safetensors"})
        self.assertEqual(self.bash_offers("run", "--transport", "="), {"auto", "direct", "mpi", "nccl"})
        self.assertEqual(self.bash_offers("run", "--transport", "=", "n"), {"nccl"})
        (self.dir / "plan.yaml").touch()
        self.assertEqual(self.bash_offers("plan", "pl"), {"plan.yaml"})

    def test_zsh_knows_every_command_and_option(self):
        text = (COMPLETION / "_reshard").read_text()
        self.assertEqual(set(re.findall(r"^    '(\w+):", text, re.M)), set(COMMANDS))
        lists = {name: set(re.findall(r"'\*?(--[a-z-]+)\[", re.search(rf"^  {name}=\((.*?)^  \)", text, re.S | re.M)[1])) for name in ("common", "planning")}
        for name in COMMANDS:
            case = re.search(rf"^    {name}\)(.*?);;", text, re.S | re.M)[1]
            offered = set(re.findall(r"'(--[a-z-]+)\[", case)).union(*(lists[key] for key in lists if f"${key}" in case))
            self.assertEqual(offered, self.options_of(name), name)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_reads_its_file(self):
        self.assert_exit(execute(["zsh", "-n", COMPLETION / "_reshard"]), 0)

    def test_installed_with_the_executable(self):
        build = pathlib.Path(BINARY).resolve().parents[2]
        if not (build / "cmake_install.cmake").exists():
            self.skipTest("the executable does not lie in a build folder")
        self.assert_exit(execute(["cmake", "--install", build, "--prefix", self.dir / "usr"]), 0)
        self.assertEqual((self.dir / "usr/share/bash-completion/completions/reshard").read_bytes(), (COMPLETION / "reshard.bash").read_bytes())
        self.assertEqual((self.dir / "usr/share/zsh/site-functions/_reshard").read_bytes(), (COMPLETION / "_reshard").read_bytes())
        installed = execute([self.dir / "usr/bin/reshard", "--version"])
        self.assert_exit(installed, 0)
        self.assertEqual(installed.out, self.reshard("--version").out)

    def test_choices_are_those_of_the_help(self):
        result = self.reshard("plan", "--help")
        for option, choices in (("--report", "json,html"), ("--target-format", "hdf5,safetensors")):
            line = next(line for line in result.out.splitlines() if option in line)
            self.assertIn(choices, line)


class Examples(Case):
    def programs(self):
        """A folder with reshard, and launchers that run one process."""
        folder = self.dir / "programs"
        folder.mkdir()
        (folder / "reshard").symlink_to(pathlib.Path(BINARY).resolve())
        (folder / "srun").write_text('#!/bin/sh\nexec "$@"\n')
        (folder / "mpirun").write_text('#!/bin/sh\n[ "$1" = -n ] && shift 2\nexec "$@"\n')
        for name in ("srun", "mpirun"):
            (folder / name).chmod(0o755)
        return environment(PATH=os.pathsep.join([str(folder), os.environ["PATH"]]))

    def arranged(self):
        self.tp_plan(2, 4, ("w", {"0": "tp"})).rename(self.dir / "plan.yaml")
        return self.ranks([{"w": part} for part in even(iota(8, 2), 0, 2)])

    def reports(self, *names):
        return [json.loads((self.dir / "reports" / name).read_text())["schema"] for name in names]

    def test_slurm(self):
        script = EXAMPLES / "reshard.slurm"
        self.assert_exit(execute(["bash", "-n", script]), 0)
        source, env = self.arranged(), {**self.programs(), "SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "2"}
        words = ["bash", script, "plan.yaml", source, self.dir / "target", self.dir / "reports"]
        for _ in range(2):  # a requeued job does nothing again
            result = execute(words, cwd=self.dir, env=env)
            self.assert_exit(result, 0)
        self.assert_files(self.dir / "target", [{"w": part} for part in even(iota(8, 2), 0, 4)])
        self.assertEqual(self.reports("7-plan.json", "7-run.json", "7-verify.json"), ["reshard.plan", "reshard.run", "reshard.verify"])
        (source / "rank-00001.safetensors").unlink()
        result = execute([*words[:4], self.dir / "other", self.dir / "reports"], cwd=self.dir, env=env)
        self.assert_exit(result, 4)
        self.assertEqual(self.reports("7-plan.json"), ["reshard.error"])
        self.assertFalse((self.dir / "other").exists())
        self.assert_exit(execute(words[:3], cwd=self.dir, env=env), 2)

    @unittest.skipUnless(schemas.available, "yaml is not installed")
    def test_github_actions(self):
        workflow = schemas.plan_from((EXAMPLES / "github-actions.yaml").read_text())
        self.assertEqual(set(workflow), {"name", "on", "jobs"})
        job = workflow["jobs"]["convert"]
        kept = next(step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact"))
        self.assertEqual((kept["if"], kept["with"]["path"]), ("always()", "reports/"))
        runs = [step["run"] for step in job["steps"] if "run" in step]
        self.assertEqual(len(runs), 4)
        source = self.arranged()
        env = {**self.programs(), "PROCESSES": str(job["env"]["PROCESSES"]), "SOURCE": str(source), "TARGET": str(self.dir / "target")}
        self.assertEqual(set(job["env"]), {"SOURCE", "TARGET", "PROCESSES"})
        for run in runs:  # as the runner does: bash -e
            self.assert_exit(execute(["bash", "-eo", "pipefail", "-c", run], cwd=self.dir, env=env), 0)
        self.assert_files(self.dir / "target", [{"w": part} for part in even(iota(8, 2), 0, 4)])
        self.assertEqual(self.reports("check.json", "plan.json", "run.json", "verify.json"), ["reshard.check", "reshard.plan", "reshard.run", "reshard.verify"])
        self.assertIn("<!DOCTYPE html>", (self.dir / "reports" / "plan.html").read_text())
        (source / "rank-00001.safetensors").unlink()
        self.assert_exit(execute(["bash", "-eo", "pipefail", "-c", runs[1]], cwd=self.dir, env=env), 4)
        self.assertEqual(self.reports("plan.json"), ["reshard.error"])

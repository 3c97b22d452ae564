"""configs/schema: every plan of the repository and every report and manifest that the tool writes is valid, and what is not is refused."""

import copy
import json
import re
import unittest

import schemas
from support import REPOSITORY, Case, needs_h5py
from tensors import even, iota


@unittest.skipUnless(schemas.available, "jsonschema or yaml is not installed")
class Documents(Case):
    def assert_valid(self, name, document):
        self.assertEqual(schemas.problems(name, document), [])

    def assert_invalid(self, name, document):
        self.assertTrue(schemas.problems(name, document), f"{name} takes {json.dumps(document)[:400]}")

    def test_the_schemas_are_schemas(self):
        self.assertEqual(len(list(schemas.FOLDER.glob("*.schema.json"))), 9)
        for path in schemas.FOLDER.glob("*.schema.json"):
            schemas.jsonschema.Draft7Validator.check_schema(json.loads(path.read_text()))

    def test_every_plan_of_configs_and_readme(self):
        plans = sorted((REPOSITORY / "configs").glob("*.yaml"))
        self.assertGreaterEqual(len(plans), 14)
        for path in plans:
            with self.subTest(plan=path.name):
                text = path.read_text()
                self.assertIn("yaml-language-server: $schema=schema/plan.schema.json", text.splitlines()[0])
                self.assert_valid("plan", schemas.plan_from(text))
        readme = (REPOSITORY / "README.md").read_text()
        plans = re.findall(r"^cat > \S+\.yaml <<'END'\n(.*?)^END$", readme, re.S | re.M)
        self.assertGreaterEqual(len(plans), 2)
        rules = re.findall(r"^\| [^|]* \| `(\{match: .*?)` \|$", readme, re.M)
        self.assertGreaterEqual(len(rules), 30)
        for text in plans:
            self.assert_valid("plan", schemas.plan_from(text))
        for rule in rules:
            for one in re.split(r"`, `", rule):
                with self.subTest(rule=one):
                    self.assert_valid("plan", {"reshard": 1, "target": {}, "tensors": [schemas.plan_from(one)]})

    def rule(self, **rule):
        return {"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["tp=4"]}, "tensors": [{"match": "w", **rule}]}

    def test_plans_that_the_tool_refuses_on_their_own(self):
        good = self.rule(shard={"0": {"axes": "tp", "unit": 2}})
        self.assert_valid("plan", good)
        changes = [
            lambda plan: plan.pop("reshard"), lambda plan: plan.update(reshard=2), lambda plan: plan.pop("target"), lambda plan: plan.update(extra=1),
            lambda plan: plan.update(unmatched="skip"), lambda plan: plan["source"].update(axes=["tp"]), lambda plan: plan["source"].update(axes=["TP=2"]),
            lambda plan: plan["source"].update(axes="tp=2"), lambda plan: plan["source"].update(max_file_size="5GiB"), lambda plan: plan["target"].update(format="pt"),
            lambda plan: plan["target"].update(max_file_size="5 gigabytes"), lambda plan: plan["tensors"][0].pop("match"),
            *(lambda plan, rule=rule: plan["tensors"][0].update(rule) for rule in (
                {"shards": {}}, {"place": {"tp": "shard(0)"}}, {"dtype": "i32"}, {"fallback": "repeat"}, {"optional": "yes"}, {"shard": {"0": 4}},
                {"shard": {"0": {"axes": "tp", "unit": 0}}}, {"shard": {"0": {"axes": "tp", "unit": "2"}}}, {"shard": {"0": {"axes": "tp", "units": 2}}},
                {"shard": {"0": {"axes": "tp", "split": "odd"}}}, {"shard": {"0": {"axes": "tp", "segments": []}}}, {"shard": {"0": {"axes": "tp", "segments": [4], "stride": 2}}},
                {"shard": {"0": {"axes": "tp", "pad_to": 2, "pad_rows": 1}}}, {"shard": {"0": {"axes": "tp", "layout": "spiral"}}}, {"shard": {"x-y": "tp"}},
                {"owner": {"tp": "first"}}, {"owner": {"tp": {"index": 0}}}, {"owner": {"tp": {"index": "0", "count": 2}}}, {"members": {"weight": "out,in"}},
                {"source": {"match": "v"}}, {"source": {"shard": {"0": {"unit": 0}}}}, {"projection": "diagonal"}, {"match": ""}))]
        for number, change in enumerate(changes):
            plan = copy.deepcopy(good)
            change(plan)
            with self.subTest(number=number, plan=json.dumps(plan)):
                self.assert_exit(self.reshard("plan", self.plan(plan), "--check"), 3)
                self.assert_invalid("plan", plan)

    def test_forms_that_the_tool_takes(self):
        for rule in ({}, {"shard": {"-1": ["tp"]}}, {"place": {"tp": "shard(0, chunk)"}}, {"place": {"tp": "strided_shard(0, 4)"}}, {"shard": {"out": "tp"}, "members": {"weight": "out in/128", "bias?": "out", "s": "."}},
                     {"projection": "row"}, {"shard": {"0": {"axes": [{"axis": "tp", "layout": "zigzag"}]}}}, {"shard": {"0": "tp"}, "source": {"shard": {"0": {"axes": "tp", "unit": None}, "1": None}}},
                     {"shard": {"0": "tp"}, "target": {"shard": None}}, {"shard": {"0": {"axes": "tp", "unit": "${2 * 2}"}}}, {"shard": {"0": {"size": 8}}}, {"owner": {"tp": {"index": [0, 3], "count": 4}}},
                     {"shard": {"0": {"axes": "tp", "layout": "zigzag", "packed": {"cu_seqlens": "lengths"}, "pad_value": -1.5}}}):
            with self.subTest(rule=rule):
                self.assert_exit(self.reshard("plan", self.plan(self.rule(**rule)), "--check"), 0)
                self.assert_valid("plan", self.rule(**rule))

    def json_of(self, *words, code=0):
        result = self.reshard(*words, "--report", "json")
        self.assert_exit(result, code)
        return result.json()

    def assert_reports(self, *options):
        """Every report of a way from two ranks to four with padding, an owner, a conversion and a fallback, and what is wrong afterwards."""
        sides = [{"w": part, "n": iota(3), "b": iota(6, 2, dtype="BF16")} for part in even(iota(8, 6), 0, 2)]
        source = self.ranks(sides)
        (source / "config.json").write_text("{}")
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["pp=2", "tp=2"], "views": {"expert": ["ep=4"]}}, "tensors": [
            {"match": "w", "shard": {"0": "tp"}, "owner": {"pp": "1/2"}, "rename": "v", "target": {"shard": {"0": {"pad_total": 8}}}},
            {"match": "n", "dtype": "f64", "view": "expert", "fallback": "replicate", "target": {"shard": {"0": "ep"}}},
            {"match": "gone", "optional": True}, {"match": "b", "drop": True}]})
        target = self.dir / "target"
        self.assert_valid("report-plan", self.json_of("plan", plan, "--source", source, *options))
        self.assert_valid("report-plan", self.json_of("plan", plan, "--source", source, "--rank", "2", "--processes", "3", "--transport", "mpi", *options))
        self.assert_valid("report-run", self.json_of("run", plan, "--source", source, "--target", target, *options))
        self.assert_valid("report-run", self.json_of("run", plan, "--source", source, "--target", target, "--resume", *options))
        self.assert_valid("manifest", json.loads((target / "reshard.json").read_text()))
        for folder in (source, target):
            self.assert_valid("report-inspect", self.json_of("inspect", folder))
        self.assert_valid("report-verify", self.json_of("verify", target))
        self.assert_valid("report-compare", self.json_of("compare", target, target))
        self.assert_valid("report-error", self.json_of("verify", source, code=4))
        self.assert_valid("report-check", self.json_of("plan", plan, "--check"))
        wrong = self.plan({"reshard": 1, "tensors": [{"match": "w", "shard": {"0": "nowhere"}}]})
        self.assert_valid("report-error", self.json_of("plan", wrong, "--check", code=3))
        return target

    def test_reports_and_manifest(self):
        target = self.assert_reports()
        file = target / "rank-00003.safetensors"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        report = self.json_of("verify", target, code=1)
        self.assertTrue(report["problems"])
        self.assert_valid("report-verify", report)
        for name, tensors in (("a", {"w": iota(4), "x": iota(2), "s": iota(2), "d": iota(2)}), ("b", {"w": iota(4, first=1), "y": iota(2), "s": iota(3), "d": iota(2, dtype="I32")})):
            self.full(tensors, name=name)
        report = self.json_of("compare", self.dir / "a", self.dir / "b", code=1)
        self.assertEqual({entry["what"] for entry in report["different"]}, {"value", "shape", "dtype"})
        self.assert_valid("report-compare", report)

    @needs_h5py
    def test_reports_and_manifest_of_hdf5(self):
        self.assert_reports("--target-format", "hdf5")

    def test_manifests_of_packed_and_numbered_targets(self):
        plan = self.plan({"reshard": 1, "target": {"axes": ["cp=2"]}, "tensors": [
            {"match": "seq", "shard": {"0": {"axes": "cp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 6, 16]}}}}, {"match": "e.*", "owner": {"cp": {"index": "$1", "count": 2, "numbering": "local"}}},
            {"match": "f", "shard": {"0": {"axes": "cp", "segments": [4, {"size": 2, "unit": 1, "fallback": "repeat"}]}}}]})
        source = self.full({"seq": iota(16, 2), "e.0": iota(2), "e.1": iota(2), "f": iota(6)})
        target = self.convert(plan, source)
        self.assert_valid("manifest", json.loads((target / "reshard.json").read_text()))
        full = self.plan({"reshard": 1, "target": {"axes": [], "max_file_size": 16}, "tensors": [{"match": "**"}]}, "full.json")
        numbered = self.convert(full, source)
        manifest = json.loads((numbered / "reshard.json").read_text())
        self.assertIsNone(manifest["files"])
        self.assert_valid("manifest", manifest)
        for change in (lambda m: m.pop("plan_digest"), lambda m: m.update(version=2), lambda m: m["tensors"]["f"].update(digest="0x1"), lambda m: m["placements"][0].update(more=1)):
            broken = copy.deepcopy(manifest)
            change(broken)
            self.assert_invalid("manifest", broken)

    def test_reports_that_are_not(self):
        report = self.json_of("plan", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", self.full({"w": iota(4)}))
        self.assert_valid("report-plan", report)
        for change in (lambda r: r.pop("traffic"), lambda r: r.update(more=1), lambda r: r["totals"].update(bytes_read=-1), lambda r: r["tensors"][0].pop("transfers"),
                       lambda r: r["tensors"][0]["transfers"][0]["source_box"].append([1]), lambda r: r.update(schema="reshard.run")):
            broken = copy.deepcopy(report)
            change(broken)
            self.assert_invalid("report-plan", broken)

"""Plans that are wrong on their own: exit 3, the code, and where in the file."""

import re

from support import Case
from tensors import iota

RULES = 'tensors: [{match: "**"}]'


class Plans(Case):
    def check(self, text, code, where=None, words=(), name="plan.yaml", complete=True):
        """`reshard plan --check` refuses the text; so does a run, before it looks at the source. A YAML text without a target gets one
        at its end, unless it is not to be `complete`."""
        if complete and name.endswith(".yaml") and "target:" not in text and text.startswith("reshard"):
            text += "target: {axes: []}\n"
        plan = self.plan(text, name)
        result = self.reshard("plan", plan, "--check")
        self.assert_refused(result, 3, code, words=words)
        if where is not None:
            lines = [line for line in result.err.splitlines() if re.search(code, line)]
            self.assertTrue(any(f"{name}:{where}:" in line for line in lines), lines)
        run = self.run_plan(plan, self.dir / "no-such-source")
        self.assert_refused(run, 3, code)

    def accepted(self, text, name="plan.yaml"):
        self.assert_exit(self.reshard("plan", self.plan(text, name), "--check"), 0)


class Syntax(Plans):
    def test_what_is_not_yaml_or_json(self):
        self.check("reshard: 1\nsource: {axes: [tp=2\n", "E_SYNTAX")
        self.check('{"reshard": 1,\n "tensors": [}', "E_SYNTAX", "2", name="plan.json")
        self.check("just words", "E_SCHEMA")

    def test_yaml_beyond_its_json_subset(self):
        for line in ('source: !!map {axes: []}', 'source: &a {axes: []}', 'source: *a', '<<: {fallback: error}'):
            with self.subTest(line=line):
                self.check(f"reshard: 1\n{line}\n{RULES}\n", "E_S")
        self.check(f"reshard: 1\n{RULES}\n---\nreshard: 1\n{RULES}\n", "E_SYNTAX")

    def test_repeated_keys(self):
        self.check(f"reshard: 1\nfallback: error\nfallback: replicate\n{RULES}\n", "E_DUP_KEY", "3", words=("fallback",))
        self.check('{"reshard": 1,\n "fallback": "error",\n "fallback": "error", "tensors": [{"match": "**"}]}', "E_DUP_KEY", "3", name="plan.json")

    def test_nesting_deeper_than_64(self):
        self.check('{"reshard": 1, "tensors": ' + "[" * 100 + "]" * 100 + "}", "E_SYNTAX", name="plan.json")
        self.check("reshard: 1\ntensors: " + "[" * 5000 + "]" * 5000 + "\n", "E_SYNTAX")

    def test_numbers_that_yaml_versions_read_differently(self):
        for scalar in ("04", "0x4", "0o17", "1_000", "+1", ".5", ".inf"):
            with self.subTest(scalar=scalar):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2]}}\ntensors:\n  - match: '*'\n    shard: {{0: {{axes: tp, unit: {scalar}}}}}\n", "E_SYNTAX", "5")


class Schema(Plans):
    def test_missing_and_unknown_keys(self):
        self.check(RULES, "E_SCHEMA", words=("reshard",))
        self.check("reshard: 1\n", "E_SCHEMA", words=("tensors",))
        self.check(f"reshard: 1\n{RULES}\n", "E_SCHEMA", words=("target",), complete=False)
        self.check(f"reshard: 2\n{RULES}\n", "E_SCHEMA", "1", words=("2",))
        self.check(f"reshard: 1\n{RULES}\nsorce: {{axes: []}}\n", "E_SCHEMA", "3", words=("sorce",))
        self.check("reshard: 1\ntensors:\n  - {match: w, shrad: {0: tp}}\n", "E_SCHEMA", "3", words=("shrad",))
        self.check("reshard: 1\ntarget: {axes: [tp=2]}\ntensors:\n  - {match: w, shard: {0: {axes: tp, units: 2}}}\n", "E_SCHEMA", "4", words=("units",))
        self.check("reshard: 1\ntensors:\n  - {shard: {0: tp}}\n", "E_SCHEMA", "3", words=("match",))

    def test_wrong_types(self):
        for line in ("tensors: {}", "tensors: 5", "tensors: [5]", "tensors: [{match: 5}]", "tensors: [{match: w, optional: 1}]", "tensors: [{match: w, shard: [tp]}]"):
            with self.subTest(line=line):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2]}}\n{line}\n", "E_SCHEMA", "3")
        self.check(f"reshard: yes\n{RULES}\n", "E_SCHEMA", "1")
        self.check(f"reshard: 1\nunmatched: ignore\n{RULES}\n", "E_SCHEMA", "2", words=("replicate",))
        self.check(f"reshard: 1\nfallback: repeat\n{RULES}\n", "E_SCHEMA", "2")
        self.check(f"reshard: 1\nvars: {{n: two}}\n{RULES}\n", "E_SCHEMA", "2", words=("n",))

    def test_units_are_positive_integers(self):
        for value in ('"4"', "4.0", "yes", "0", "-1", "", "4e0", "[4]"):
            with self.subTest(unit=value):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2]}}\ntensors:\n  - match: '*'\n    shard:\n      0:\n        axes: tp\n        unit: {value}\n", "E_", "8")

    def test_options_that_exclude_each_other(self):
        for rule in ("shard: {0: tp}, place: {tp: shard(0)}", "shard: {0: {axes: tp, segments: [2, 2], stride: 2}}", "shard: {0: {axes: tp, unit: 2, pad_to: 4}}",
                     "shard: {0: {axes: tp, pad_to: 4, pad_rows: 4}}"):
            with self.subTest(rule=rule):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2]}}\ntensors:\n  - {{match: w, {rule}}}\n", "E_SCHEMA", "4")

    def test_variables(self):
        base = "reshard: 1\nvars: {{nq: 32, nkv: {nkv}, d: 2}}\ntarget: {{axes: [tp=2]}}\ntensors:\n  - match: w\n    shard: {{0: {{axes: tp, unit: \"{unit}\"}}}}\n"
        self.accepted(base.format(nkv=4, unit="${nq/nkv*d}"))
        self.check(base.format(nkv=5, unit="${nq/nkv*d}"), "E_SCHEMA", "6", words=("32", "5"))
        self.check(base.format(nkv=0, unit="${nq/nkv*d}"), "E_SCHEMA", "6", words=("32", "0"))
        self.check(base.format(nkv=4, unit="${heads}"), "E_SCHEMA", "6", words=("heads",))
        self.check(base.format(nkv=4, unit="${nq"), "E_SCHEMA", "6")
        self.check(base.format(nkv=4, unit="${nq ** 2}"), "E_SCHEMA", "6")
        self.check(base.format(nkv=4, unit="${nq - 32}"), "E_SCHEMA", "6")

    def test_set_names_a_variable(self):
        plan = self.plan(f"reshard: 1\nvars: {{n: 2}}\ntarget: {{axes: [\"tp=${{n}}\"]}}\n{RULES}\n")
        self.assert_exit(self.reshard("plan", plan, "--check", "--set", "n=4"), 0)
        for words in ("n", "n=x", "=4"):
            self.assertIn(self.reshard("plan", plan, "--check", "--set", words).code, (2, 3), words)

    def test_file_templates(self):
        for template in ("../w-{rank}.safetensors", "/tmp/w-{rank}.safetensors", "w-{ranks}.safetensors", "w-{rank.safetensors", "w-{rank:x}.safetensors"):
            with self.subTest(template=template):
                self.check(f'reshard: 1\ntarget: {{axes: [tp=2], files: "{template}"}}\n{RULES}\n', "E_SCHEMA", "2")

    def test_reserved_words(self):
        for word in ("concat", "stack", "transpose", "flat", "quantize"):
            self.check(f"reshard: 1\ntensors:\n  - {{match: w, {word}: 1}}\n", "E_SCHEMA|E_UNSUPPORTED", "3", words=(word,))
        self.check(f"reshard: 1\ninclude: other.yaml\n{RULES}\n", "E_SCHEMA|E_UNSUPPORTED", "2", words=("include",))

    def test_an_unknown_format(self):
        self.check(f"reshard: 1\ntarget: {{axes: [tp=2], format: zarr}}\n{RULES}\n", "E_", "2", words=("zarr", "safetensors"))

    def test_all_faults_are_reported_at_once(self):
        plan = self.plan("reshard: 1\nsource: {axes: [tp=0]}\ntarget: {axes: [tp=2, tp=2]}\ntensors:\n  - {match: '{a', shard: {0: tp}}\n  - {match: w, shrad: 1}\n")
        self.assert_refused(self.reshard("plan", plan, "--check"), 3, "E_MESH_SIZE", "E_AXIS_DUP", "E_PATTERN", "E_SCHEMA")

    def test_numbers_of_a_plan_that_cannot_be(self):
        self.check("reshard: 1\ntarget: {axes: [tp=2]}\ntensors:\n  - {match: w, shard: {0: {axes: tp, segments: [4, 0]}}}\n", "E_S", "4")
        self.check("reshard: 1\ntarget: {axes: [pp=4]}\ntensors:\n  - {match: w, owner: {pp: \"7/6\"}}\n", "E_OWNER", "4", words=("6", "4"))
        self.check("reshard: 1\ntarget: {axes: [tp=2]}\ntensors:\n  - {match: w, shard: {0: {axes: tp, split: [1, 1, 1]}}}\n", "E_OWNER", "4", words=("3", "2"))
        self.check("reshard: 1\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: 'l.*', owner: {tp: {index: $1, split: [3, 3, 2]}}}\n", "E_OWNER", "4", words=("3", "4"))


class Meshes(Plans):
    def test_axis_sizes(self):
        for axis in ("tp=0", "tp=-1", "tp=", "tp", "tp=4.0", "tp=04", "tp=0x4", "tp=4e0", "tp=yes", "tp=2x", "=2", "Tp=2", "t-p=2", "2p=2", "tp=4 ", "tp=99999999999999999999"):
            with self.subTest(axis=axis):
                self.check(f'reshard: 1\ntarget: {{axes: ["{axis}"]}}\n{RULES}\n', "E_", "2")
        self.check(f"reshard: 1\ntarget: {{axes: [tp=0]}}\n{RULES}\n", "E_MESH_SIZE", "2")
        self.check(f"reshard: 1\ntarget: {{axes: [tp=4294967296, dp=4294967296]}}\n{RULES}\n", "E_MESH_SIZE", "2")

    def test_an_axis_twice(self):
        self.check(f"reshard: 1\ntarget: {{axes: [tp=2, dp=2, tp=2]}}\n{RULES}\n", "E_AXIS_DUP", "2", words=("tp",))

    def test_ranks_is_a_permutation(self):
        for ranks in ("[0, 0]", "[0]", "[0, 2]", "[0, 1, 2]", "[-1, 0]"):
            with self.subTest(ranks=ranks):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2], ranks: {ranks}}}\n{RULES}\n", "E_RANKS", "2")

    def test_views_have_as_many_ranks_as_the_mesh(self):
        self.check(f"reshard: 1\ntarget: {{axes: [dp=2, tp=4], views: {{expert: [ep=2, etp=2]}}}}\n{RULES}\n", "E_MESH_WORLD", "2", words=("8", "4"))

    def test_an_unknown_view(self):
        self.check("reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: w, view: expert}\n", "E_SCHEMA", "5", words=("expert",))

    def test_an_unknown_axis_suggests_the_nearest(self):
        self.check("reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: w, shard: {0: TP}}\n", "E_AXIS_UNKNOWN", "5", words=("TP", "tp"))
        self.check("reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: w, place: {cp: shard(0)}}\n", "E_AXIS_UNKNOWN", "5", words=("cp",))

    def test_an_axis_cuts_once(self):
        self.check("reshard: 1\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: w, shard: {0: tp, 1: tp}}\n", "E_AXIS_REUSED", "4", words=("tp",))
        self.check("reshard: 1\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: w, shard: {0: [tp, tp]}}\n", "E_AXIS_REUSED", "4", words=("tp",))

    def test_two_ranks_share_a_file_only_as_replicas(self):
        plan = self.plan('reshard: 1\nsource: {axes: []}\ntarget: {axes: [dp=2, tp=2], files: "tp{tp}.safetensors"}\ntensors:\n  - {match: w, shard: {0: [tp, dp]}}\n')
        result = self.run_plan(plan, self.full({"w": iota(4)}))
        self.assertIn(result.code, (3, 4), str(result))
        self.assertFalse(self.target.exists())

    def test_two_ranks_share_a_source_file_only_as_replicas(self):
        source = self.full({"w": iota(4, 2)})
        for rule in ({"shard": {"0": "tp"}}, {"shard": {"0": {"axes": "tp", "layout": "zigzag"}}}, {"owner": {"tp": "0/2"}}):
            plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"], "files": "model.safetensors"}, "target": {"axes": []}, "tensors": [{"match": "w", **rule}]})
            with self.subTest(rule=rule):
                result = self.run_plan(plan, source)
                self.assertIn(result.code, (3, 4), str(result))
                self.assertFalse(self.target.exists())
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2"], "files": "model.safetensors"}, "target": {"axes": []}, "tensors": [{"match": "w"}]})
        self.assert_full(self.convert(plan, source), {"w": iota(4, 2)})

    def test_a_dim_that_no_member_names(self):
        self.check('reshard: 1\ntarget: {axes: [tp=2]}\ntensors:\n  - {match: g, members: {weight: ". .", bias: "."}, shard: {out: tp}}\n', "E_DIM_RANGE", "4", words=("out",))


class Patterns(Plans):
    def test_bad_patterns(self):
        for pattern in ("a{b", "a}b", "{a,{b,c}}", "re:(", "", "re:"):
            with self.subTest(pattern=pattern):
                self.check(f"reshard: 1\ntensors:\n  - {{match: '{pattern}'}}\n", "E_", "3")
        self.check("reshard: 1\ntensors:\n  - {match: 'a{b'}\n", "E_PATTERN", "3", words=("a{b",))

    def test_a_capture_that_is_not_there(self):
        self.check("reshard: 1\ntensors:\n  - {match: 'a.*', rename: 'b.$2'}\n", "E_PATTERN", "3", words=("$2",))
        self.check("reshard: 1\ntarget: {axes: [pp=2]}\ntensors:\n  - {match: 'a', owner: {pp: $1/4}}\n", "E_PATTERN", "4", words=("$1",))


class Placements(Plans):
    def test_partial_in_any_form(self):
        for placement in ("partial", "partial(sum)", "Partial()", "partial(avg)"):
            with self.subTest(placement=placement):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2]}}\ntensors:\n  - {{match: w, place: {{tp: \"{placement}\"}}}}\n", "E_PARTIAL", "4")

    def test_placements_that_are_none(self):
        for placement in ("shard", "shard()", "shard(x)", "shard(0", "split(0)", "strided_shard(0)"):
            with self.subTest(placement=placement):
                self.check(f"reshard: 1\ntarget: {{axes: [tp=2]}}\ntensors:\n  - {{match: w, place: {{tp: \"{placement}\"}}}}\n", "E_SCHEMA|E_DIM_RANGE", "4")

    def test_owner_counts(self):
        self.check("reshard: 1\ntarget: {axes: [ep=4]}\ntensors:\n  - {match: 'e.*', owner: {ep: $1/6}}\n", "E_OWNER", "4", words=("6", "4"))
        self.check("reshard: 1\ntarget: {axes: [ep=2]}\ntensors:\n  - {match: 'e', owner: {ep: \"4/4\"}}\n", "E_OWNER", "4")
        self.check("reshard: 1\ntarget: {axes: [pp=2]}\ntensors:\n  - {match: 'e', owner: {pp: {index: 0, count: 4, numbering: local}}}\n", "E_SCHEMA", "4")

    def test_dtypes_of_a_rule(self):
        for dtype in ("i32", "f8_e4m3", "float32", "F32"):
            with self.subTest(dtype=dtype):
                self.check(f"reshard: 1\ntensors:\n  - {{match: w, dtype: {dtype}}}\n", "E_", "3", words=(dtype,))


class Equal(Plans):
    def test_yaml_and_json_forms_of_one_plan_give_the_same_errors(self):
        yaml = "reshard: 1\nsource: {axes: [tp=4]}\ntarget: {axes: [tp=2]}\ntensors:\n  - {match: w, shard: {0: {axes: tp, unit: 0}}}\n  - {match: v, shard: {0: dp}}\n"
        json = '{"reshard": 1, "source": {"axes": ["tp=4"]}, "target": {"axes": ["tp=2"]}, "tensors": [\n {"match": "w", "shard": {"0": {"axes": "tp", "unit": 0}}},\n {"match": "v", "shard": {"0": "dp"}}]}'
        reports = []
        for text, name in ((yaml, "plan.yaml"), (json, "plan.json")):
            result = self.reshard("plan", self.plan(text, name), "--check", "--report", "json")
            self.assert_exit(result, 3)
            reports.append([(error["code"], error["message"]) for error in result.json()["errors"]])
        self.assertEqual(len(reports[0]), 2)
        self.assertEqual(reports[0], reports[1])

    def test_a_good_plan_checks_without_a_source(self):
        self.accepted("reshard: 1\nsource: {axes: [tp=2]}\ntarget: {axes: [tp=4]}\ntensors:\n  - {match: '*', shard: {0: tp}}\n")
        self.accepted('{"reshard": 1, "target": {"axes": []}, "tensors": [{"match": "*"}]}', "plan.json")

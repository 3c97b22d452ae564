"""Every code of the plan format's table of refusals, for every cause that the table names: the exit code, the code, and a message
with the numbers and the legal choices. What the plan alone has wrong is exit 3, with and without a source; what it has wrong beside a
checkpoint is exit 4."""

from support import Case
from tensors import Tensor, even, iota

HEAD = "reshard: 1\nsource: {axes: [%s]}\ntarget: {axes: [%s]}\ntensors:\n  - {match: %s}\n"


def rule(text, source="tp=2", target="tp=4"):
    return HEAD % (source, target, text)


# (code, plan, words of the message)
ALONE = (
    ("E_SYNTAX", "reshard: 1\ntarget: {axes: [tp=2\n", ()),
    ("E_SYNTAX", "reshard: 1\ntarget: !!map {axes: []}\ntensors: []\n", ("tag",)),
    ("E_SYNTAX", "reshard: 1\ntarget: &a {axes: []}\ntensors: []\n", ("anchor",)),
    ("E_SYNTAX", "reshard: 1\ntarget: *a\ntensors: []\n", ("anchor",)),
    ("E_SYNTAX", "reshard: 1\ntarget: {}\ntensors: " + "[" * 80 + "]" * 80 + "\n", ("64",)),
    ("E_SYNTAX", "# " + "x" * (16 << 20) + "\n" + rule("w"), ("16777216",)),
    ("E_DUP_KEY", "reshard: 1\nreshard: 1\ntarget: {}\ntensors: []\n", ('"reshard"', "twice")),
    ("E_SCHEMA", rule("w, shrad: {0: tp}"), ("'shrad'", "legal keys: match, shard, place")),
    ("E_SCHEMA", rule("w, optional: 1"), ("true or false",)),
    ("E_SCHEMA", "reshard: 1\ntarget: {}\n", ("'tensors'", "missing")),
    ("E_SCHEMA", rule("w").replace("reshard: 1", "reshard: 2"), ("2", "expected", "1")),
    ("E_SCHEMA", rule("w, shard: {0: tp}, place: {tp: shard(0)}"), ("excludes 'shard'",)),
    ("E_SCHEMA", rule('w, shard: {0: {axes: tp, unit: "${n/3}"}}').replace("tensors", "vars: {n: 4}\ntensors"), ("4", "3")),
    ("E_SCHEMA", rule('w, shard: {0: {axes: tp, unit: "${m}"}}').replace("tensors", "vars: {n: 4}\ntensors"), ("'m'", "'n'")),
    ("E_SCHEMA", rule("w").replace("axes: [tp=4]", 'axes: [tp=4], files: "{tq}.safetensors"'), ("tq", "rank", "tp")),
    ("E_MESH_SIZE", rule("w", target="tp"), ("'tp'", "size")),
    ("E_MESH_SIZE", rule("w", target="tp=0"), ("'0'", "1 or more")),
    ("E_MESH_SIZE", rule("w", target="tp=65536, dp=65536"), ("1048576",)),
    ("E_AXIS_DUP", rule("w", target="tp=2, tp=2"), ("'tp'", "twice")),
    ("E_RANKS", rule("w").replace("axes: [tp=4]", "axes: [tp=4], ranks: [0, 1, 1, 3]"), ("1",)),
    ("E_RANKS", rule("w").replace("axes: [tp=4]", "axes: [tp=4], ranks: [0, 1]"), ("2", "4")),
    ("E_MESH_WORLD", rule("w").replace("axes: [tp=4]", "axes: [tp=4], views: {expert: [ep=3]}"), ("'expert'", "3", "4")),
    ("E_PATTERN", rule("'a{b'"), ("a{b",)),
    ("E_PATTERN", rule("'a.*', rename: 'b.$2'"), ("$2", "1")),
    ("E_AXIS_UNKNOWN", rule("w, shard: {0: tpp}"), ("'tpp'", "nearest is 'tp'")),
    ("E_AXIS_REUSED", rule("w, shard: {0: tp, 1: tp}"), ("'tp'",)),
    ("E_AXIS_REUSED", rule("w, shard: {0: [tp, tp]}"), ("'tp'",)),
    ("E_PARTIAL", rule("w, place: {tp: partial}"), ("partial", "reduce")),
    ("E_PARTIAL", rule('w, place: {tp: "partial(sum)"}'), ("partial(sum)",)),
    # Of the second table, where the plan's own numbers show the fault.
    ("E_DIM_RANGE", rule("g, members: {weight: out in}, shard: {ffn: tp}"), ("'ffn'", "out, in")),
    ("E_INDIVISIBLE", rule("w, shard: {0: {axes: tp, segments: [8, 6]}}"), ("6", "4", "legal sizes of 'tp': 1, 2")),
    ("E_INDIVISIBLE", rule("w, shard: {0: {axes: tp, size: 10}}"), ("10", "4", "legal sizes of 'tp': 1, 2, 5, 10")),
    ("E_SEGMENT_SUM", rule("w, shard: {0: {axes: tp, segments: [8, 0]}}"), ("0", "1 or more")),
    ("E_SEGMENT_SUM", rule("w, shard: {0: {axes: tp, segments: [8, 8], size: 20}}"), ("16", "20")),
    ("E_STRIDE", rule("w, shard: {0: {axes: tp, stride: 0}}"), ("0", "1 or more")),
    ("E_SEQ_LAYOUT", rule("w, shard: {0: {axes: tp, layout: zigzag, packed: {cu_seqlens: [0, 5, 4]}}}"), ("5", "4", "ecrease")),
    ("E_SEQ_LAYOUT", rule("w, shard: {0: {axes: tp, layout: zigzag, packed: {cu_seqlens: [1, 4]}}}"), ("1", "0")),
    ("E_SEQ_LAYOUT", rule("w, shard: {0: {axes: tp, layout: zigzag, packed: {cu_seqlens: [0, 5], cu_seqlens_padded: [0, 4]}}}"), ("5", "4")),
    ("E_SEQ_LAYOUT", rule("w, shard: {0: {axes: tp, layout: zigzag, size: 9, packed: {cu_seqlens: [0, 8]}}}"), ("9", "8")),
    ("E_PAD", rule("w, shard: {0: {axes: tp, pad_rows: -2}}"), ("-2", "0 or more")),
    ("E_OWNER", rule("w, owner: {tp: 4/4}"), ("4",)),
    ("E_OWNER", rule("'*', owner: {tp: $1/6}"), ("6", "4", "multiple")),
    ("E_OWNER", rule("'*', owner: {tp: {index: $1, split: [3, 3, 2]}}", source=""), ("3", "4", "share")),
    ("E_OWNER", rule("w, shard: {0: {axes: tp, split: [3, 3, 2]}}", source=""), ("3", "4", "share")),
    ("E_DTYPE", rule("w, dtype: f8_e4m3"), ("f8_e4m3", "f16, bf16, f32, f64")),
    ("E_SHAPE", rule("w, source: {shard: {0: {axes: tp, size: 8}}}, target: {shard: {0: {axes: tp, size: 16}}}"), ("8", "16")),
    ("E_OVERFLOW", rule("w, shard: {0: {axes: tp, segments: [9223372036854775807, 1]}}"), ("63 bits",)),
    ("E_OVERFLOW", rule("w, shard: {0: {axes: tp, size: 8, pad_to: 4611686018427387904}}"), ("plan.yaml:5:", "tensors[0]", "'tp'", "pad_to", "63 bits")),
    ("E_OVERFLOW", rule("w, shard: {0: {axes: tp, pad_to: 2305843009213693952, size: 9223372036854775807}}"),
     ("plan.yaml:5:", "tensors[0]", "'tp'", "pad_to", "63 bits")),
    ("E_OVERFLOW", rule("w, target: {shard: {0: {axes: tp, pad_to: 2305843009213693952}}}"), ("plan.yaml:5:", "tensors[0]", "'tp'", "63 bits")),
    ("E_OVERFLOW", rule("w, target: {shard: {0: {axes: tp, pad_total: 2305843009213693952}}}"), ("plan.yaml:5:", "tensors[0]", "pad_total", "63 bits")),
    ("E_OVERFLOW", rule("w, target: {shard: {0: {axes: tp, stride: 2305843009213693952}}}"), ("plan.yaml:5:", "tensors[0]", "stride", "63 bits")),
    ("E_OVERFLOW", rule("w, target: {shard: {0: {axes: tp, layout: striped, block: 2305843009213693952}}}"),
     ("plan.yaml:5:", "tensors[0]", "block", "63 bits")),
)

# (code, sides, rule, tensors of the full source or of its ranks, words of the message)
BESIDE_A_CHECKPOINT = (
    ("E_RULE_UNUSED", ("", "tp=2"), "nothing", {"w": iota(4)}, ("'nothing'", "`optional: true`")),
    ("E_TENSOR_UNMATCHED", ("", "tp=2"), "v", {"v": iota(4), "w": iota(4)}, ("'w'", "`unmatched: replicate`", "`unmatched: drop`")),
    ("E_DIM_RANGE", ("", "tp=2"), "w, shard: {2: tp}", {"w": iota(4, 2)}, ("'w'", "dim 2", "-2 to 1")),
    ("E_DIM_RANGE", ("", "tp=2"), "w, shard: {-3: tp}", {"w": iota(4, 2)}, ("'w'", "dim -3", "-2 to 1")),
    ("E_DIM_DUP", ("", "tp=2, dp=2"), "w, shard: {0: tp, -2: dp}", {"w": iota(4, 2)}, ("'w'", "0", "-2")),
    ("E_INDIVISIBLE", ("", "tp=4"), "w, shard: {0: {axes: tp, unit: 4}}", {"w": iota(6)}, ("'w'", "6 elements", "units of 4 (1 x 4 + 2)", "multiples of 4")),
    ("E_INDIVISIBLE", ("", "tp=4"), "w, shard: {0: tp}", {"w": iota(6)}, ("'w'", "6", "4", "legal sizes of 'tp': 1, 2, 3, 6")),
    ("E_INDIVISIBLE", ("", "tp=4"), "w, shard: {0: {axes: tp, unit: 2}}", {"w": iota(6)}, ("'w'", "3 units of 2", "legal sizes of 'tp': 1, 3")),
    ("E_EMPTY_SHARD", ("", "tp=4"), "w, shard: {0: {axes: tp, split: balanced}}", {"w": iota(3)}, ("'w'", "3", "4", "legal sizes of 'tp': 1, 2, 3")),
    ("E_UNIT_SPLIT", ("", "tp=2"), "g, members: {weight: out in, scale: out/4 in}, shard: {out: tp}", {"g.weight": iota(12, 2), "g.scale": iota(3, 2)},
     ("at 6", "block of 4", "legal sizes of 'tp': 1, 3")),
    ("E_UNIT_SPLIT", ("", "tp=2"), "g, members: {packed: out in/8, scale: out in/16}, shard: {in: tp}", {"g.packed": iota(4, 6), "g.scale": iota(4, 3)},
     ("at 24", "block of 16", "legal sizes of 'tp': 1, 3")),
    ("E_SEGMENT_SUM", ("", "tp=2"), "w, shard: {0: {axes: tp, segments: [4, 2]}}", {"w": iota(8)}, ("'w'", "6", "8")),
    ("E_STRIDE", ("", "tp=2"), "w, target: {shard: {0: {axes: tp, stride: 3}}}", {"w": iota(8)}, ("'w'", "8", "3 x 2 = 6")),
    ("E_SEQ_LAYOUT", ("", "cp=4"), "w, shard: {0: {axes: cp, layout: zigzag}}", {"w": iota(12)}, ("'w'", "12", "2 x 4 = 8")),
    ("E_SEQ_LAYOUT", ("", "cp=2"), "w, shard: {0: {axes: cp, layout: striped, block: 4}}", {"w": iota(12)}, ("'w'", "12", "4 x 2 = 8")),
    ("E_SEQ_LAYOUT", ("", "cp=2"), "w, shard: {0: {axes: cp, layout: zigzag, packed: {cu_seqlens: [0, 3, 8]}}}", {"w": iota(10)}, ("'w'", "8", "10")),
    ("E_SEQ_LAYOUT", ("cp=2", ""), "w, shard: {0: {axes: cp, layout: zigzag, packed: {cu_seqlens: [0, 3, 8]}}}", [{"w": iota(5)}] * 2, ("'w'", "8", "5")),
    ("E_SEQ_LAYOUT", ("", "cp=2"), "w, shard: {0: {axes: cp, layout: zigzag, packed: {cu_seqlens: cu}}}}\n  - {match: cu",
     {"w": iota(8), "cu": iota(3, dtype="I32", first=1)}, ("'w'", "starts at 1", "0")),
    ("E_PAD", ("", "tp=2"), "w, shard: {0: {axes: tp, pad_rows: 2}}", {"w": iota(7)}, ("'w'", "7", "2", "9 is not a multiple of 2")),
    ("E_PAD", ("tp=2", ""), "w, shard: {0: {axes: tp, pad_rows: 8}}", [{"w": iota(4)}] * 2, ("'w'", "4, 4", "padding")),
    ("E_PAD", ("tp=2", ""), "w, shard: {0: {axes: tp, pad_to: 4}}", [{"w": iota(4)}] * 2, ("'w'", "1 to 8", "give 'size'")),
    ("E_PAD", ("tp=4", ""), "w, shard: {0: {axes: tp, unit: 2, fallback: repeat}}", [{"w": iota(2)}] * 4, ("'w'", "2 to 8", "give 'size'")),
    ("E_REPEAT", ("", "tp=3"), "w, shard: {0: {axes: tp, unit: 2, fallback: repeat}}", {"w": iota(4)}, ("'w'", "3", "2 units of 2", "legal sizes of 'tp': 1, 2, 4")),
    ("E_OWNER", ("", "pp=2"), "'l.*', owner: {pp: $1/4}", {"l.4": iota(2)}, ("'l.4'", "number 4", "0 to 3")),
    ("E_GROUP_INCOMPLETE", ("", "tp=2"), "g, members: {weight: out in, scale: out}, shard: {out: tp}", {"g.weight": iota(4, 2)}, ("'scale'", "scale?")),
    ("E_GROUP_INCOMPLETE", ("", "tp=2"), '"**.bias"}\n  - {match: g, members: {weight: out in, "bias?": out}, shard: {out: tp}',
     {"g.weight": iota(4, 2), "g.bias": iota(4)}, ("'bias'", "tensors[0]")),
    ("E_MEMBER_SIZE", ("", "tp=2"), "g, members: {weight: out in, bias: out}, shard: {out: tp}", {"g.weight": iota(4, 2), "g.bias": iota(6)}, ("'weight'", "4", "'bias'", "6")),
    ("E_MEMBER_SIZE", ("", "tp=1"), "g, members: {weight: out, scale: out/64}, shard: {out: {axes: tp, segments: [100, 100]}}",
     {"g.weight": iota(200), "g.scale": iota(4)}, ("'scale'", "numbered", "100, 100")),
    ("E_SHAPE", ("tp=2", ""), "w, shard: {0: {axes: tp, size: 10}}", [{"w": iota(4)}] * 2, ("'w'", "10", "4")),
    ("E_SHAPE", ("tp=2", ""), "w, shard: {0: tp}", [{"w": iota(4, 2)}, {"w": iota(4, 3)}], ("'w'", "2", "3")),
    ("E_DTYPE", ("tp=2", ""), "w, shard: {0: tp}", [{"w": iota(4)}, {"w": iota(4, dtype="I32")}], ("'w'", "f32", "i32")),
    ("E_DTYPE", ("", "tp=2"), "w, dtype: bf16", {"w": iota(4, dtype="I32")}, ("'w'", "i32", "f64, f32, f16 and bf16")),
    ("E_DTYPE", ("", "cp=2"), "w, shard: {0: {axes: cp, layout: zigzag, packed: {cu_seqlens: [0, 3]}, pad_value: 300}}", {"w": iota(3, dtype="U8")}, ("'w'", "300", "u8")),
    ("E_RENAME_COLLISION", ("", "tp=2"), "'*.w', rename: w", {"a.w": iota(4), "b.w": iota(4)}, ("a.w", "b.w")),
    ("E_MISSING", ("tp=2", ""), "w", [{"w": iota(4), "v": iota(2)}, {"w": iota(4)}], ("'v'", "rank 1")),
    ("E_MISSING", ("pp=2", ""), "'l.*', owner: {pp: $1/2}", [{"l.0": iota(2), "l.1": iota(2)}, {"l.1": iota(2)}], ("'l.1'", "rank 0")),
    ("E_MESH_WORLD", ("tp=2", ""), "w, shard: {0: tp}", [{"w": iota(4)}] * 3, ("rank-00002.safetensors",)),
)


class Refused(Case):
    def test_what_the_plan_alone_has_wrong(self):
        source = self.full({"w": iota(8, 8)})
        for code, text, words in ALONE:
            with self.subTest(code=code, plan=text[-120:]):
                plan = self.plan(text)
                self.assert_refused(self.reshard("plan", plan, "--check"), 3, code, words=words)
                self.refuse(plan, source, 3, code, words=words)
                plan.unlink()

    def test_what_plan_and_checkpoint_have_wrong(self):
        for number, (code, sides, text, tensors, words) in enumerate(BESIDE_A_CHECKPOINT):
            with self.subTest(code=code, rule=text):
                plan = self.plan(rule(text, *sides))
                self.assert_exit(self.reshard("plan", plan, "--check"), 0)
                name = f"source-{number}"
                if code == "E_MISSING" and text == "w":
                    plan = self.plan(rule("w}\n  - {match: v", *sides))
                source = self.full(tensors, name) if isinstance(tensors, dict) else self.ranks(tensors, name)
                self.refuse(plan, source, 4, code, words=words)

    def test_what_a_manifest_has_otherwise(self):
        source = self.convert(self.plan(rule("w, shard: {0: tp}", "", "tp=2")), self.full({"w": iota(8)}))
        self.refuse(self.plan(rule("w, shard: {0: tp}", "tp=4", "tp=2")), source, 4, "E_MESH_WORLD", words=("4", "2"))
        self.refuse(self.plan(rule("w, shard: {0: {axes: tp, unit: 3}}", "tp=2", "tp=1")), source, 4, "E_SHAPE", words=("'w'",))

    def test_what_files_do_not_have(self):
        plan = self.plan(rule("w, shard: {0: tp}", "tp=2", "tp=4"))
        self.refuse(plan, self.dir / "nowhere", 4, "E_MISSING", words=("nowhere",))
        source = self.ranks([{"w": s} for s in even(iota(8), 0, 2)])
        (source / "rank-00001.safetensors").unlink()
        self.refuse(plan, source, 4, "E_MISSING", words=("rank-00001.safetensors",))

    def test_replicas_that_differ(self):
        source = self.ranks([{"w": iota(4)}, {"w": iota(4, first=1)}])
        result = self.run_plan(self.plan(rule("w", "tp=2", "")), source, "--check-replicas")
        self.assert_exit(result, 4)
        self.assert_error_lines(result, "E_REPLICA")
        self.assertIn("'w'", result.err)

    def test_a_length_beyond_63_bits(self):
        # Zero elements per file, yet the global length of dim 0 is beyond 63 bits.
        source = self.ranks([{"w": Tensor("U8", (2**62, 0), b"")}] * 2)
        self.refuse(self.plan(rule("w, shard: {0: tp}", "tp=2", "")), source, 4, "E_OVERFLOW", words=("'w'", "63 bits"))

    def test_numbers_that_only_a_length_takes_beyond_63_bits(self):
        """The plan alone is in order; what it makes of the tensor is not."""
        source = self.full({"w": iota(8), "v": iota(8)})
        for padding in ("pad_to: 1152921504606846976", "pad_rows: 4611686018427387904", "pad_total: 1152921504606846976",
                        "pad_rows: 9223372036854775804"):
            plan = self.plan(rule("w, target: {shard: {0: {axes: tp, %s}}}" % padding, "", "tp=4") + "  - {match: v}\n")
            with self.subTest(padding=padding):
                self.assert_exit(self.reshard("plan", plan, "--check"), 0)
                self.refuse(plan, source, 4, "E_OVERFLOW", words=("plan.yaml:5", "tensor 'w'", "target"))
                self.assert_refused(self.reshard("plan", plan, "--source", source), 4, "E_OVERFLOW", words=("plan.yaml:5", "tensor 'w'"))
        for unit in ("unit", "stride"):
            plan = self.plan(rule("w, target: {shard: {0: {axes: tp, %s: 1152921504606846976}}}" % unit, "", "tp=4") + "  - {match: v}\n")
            with self.subTest(unit=unit):
                self.refuse(plan, source, 4, "E_INDIVISIBLE|E_STRIDE|E_UNSUPPORTED", words=("plan.yaml:5", "tensor 'w'"))

    def test_a_target_within_what_is_counted_is_planned_for_any_number_of_processes(self):
        source = self.full({"w": iota(8)})
        plan = self.plan(rule("w, target: {shard: {0: {axes: tp, pad_to: 18014398509481984}}}", "", "tp=4"))  # 4 ranks x 2^56 bytes
        result = self.reshard("plan", plan, "--source", source, "--processes", 1000, "--report", "json")
        self.assert_exit(result, 0)
        self.assertEqual(result.json()["target"]["bytes"], 2**58)

    def test_tensors_that_together_go_beyond_what_is_counted(self):
        source = self.full({"v": iota(8), "w": iota(8)})
        plan = self.plan(rule("'*', target: {shard: {0: {axes: tp, pad_to: 180143985094819840}}}", "", "tp=4"))
        self.refuse(plan, source, 4, "E_OVERFLOW", words=("plan.yaml:5", "tensor 'w'", "2^62"))


    def test_every_code_of_the_table_is_here(self):
        table = """E_SYNTAX E_DUP_KEY E_SCHEMA E_MESH_SIZE E_AXIS_DUP E_RANKS E_MESH_WORLD E_PATTERN E_AXIS_UNKNOWN E_AXIS_REUSED E_PARTIAL
            E_RULE_UNUSED E_TENSOR_UNMATCHED E_DIM_RANGE E_DIM_DUP E_INDIVISIBLE E_EMPTY_SHARD E_UNIT_SPLIT E_SEGMENT_SUM E_STRIDE E_SEQ_LAYOUT
            E_PAD E_REPEAT E_OWNER E_GROUP_INCOMPLETE E_MEMBER_SIZE E_SHAPE E_DTYPE E_RENAME_COLLISION E_MISSING E_OVERFLOW""".split()
        shown = {row[0] for row in ALONE + BESIDE_A_CHECKPOINT}
        self.assertEqual(sorted(set(table) - shown), [])

"""Chains of reshards: a finished target, whose manifest says how it is cut, is the source of the next run. And copies within a source."""

import json

from support import Case, read_safetensors, snapshot, write_safetensors
from tensors import Tensor, even, iota, noise, take

MODEL = {"w": noise("w", 20, 2), "k": noise("k", 4, 2), "norm": noise("norm", 3), "g.weight": noise("gw", 16, 4, dtype="F8_E4M3"), "g.scale": noise("gs", 4),
         "experts": noise("e", 4, 4), **{f"layers.{i}.w": noise(f"l{i}", 2) for i in range(4)}}
RULES = [
    {"match": "w", "shard": {"0": {"axes": ["tp", "gtp"], "pad_to": 4}}},
    {"match": "k", "shard": {"0": {"axes": "tp", "unit": 2, "fallback": "repeat"}}},
    {"match": "norm"},
    {"match": "g", "shard": {"out": "tp"}, "members": {"weight": "out in", "scale": "out/4"}},
    {"match": "experts", "view": "expert", "shard": {"0": "ep", "1": "etp"}},
    {"match": "layers.*.w", "owner": {"pp": {"index": "$1", "count": 4, "numbering": "local"}}},
]
FIRST = {"axes": ["pp=2", "gtp=2", "tp=4"], "views": {"expert": ["ep=4", "etp=4"]}}
SECOND = {"axes": ["pp=1", "gtp=1", "tp=2"], "views": {"expert": ["ep=2", "etp=1"]}}


def tensors_of(folder):
    return {name: digest for name, digest in snapshot(folder).items() if name != "reshard.json"}


class Chains(Case):
    def chain_plan(self, target, rules, name, **top):
        return self.plan({"reshard": 1, "target": target, "tensors": rules, **top}, name)

    def first(self):
        return self.convert(self.chain_plan(FIRST, RULES, "first.json", source={"axes": []}), self.full(MODEL))

    def second(self):
        """Straight from the full checkpoint: what every chain must end in."""
        return tensors_of(self.convert(self.chain_plan(SECOND, RULES, "second.json", source={"axes": []}), self.full(MODEL)))

    def test_the_same_rules_serve_every_step(self):
        first = self.first()
        self.assertEqual(tensors_of(self.convert_everywhere(self.chain_plan(SECOND, RULES, "next.json"), first)), self.second())
        spoken = self.chain_plan(SECOND, RULES, "spoken.json", source={**FIRST, "axes": ["pp=2", "cp=1", "gtp=2", "tp=4"]})
        self.assertEqual(tensors_of(self.convert(spoken, first)), self.second())

    def test_rules_of_the_target_alone_are_enough(self):
        rules = [{"match": "w", "target": {"shard": {"0": ["tp", "gtp"]}}}, {"match": "{k,g.weight,g.scale}", "target": {"shard": {"0": "tp"}}},
                 {"match": "experts", "target": {"view": "expert", "shard": {"0": "ep"}}}, {"match": "**"}]
        self.assertEqual(tensors_of(self.convert_everywhere(self.chain_plan(SECOND, rules, "next.json"), self.first())), self.second())

    def test_members_say_what_belongs_together_and_leave_the_source_to_the_manifest(self):
        rules = [{"match": "w", "target": {"shard": {"0": ["tp", "gtp"]}}}, {"match": "k", "target": {"shard": {"0": "tp"}}},
                 {"match": "g", "members": {"weight": "out in", "scale": "out/4"}, "target": {"shard": {"out": "tp"}}},
                 {"match": "experts", "target": {"view": "expert", "shard": {"0": "ep"}}}, {"match": "**"}]
        first = self.first()
        self.assertEqual(tensors_of(self.convert_everywhere(self.chain_plan(SECOND, rules, "next.json"), first)), self.second())
        # A cut between the blocks of a scale is refused as ever.
        narrow = self.chain_plan({"axes": ["tp=16"]}, [rules[2], {"match": "**"}], "narrow.json")
        self.assert_refused(self.run_plan(narrow, first), 4, "E_UNIT_SPLIT")

    def test_groups_of_stages_that_number_locally(self):
        model = {f"l.{i}.{part}": noise(f"{i}{part}", *shape) for i in range(4) for part, shape in (("weight", (8, 2)), ("scale", (4,)))}
        members = {"weight": "out in", "scale": "out/2"}
        staged = self.convert(self.chain_plan({"axes": ["pp=2", "tp=2"]}, [
            {"match": "l.*", "members": members, "shard": {"out": "tp"}, "owner": {"pp": {"index": "$1", "count": 4, "numbering": "local"}}}],
            "staged.json", source={"axes": []}), self.full(model))
        self.assertEqual(sorted(read_safetensors(staged / "rank-00003.safetensors")), ["l.0.scale", "l.0.weight", "l.1.scale", "l.1.weight"])
        plan = self.chain_plan({"axes": ["tp=4"]}, [{"match": "l.*", "members": members, "target": {"shard": {"out": "tp"}}}], "next.json")
        expected = [{name: even(value, 0, 4)[rank] for name, value in model.items()} for rank in range(4)]
        self.assert_files(self.convert_everywhere(plan, staged), expected)

    def test_back_to_the_full_checkpoint_without_any_rule(self):
        plan = self.chain_plan({"axes": []}, [], "back.json", unmatched="replicate")
        self.assert_full(self.convert_everywhere(plan, self.first()), MODEL)

    def test_the_source_may_stand_in_the_plan(self):
        first = self.first()
        plan = self.chain_plan({"axes": []}, [{"match": "**"}], "back.json", source={"path": str(first)})
        self.target = self.new_target()
        self.assert_exit(self.reshard("run", plan, "--target", self.target), 0)
        self.assert_full(self.target, MODEL)

    def test_files_and_ranks_of_the_manifest(self):
        w = iota(8)
        side = {"axes": ["dp=1", "tp=4"], "ranks": [3, 1, 0, 2], "files": "mp_{tp}/dp{dp}.safetensors"}
        first = self.convert(self.chain_plan(side, [{"match": "w", "shard": {"0": "tp"}}], "first.json", source={"axes": []}), self.full({"w": w}))
        for source in ({}, {"axes": ["tp=4"]}):
            plan = self.chain_plan({"axes": ["tp=2"]}, [{"match": "w", "shard": {"0": "tp"}}], "next.json", source=source)
            self.assert_files(self.convert(plan, first), [{"w": half} for half in even(w, 0, 2)])
        self.refuse(self.chain_plan({"axes": []}, [{"match": "w"}], "wrong.json", source={"ranks": [0, 1, 2, 3]}), first, 4, "E_MESH_WORLD", words=("[3, 1, 0, 2]",))

    def test_a_numbered_set_needs_no_source(self):
        tensors = {"a": noise("a", 300), "b": noise("b", 300)}
        first = self.convert(self.chain_plan({"axes": [], "max_file_size": "1KiB"}, [{"match": "*"}], "first.json", source={"axes": []}), self.full(tensors))
        self.assert_full(self.convert_everywhere(self.chain_plan({"axes": []}, [{"match": "*"}], "next.json"), first), tensors)

    def test_bytes_that_are_not_the_manifests(self):
        rules = [{"match": "w", "shard": {"0": "tp"}}]
        first = self.convert(self.chain_plan({"axes": ["tp=2"]}, rules, "first.json", source={"axes": []}), self.full({"w": noise("w", 6, 2)}))
        path = first / "rank-00001.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        for np in (1, 2):
            for options in ((), ("--transport", "mpi")):
                for rule in (rules[0], {**rules[0], "dtype": "f64"}):
                    result = self.run_plan(self.chain_plan({"axes": ["tp=3"]}, [rule], "next.json"), first, *options, np=np)
                    self.assert_exit(result, 4)
                    self.assert_error_lines(result, "E_DIGEST")
                    self.assertIn("manifest", result.err)
                    self.assertFalse(self.target.exists())

    def test_every_axis_keeps_its_own_options(self):
        w = noise("w", 14, 2)
        packed = {"axis": "pp", "layout": "zigzag", "packed": {"cu_seqlens": [0, 4, 14]}}
        for axes, dim in ((["gtp=2", "pp=2"], {"axes": [{"axis": "gtp", "pad_to": 4}, "pp"]}),
                          (["gtp=2", "pp=2"], {"axes": [{"axis": "gtp", "pad_to": 4}, {"axis": "pp", "split": "balanced"}]}),
                          ([], {"axes": "pp", "pad_total": 8}),
                          ([], {"pad_total": 8}),
                          (["gtp=2"], {"axes": [{"axis": "pp", "pad_total": 4}, {"axis": "gtp", "split": "balanced"}]}),
                          (["gtp=2"], {"axes": [packed, "gtp"], "pad_value": 1})):
            with self.subTest(axes=axes, dim=dim):
                rules = [{"match": "w", "target": {"shard": {"0": dim}}}]
                cut = self.convert(self.chain_plan({"axes": axes}, rules, "cut.json", source={"axes": ["pp=1"]}), self.full({"w": w}))
                self.assert_full(self.convert(self.chain_plan({"axes": []}, [{"match": "w"}], "back.json"), cut), {"w": w})

    def test_a_view_that_contradicts_the_manifest(self):
        source = {"axes": FIRST["axes"], "views": {"expert": ["ep=2", "etp=8"]}}
        self.refuse(self.chain_plan(SECOND, RULES, "next.json", source=source), self.first(), 4, "E_MESH_WORLD", words=("'expert'", "etp=8", "etp=4"))

    def test_rules_that_contradict_the_manifest(self):
        first = self.first()
        wrong = [{**rule, "shard": {"0": "tp"}} if rule["match"] == "w" else {**rule, "shard": {"in": "tp"}} if rule["match"] == "g" else rule for rule in RULES]
        self.refuse(self.chain_plan(SECOND, wrong, "next.json"), first, 4, "E_SHAPE", words=("'w'", '"pad_to":4', "'g."))
        stages = [{**rule, "owner": {"pp": "$1/4"}} if rule["match"].startswith("layers") else rule for rule in RULES]
        self.refuse(self.chain_plan(SECOND, stages, "next.json"), first, 4, "E_SHAPE", words=("layers.0.w",))

    def test_inspect_tells_the_manifest(self):
        result = self.reshard("inspect", self.first(), "--report", "json")
        self.assert_exit(result, 0)
        report = result.json()
        self.assertEqual((report["axes"], report["ranks"]), (FIRST["axes"], 16))
        shapes = {tensor["name"]: tensor["global_shape"] for tensor in report["tensors"]}
        self.assertEqual((shapes["w"], shapes["k"], shapes["experts"]), ([20, 2], [4, 2], [4, 4]))

    def test_the_plan_digest_covers_the_manifest(self):
        w = iota(4, 4)
        sources = [self.convert(self.tp_plan(0, 2, ("w", {dim: "tp"})), self.full({"w": w})) for dim in ("0", "1")]
        for source in sources:  # the same files but for what the manifest says
            write_safetensors(source / "rank-00000.safetensors", {"w": iota(4)})
            write_safetensors(source / "rank-00001.safetensors", {"w": iota(4)})
        manifests = [json.loads((source / "reshard.json").read_text()) for source in sources]
        for source, manifest, placement in zip(sources, manifests, ({}, {"0": "tp"})):
            manifest["placements"] = [{"view": None, "shard": placement}]
            manifest["tensors"]["w"]["shape"] = [8 if placement else 4]
            for name, entry in manifest["file_list"].items():
                entry["bytes"] = (source / name).stat().st_size
            (source / "reshard.json").write_text(json.dumps(manifest))
        plan = self.chain_plan({"axes": []}, [{"match": "w"}], "next.json")
        digests = [self.reshard("plan", plan, "--source", source, "--report", "json").json()["plan_digest"] for source in sources]
        self.assertEqual(len(set(digests)), 2)


class DamagedTargets(Case):
    PLAN = {"reshard": 1, "target": {"axes": []}, "tensors": [{"match": "**"}]}

    def damaged(self):
        return self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"}), ("n", None)), self.full({"w": iota(4), "n": iota(3)}))

    def test_files_that_are_not_the_manifests(self):
        for rank_1, code, words in (({"w": iota(2)}, "E_FORMAT", ("'n'", "rank 1")), ({"w": iota(3), "n": iota(3)}, "E_SHAPE", ("'w'", "[3]", "[2]")),
                                    ({"w": iota(2, dtype="I32"), "n": iota(3)}, "E_FORMAT", ("'w'", "i32", "f32")),
                                    ({"w": iota(2), "n": iota(3), "more": iota(1)}, "E_FORMAT", ("'more'",))):
            source = self.damaged()
            write_safetensors(source / "rank-00001.safetensors", rank_1)
            self.refuse(self.plan(self.PLAN), source, 4, code, words=("reshard.json", *words))

    def test_a_file_that_is_not_there_is_told_with_what_it_holds(self):
        source = self.damaged()
        (source / "rank-00001.safetensors").unlink()
        self.refuse(self.plan(self.PLAN), source, 4, "E_MISSING", words=("rank-00001.safetensors", "rank 1 of 2", "by the manifest holds 'n', 'w'"))

    def test_a_tensor_that_no_file_has(self):
        source = self.damaged()
        for rank in (0, 1):
            write_safetensors(source / f"rank-0000{rank}.safetensors", {"w": iota(2)})
        self.refuse(self.plan(self.PLAN), source, 4, "E_FORMAT", words=("'n'",), np=2)

    def test_files_that_the_manifest_does_not_list_or_lists_otherwise(self):
        for change, code, words in ((lambda files: files.pop("rank-00001.safetensors"), "E_FORMAT", ("reshard.json", "rank-00001.safetensors")),
                                    (lambda files: files["rank-00001.safetensors"].update(bytes=7), "E_DIGEST", ("rank-00001.safetensors", "7"))):
            source = self.damaged()
            manifest = json.loads((source / "reshard.json").read_text())
            change(manifest["file_list"])
            (source / "reshard.json").write_text(json.dumps(manifest))
            self.refuse(self.plan(self.PLAN), source, 4, code, words=words, np=2)
            self.assertEqual(self.reshard("plan", self.plan(self.PLAN), "--source", source).code, 4)

    def test_a_plan_that_names_renamed_files(self):
        source = self.damaged()
        for rank in (0, 1):
            (source / f"rank-0000{rank}.safetensors").rename(source / f"part{rank}.safetensors")
        self.assert_full(self.convert(self.plan({**self.PLAN, "source": {"files": "part{rank}.safetensors"}}), source), {"w": iota(4), "n": iota(3)})

    def test_manifests_that_are_none(self):
        for text in ("", "{", "[]", "{}", '{"schema": "reshard.manifest", "version": 2}', "[" * 100):
            source = self.damaged()
            (source / "reshard.json").write_text(text)
            for np in (1, 2):
                self.refuse(self.plan(self.PLAN), source, 4, "E_FORMAT", words=("reshard.json",), np=np)


class Replicas(Case):
    def flipped(self, value, byte):
        return Tensor(value.dtype, value.shape, value.data[:byte] + bytes([value.data[byte] ^ 1]) + value.data[byte + 1:])

    def test_equal_copies_pass_and_padding_is_never_compared(self):
        w, norm = noise("w", 3, 2), noise("norm", 5)
        halves = [take(w, range(2)), take(w, [2])]
        files = [{"w": Tensor("F32", (2, 2), halves[tp].data + (bytes([10 * dp + tp]) * 8 if tp else b"")), "norm": norm} for dp in (0, 1) for tp in (0, 1)]
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2", "tp=2"]}, "target": {"axes": []},
                          "tensors": [{"match": "w", "shard": {"0": {"axes": "tp", "pad_to": 2, "size": 3}}}, {"match": "norm"}]})
        self.assert_full(self.convert_everywhere(plan, self.ranks(files), "--check-replicas"), {"w": w, "norm": norm})

    def test_overlaps_of_repeated_heads_are_compared(self):
        k = noise("k", 4, 2)
        files = [{"k": half} for half in even(k, 0, 2) for _ in (0, 1)]
        plan = self.tp_plan(4, 2, ("k", {"0": {"axes": "tp", "unit": 2, "fallback": "repeat", "size": 4}}))
        self.assert_files(self.convert_everywhere(plan, self.ranks(files), "--check-replicas"), [{"k": half} for half in even(k, 0, 2)])
        files[3] = {"k": self.flipped(files[3]["k"], 12)}
        lines = set()
        for np in (1, 2, 3):
            result = self.refuse(plan, self.ranks(files, name="changed"), 4, "E_REPLICA", options=("--check-replicas",), np=np,
                                 words=("'k'", "rank-00002.safetensors", "rank-00003.safetensors", "[3, 1]"))
            lines.update(line for line in result.err.splitlines() if "E_REPLICA" in line)
        self.assertEqual(len(lines), 1)

    def test_every_tensor_that_differs_is_named_within_the_memory_bound(self):
        tensors = {name: noise(name, 700, 300) for name in ("a", "b", "c", "d")}
        other = {**tensors, "b": self.flipped(tensors["b"], 4 * (300 * 650 + 7)), "d": self.flipped(tensors["d"], 0)}
        source = self.ranks([tensors, other])
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2"]}, "target": {"axes": ["tp=2"]}, "tensors": [{"match": "*", "shard": {"1": "tp"}}]})
        for np in (1, 2):
            result = self.refuse(plan, source, 4, "E_REPLICA", options=("--check-replicas", "--memory", "256KiB"), np=np,
                                 words=("'b'", "[650, 7]", "'d'", "[0, 0]"))
            self.assertNotIn("'a'", result.err)
        self.assert_exit(self.run_plan(plan, source, "--check-replicas", "--memory", "64B"), 7)

    def test_ranks_that_share_a_file_have_one_copy(self):
        w = iota(4)
        source = self.ranks([{"w": half} for half in even(w, 0, 2)], template="tp{}.safetensors")
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2", "tp=2"], "files": "tp{tp}.safetensors"}, "target": {"axes": []},
                          "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        self.assert_full(self.convert(plan, source, "--check-replicas"), {"w": w})

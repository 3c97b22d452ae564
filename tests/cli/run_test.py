"""`reshard run`: tensor parallel n to m, YAML and JSON, formats of plans, processes, transports, manifest, other commands."""

import json
import re
import unittest

from support import BINARY, Case, crc64, environment, execute, snapshot, write_safetensors
from tensors import Tensor, even, iota, noise, take

FIRST_PLAN = """\
reshard: 1
source: {axes: [tp=2]}
target: {axes: [tp=4]}
tensors:
  - {match: "**.q_proj.weight",           shard: {0: {axes: tp, unit: 4}}}
  - {match: "**.{k,v}_proj.weight",       shard: {0: {axes: tp, unit: 4, fallback: repeat, size: 8}}}
  - {match: "**.o_proj.weight",           shard: {1: {axes: tp, unit: 4}}}
  - {match: "**.{gate,up}_proj.weight",   shard: {0: tp}}
  - {match: "**.down_proj.weight",        shard: {1: tp}}
  - {match: "{model.embed_tokens,lm_head}.weight", shard: {0: tp}}
  - {match: "**norm.weight"}
"""


def small_llama():
    """A decoder of one layer: 8 query heads and 2 KV heads of 4, hidden 16, 24 MLP rows, vocabulary 32."""
    layer = "model.layers.0."
    return {"model.embed_tokens.weight": noise("embed", 32, 16, dtype="BF16"),
            layer + "input_layernorm.weight": noise("norm", 16, dtype="BF16"),
            layer + "self_attn.q_proj.weight": noise("q", 32, 16, dtype="BF16"),
            layer + "self_attn.k_proj.weight": noise("k", 8, 16, dtype="BF16"),
            layer + "self_attn.v_proj.weight": noise("v", 8, 16, dtype="BF16"),
            layer + "self_attn.o_proj.weight": noise("o", 16, 32, dtype="BF16"),
            layer + "mlp.gate_proj.weight": noise("gate", 24, 16, dtype="BF16"),
            layer + "mlp.up_proj.weight": noise("up", 24, 16, dtype="BF16"),
            layer + "mlp.down_proj.weight": noise("down", 16, 24, dtype="BF16"),
            "model.norm.weight": noise("final", 16, dtype="F32"),
            "lm_head.weight": noise("head", 32, 16, dtype="BF16")}


def cut_llama(tensors, parts):
    """The files of `parts` tensor parallel ranks; KV heads (of 4 rows) repeat where there are fewer than ranks."""
    files = [{} for _ in range(parts)]
    for name, value in tensors.items():
        if name.endswith("norm.weight"):
            shards = [value] * parts
        elif "o_proj" in name or "down_proj" in name:
            shards = even(value, 1, parts)
        elif ("k_proj" in name or "v_proj" in name) and parts > 2:
            heads = even(value, 0, 2)
            shards = [heads[rank * 2 // parts] for rank in range(parts)]
        else:
            shards = even(value, 0, parts)
        for file, shard in zip(files, shards):
            file[name] = shard
    return files


class FirstPlan(Case):
    def test_two_ranks_become_four_at_every_number_of_processes_over_every_transport(self):
        model = small_llama()
        source = self.ranks(cut_llama(model, 2))
        self.assert_files(self.convert_everywhere(self.plan(FIRST_PLAN), source), cut_llama(model, 4))

    def test_four_ranks_become_two_and_one(self):
        model = small_llama()
        source = self.ranks(cut_llama(model, 4))
        for ranks in (2, 1):
            plan = self.plan(FIRST_PLAN.replace("tp=2", "tp=4", 1).replace("target: {axes: [tp=4]}", f"target: {{axes: [tp={ranks}]}}"))
            target = self.convert_everywhere(plan, source)
            if ranks == 1:
                self.assert_full(target, model)
            else:
                self.assert_files(target, cut_llama(model, 2))

    def test_a_full_checkpoint_on_either_side(self):
        model = small_llama()
        plan = self.plan(FIRST_PLAN.replace("[tp=2]", "[]"))
        target = self.convert(plan, self.full(model))
        self.assert_files(target, cut_llama(model, 4))

    def test_the_same_plan_in_json_gives_the_same_bytes(self):
        source = self.ranks(cut_llama(small_llama(), 2))
        as_json = {"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["tp=4"]}, "tensors": [
            {"match": "**.q_proj.weight", "shard": {"0": {"axes": "tp", "unit": 4}}},
            {"match": "**.{k,v}_proj.weight", "shard": {"0": {"axes": "tp", "unit": 4, "fallback": "repeat", "size": 8}}},
            {"match": "**.o_proj.weight", "shard": {"1": {"axes": "tp", "unit": 4}}},
            {"match": "**.{gate,up}_proj.weight", "shard": {"0": "tp"}},
            {"match": "**.down_proj.weight", "shard": {"1": "tp"}},
            {"match": "{model.embed_tokens,lm_head}.weight", "shard": {"0": "tp"}},
            {"match": "**norm.weight"}]}
        from_yaml = self.convert(self.plan(FIRST_PLAN), source)
        from_json = self.convert(self.plan(as_json), source)
        self.assertEqual(snapshot(from_yaml), snapshot(from_json))

    def test_the_source_is_never_changed(self):
        source = self.ranks(cut_llama(small_llama(), 2))
        before = snapshot(source)
        self.convert(self.plan(FIRST_PLAN), source, np=2)
        self.assertEqual(snapshot(source), before)


class ManyMeshes(Case):
    def test_tensor_parallel_n_to_m_for_rows_and_columns(self):
        rows, columns, whole = iota(24, 5), noise("columns", 3, 24, dtype="BF16"), noise("whole", 7, dtype="I64")
        for n, m in ((1, 2), (2, 1), (2, 3), (3, 2), (4, 6), (6, 4), (8, 3), (3, 8), (12, 1), (1, 12), (4, 4)):
            with self.subTest(source=n, target=m):
                source = self.ranks([{"rows": r, "columns": c, "whole": whole} for r, c in zip(even(rows, 0, n), even(columns, 1, n))],
                                    name=f"source-{n}-{m}", template="rank-{:05}.safetensors" if n > 1 else "model.safetensors")
                plan = self.tp_plan(n, m, ("rows", {"0": "tp"}), ("columns", {"1": "tp"}), ("whole", None))
                target = self.convert(plan, source, np=2)
                expected = [{"rows": r, "columns": c, "whole": whole} for r, c in zip(even(rows, 0, m), even(columns, 1, m))]
                if m == 1:
                    self.assert_full(target, expected[0])
                else:
                    self.assert_files(target, expected)

    def test_two_axes_on_one_dim_and_axes_on_two_dims(self):
        w, v = iota(12, 4), iota(6, 8)
        # Rank = dp * 2 + tp; dim 0 of w is cut by tp first, then by dp.
        source = self.ranks([{"w": take(w, range(6 * tp + 3 * dp, 6 * tp + 3 * dp + 3)),
                              "v": take(v, range(3 * dp, 3 * dp + 3), range(4 * tp, 4 * tp + 4))} for dp in (0, 1) for tp in (0, 1)])
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2", "tp=2"]}, "target": {"axes": ["tp=3"]}, "tensors": [
            {"match": "w", "shard": {"0": ["tp", "dp"]}}, {"match": "v", "shard": {"0": "dp", "1": "tp"}, "target": {"shard": {"1": None, "0": "tp"}}}]})
        target = self.convert_everywhere(plan, source)
        self.assert_files(target, [{"w": a, "v": b} for a, b in zip(even(w, 0, 3), even(v, 0, 3))])

    def test_more_processes_than_ranks_on_either_side(self):
        w = iota(4, 2)
        target = self.convert(self.tp_plan(2, 1, ("w", {"0": "tp"})), self.ranks([{"w": s} for s in even(w, 0, 2)]), np=6)
        self.assert_full(target, {"w": w})

    def test_a_mesh_with_views_and_owners(self):
        experts = {f"experts.{i}.w": iota(4, 2, first=100 * i) for i in range(4)}
        # Source rank = ep * 2 + etp: experts 0 and 1 on ep 0.
        source = self.ranks([{f"experts.{i}.w": even(experts[f"experts.{i}.w"], 0, 2)[etp] for i in (2 * ep, 2 * ep + 1)} | {"norm": iota(3)}
                             for ep in (0, 1) for etp in (0, 1)])
        plan = self.plan({"reshard": 1, "source": {"axes": ["dp=2", "tp=2"], "views": {"expert": ["ep=2", "etp=2"]}},
                          "target": {"axes": ["dp=4"], "views": {"expert": ["ep=4"]}}, "tensors": [
                              {"match": "experts.*.w", "view": "expert", "owner": {"ep": "$1/4"}, "shard": {"0": "etp"}},
                              {"match": "norm"}]})
        target = self.convert_everywhere(plan, source)
        self.assert_files(target, [{f"experts.{i}.w": experts[f"experts.{i}.w"], "norm": iota(3)} for i in range(4)])

    def test_a_file_template_names_the_files(self):
        w = iota(4, 2)
        plan = self.plan({"reshard": 1, "source": {"axes": [], "files": "weights.safetensors"},
                          "target": {"axes": ["dp=2", "tp=2"], "files": "shards/tp{tp:03}.safetensors"},
                          "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        source = self.dir / "source"
        write_safetensors(source / "weights.safetensors", {"w": w})
        target = self.convert_everywhere(plan, source)
        self.assertEqual(sorted(snapshot(target)), ["reshard.json", "shards", "shards/tp000.safetensors", "shards/tp001.safetensors"])
        self.assertEqual(self.files(target, "shards/tp{:03}.safetensors"), [{"w": s} for s in even(w, 0, 2)])

    def test_a_permutation_of_ranks_names_the_files(self):
        w = iota(4, 2)
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=4"], "ranks": [2, 0, 3, 1]},
                          "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        target = self.convert(plan, self.full({"w": w}))
        rows = even(w, 0, 4)
        self.assert_files(target, [{"w": rows[1]}, {"w": rows[3]}, {"w": rows[0]}, {"w": rows[2]}])

    def test_a_single_file_is_accepted_as_a_source_of_one_rank(self):
        w = iota(4, 2)
        source = self.full({"w": w})
        self.assert_files(self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), source / "model.safetensors"), [{"w": s} for s in even(w, 0, 2)])

    def test_paths_in_the_plan(self):
        w = iota(4, 2)
        source = self.full({"w": w})
        plan = self.plan({"reshard": 1, "source": {"axes": [], "path": str(source)}, "target": {"axes": ["tp=2"], "path": str(self.dir / "out")},
                          "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        self.assert_exit(self.reshard("run", plan), 0)
        self.assert_files(self.dir / "out", [{"w": s} for s in even(w, 0, 2)])
        # The command line wins.
        self.assert_exit(self.reshard("run", plan, "--target", self.dir / "other"), 0)
        self.assertEqual(snapshot(self.dir / "other"), snapshot(self.dir / "out"))


class RulesAndVariables(Case):
    def test_the_first_rule_that_matches_wins(self):
        plan = self.tp_plan(0, 2, ("a.w", None), ("*.w", {"0": "tp"}))
        target = self.convert(plan, self.full({"a.w": iota(4), "b.w": iota(4)}))
        self.assert_files(target, [{"a.w": iota(4), "b.w": iota(2)}, {"a.w": iota(4), "b.w": iota(2, first=2)}])

    def test_rename_with_captures(self):
        plan = self.tp_plan(0, 2, ("model.layers.*.{up,down}.weight", {"0": "tp"}, {"rename": "blk.$1.ffn_$2.weight"}))
        target = self.convert_everywhere(plan, self.full({"model.layers.7.up.weight": iota(4), "model.layers.12.down.weight": iota(2, first=9)}))
        self.assert_files(target, [{"blk.7.ffn_up.weight": iota(2), "blk.12.ffn_down.weight": iota(1, first=9)},
                                   {"blk.7.ffn_up.weight": iota(2, first=2), "blk.12.ffn_down.weight": iota(1, first=10)}])

    def test_regular_expressions_match_whole_names(self):
        plan = self.tp_plan(0, 2, (r"re:h\.(\d+)\.w", {"0": "tp"}, {"rename": "layer.$1"}), ("**", None))
        target = self.convert(plan, self.full({"h.3.w": iota(2), "h.3.w.scale": iota(1), "xh.3.w": iota(2)}))
        self.assertEqual(self.files(target)[1], {"layer.3": iota(1, first=1), "h.3.w.scale": iota(1), "xh.3.w": iota(2)})

    def test_variables_and_set(self):
        plan = self.plan({"reshard": 1, "vars": {"n": 2, "heads": 4, "dim": 2}, "source": {"axes": []}, "target": {"axes": ["tp=${n}"]},
                          "tensors": [{"match": "w", "shard": {"0": {"axes": "tp", "unit": "${heads*dim/4}"}}}]})
        w = iota(8, 1)
        source = self.full({"w": w})
        self.assert_files(self.convert(plan, source), [{"w": s} for s in even(w, 0, 2)])
        self.assert_files(self.convert(plan, source, "--set", "n=4"), [{"w": s} for s in even(w, 0, 4)])

    def test_drop_and_unmatched(self):
        tensors = {"a": iota(4), "b": iota(4), "c": iota(4)}
        source = self.full(tensors)
        dropped = self.convert(self.tp_plan(0, 2, ("b", None, {"drop": True}), ("*", {"0": "tp"})), source)
        self.assertEqual([sorted(file) for file in self.files(dropped)], [["a", "c"], ["a", "c"]])
        replicated = self.convert(self.tp_plan(0, 2, ("a", {"0": "tp"}), unmatched="replicate"), source)
        self.assertEqual(self.files(replicated)[1], {"a": iota(2, first=2), "b": iota(4), "c": iota(4)})
        left_out = self.convert(self.tp_plan(0, 2, ("a", {"0": "tp"}), unmatched="drop"), source)
        self.assertEqual(self.files(left_out)[1], {"a": iota(2, first=2)})

    def test_an_optional_rule_may_match_nothing(self):
        target = self.convert(self.tp_plan(0, 2, ("a", {"0": "tp"}), ("lm_head", {"0": "tp"}, {"optional": True})), self.full({"a": iota(4)}))
        self.assert_files(target, [{"a": iota(2)}, {"a": iota(2, first=2)}])

    def test_fallback_replicate_ignores_an_axis_that_cannot_cut(self):
        plan = self.tp_plan(0, 2, ("*", {"0": {"axes": "tp", "unit": 2, "fallback": "replicate"}}))
        result = self.run_plan(plan, self.full({"even": iota(4), "odd": iota(6)}))
        self.assert_exit(result, 0)
        self.assert_files(self.target, [{"even": iota(2), "odd": iota(6)}, {"even": iota(2, first=2), "odd": iota(6)}])
        self.assertIn("W_FALLBACK", result.err + result.out)

    def test_overrides_of_one_side_are_merged_per_dim(self):
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": ["tp=2"]}, "tensors": [
            {"match": "w", "shard": {"0": {"axes": "tp", "split": "balanced"}}, "target": {"shard": {"0": None, "1": "tp"}}}]})
        w = iota(3, 4)
        target = self.convert_everywhere(plan, self.ranks([{"w": take(w, [0, 1])}, {"w": take(w, [2])}]))
        self.assert_files(target, [{"w": s} for s in even(w, 1, 2)])

    def test_axis_first_placements(self):
        w, v = iota(8, 2), iota(4, 6)
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [
            {"match": "w", "place": {"dp": "strided_shard(0, 2)", "tp": "shard(0)"}},
            {"match": "v", "place": {"dp": "replicate", "tp": "shard(-1)"}}]})
        target = self.convert_everywhere(plan, self.full({"w": w, "v": v}))
        # strided_shard(0, 2) under shard(0): tp becomes the major axis. Rank = dp * 2 + tp holds rows 4 tp + 2 dp and the next.
        self.assert_files(target, [{"w": take(w, [4 * tp + 2 * dp, 4 * tp + 2 * dp + 1]), "v": even(v, 1, 2)[tp]} for dp in (0, 1) for tp in (0, 1)])


class Dtypes(Case):
    ALL = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "F8_E4M3", "F8_E5M2")

    def test_every_dtype_is_kept_bit_for_bit(self):
        tensors = {dtype: noise(dtype, 4, 6, dtype=dtype) if dtype != "BOOL" else Tensor("BOOL", (4, 6), bytes([0, 1, 1] * 8)) for dtype in self.ALL}
        target = self.convert_everywhere(self.tp_plan(0, 2, ("*", {"1": "tp"})), self.full(tensors))
        self.assert_files(target, [{dtype: even(value, 1, 2)[rank] for dtype, value in tensors.items()} for rank in (0, 1)])

    def test_scalars_and_empty_tensors(self):
        tensors = {"scalar": iota(), "empty": iota(0, 4), "one": iota(1, 1, 1, 1, 1)}
        target = self.convert_everywhere(self.tp_plan(0, 2, ("*", None)), self.full(tensors))
        self.assert_files(target, [tensors, tensors])


class Manifest(Case):
    def test_the_manifest_lists_tensors_digests_and_files(self):
        w, n = iota(4, 2), iota(3, dtype="I64")
        target = self.convert_everywhere(self.tp_plan(0, 2, ("w", {"0": "tp"}), ("n", None)), self.full({"w": w, "n": n}))
        manifest = json.loads((target / "reshard.json").read_text())
        self.assertRegex(manifest.pop("plan_digest"), "^[0-9a-f]{16}$")
        self.assertRegex(manifest.pop("tool"), r"^reshard \d+\.\d+\.\d+")
        placements = manifest.pop("placements")
        tensors = manifest.pop("tensors")
        self.assertEqual(manifest, {
            "schema": "reshard.manifest", "version": 1, "format": "safetensors", "axes": ["tp=2"], "ranks": None, "views": {},
            "files": "rank-{rank:05}.safetensors",
            "file_list": {name: {"bytes": len(content), "digest": crc64(content)} for name, content in
                          ((name, (target / name).read_bytes()) for name in ("rank-00000.safetensors", "rank-00001.safetensors"))}})
        placement = {name: placements[entry.pop("placement")] for name, entry in tensors.items()}
        self.assertEqual(tensors, {"w": {"dtype": "f32", "shape": [4, 2], "digest": crc64(w.data)},
                                   "n": {"dtype": "i64", "shape": [3], "digest": crc64(n.data)}})
        self.assertEqual(placement["w"]["shard"]["0"]["axes"], ["tp"])
        self.assertEqual(placement["n"].get("shard") or {}, {})

    def test_a_target_is_a_source_without_source_rules(self):
        w = iota(6, 4)
        first = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": w}))
        plan = self.plan({"reshard": 1, "target": {"axes": ["tp=4"]}, "tensors": [{"match": "w", "target": {"shard": {"1": "tp"}}}]})
        self.assert_files(self.convert_everywhere(plan, first), [{"w": s} for s in even(w, 1, 4)])

    def test_a_mesh_that_contradicts_the_manifest_is_refused(self):
        first = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(6, 4)}))
        self.refuse(self.tp_plan(3, 2, ("w", {"0": "tp"})), first, 4, "E_MESH_WORLD")

    def test_a_rule_that_contradicts_the_manifest_is_refused(self):
        first = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(6, 4)}))
        self.refuse(self.tp_plan(2, 2, ("w", {"1": "tp"})), first, 4, "E_SHAPE", words=("'w'",))


class CommandLine(Case):
    def test_help_and_version(self):
        result = self.reshard("--help")
        self.assert_exit(result, 0)
        for word in ("run", "plan", "inspect", "verify", "compare", "70"):
            self.assertIn(word, result.out)
        for words in (("run", "--help"), ("plan", "--help"), ("inspect", "--help"), ("verify", "--help"), ("compare", "--help")):
            self.assert_exit(self.reshard(*words), 0)
        version = self.reshard("--version")
        self.assert_exit(version, 0)
        self.assertRegex(version.out, r"reshard 0\.1\.0")
        for library in ("HDF5", "MPI"):
            self.assertIn(library, version.out)

    def test_usage_errors_exit_2(self):
        source = self.full({"w": iota(2)})
        plan = self.tp_plan(0, 1, ("w", None))
        for words in ((), ("frobnicate",), ("run",), ("run", plan, "--source", source, "--target", self.dir / "t", "--frobnicate"),
                      ("run", plan, "--source", source), ("run", plan, "--target", self.dir / "t"),
                      ("run", plan, "--source", source, "--target", self.dir / "t", "--memory", "many"),
                      ("run", plan, "--source", source, "--target", self.dir / "t", "--transport", "carrier-pigeon"),
                      ("run", self.dir / "no-plan.yaml", "--source", source, "--target", self.dir / "t"),
                      ("plan", plan, "--source", source, "--report", "xml")):
            with self.subTest(words=[str(word) for word in words]):
                self.assert_exit(self.reshard(*words), 2)
        self.assertFalse((self.dir / "t").exists())

    def test_standard_output_of_a_json_run_is_json_alone_at_several_processes(self):
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}), "--report", "json", np=3)
        self.assert_exit(result, 0)
        self.assertEqual(result.json()["schema"], "reshard.run")

    def test_a_report_into_a_file(self):
        output = self.dir / "report.json"
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}), "--report", "json", "--output", output)
        self.assert_exit(result, 0)
        self.assertEqual(json.loads(output.read_text())["schema"], "reshard.run")

    def test_quiet_runs_say_nothing_on_standard_error(self):
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}), "--quiet")
        self.assert_exit(result, 0)
        self.assertEqual(result.err, "")

    def test_a_run_alone_does_not_start_mpi(self):
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}))
        self.assert_exit(result, 0)
        self.assertLess(result.seconds, 0.4)

    @unittest.skipUnless("Open MPI" in execute([BINARY, "--version"]).out, "this is about Open MPI")
    def test_on_one_node_no_network_is_looked_for_but_where_the_user_wants_it(self):
        plan, source = self.tp_plan(2, 0, ("w", {"0": "tp"})), self.ranks([{"w": half} for half in even(iota(4), 0, 2)])
        result = self.run_plan(plan, source, np=2, env=environment(OMPI_MCA_pml_base_verbose="10"))
        self.assert_exit(result, 0)
        self.assertEqual(set(re.findall(r"initializing pml component (\w+)", result.out + result.err)), {"ob1"})
        result = self.run_plan(plan, source, np=2, env=environment(OMPI_MCA_pml_base_verbose="10", OMPI_MCA_pml="cm"))  # which may not be there
        self.assertNotIn("ob1", re.findall(r"initializing pml component (\w+)", result.out + result.err))

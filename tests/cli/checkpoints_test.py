"""Plans that do not fit the checkpoint: exit 4, the code, the tensor and the numbers, and nothing written."""

from support import Case, write_safetensors
from tensors import Tensor, even, iota, noise


class Rules(Case):
    def test_unmatched_tensors_and_unused_rules_are_reported_together(self):
        self.refuse(self.tp_plan(0, 2, ("a", {"0": "tp"}), ("missing", None)), self.full({"a": iota(4), "b": iota(4), "c": iota(4)}),
                    4, "E_RULE_UNUSED", "E_TENSOR_UNMATCHED", words=("'missing'", "'b'", "'c'"))

    def test_rename_collisions(self):
        self.refuse(self.tp_plan(0, 2, ("*.w", {"0": "tp"}, {"rename": "w"})), self.full({"a.w": iota(4), "b.w": iota(4)}), 4, "E_RENAME_COLLISION",
                    words=("a.w", "b.w"))

    def test_a_rename_onto_a_tensor_that_stays(self):
        self.refuse(self.tp_plan(0, 2, ("a", None, {"rename": "b"}), ("*", None)), self.full({"a": iota(4), "b": iota(4)}), 4, "E_RENAME_COLLISION", words=("b",))


class Folders(Case):
    def test_files_in_folders_of_their_own_are_found_and_named(self):
        source = self.dir / "source"
        parts = even(iota(8), 0, 4)
        for rank, part in enumerate(parts):
            write_safetensors(source / f"rank_{rank}" / "model.safetensors", {"w": part})
        plan = self.tp_plan(4, 2, ("w", {"0": "tp"}))
        words = ("folders below", "rank_0/model.safetensors", "rank_2/model.safetensors", "and 1 more", "one folder as the path", "`files`", 'files: "rank_{rank}/model.safetensors"')
        self.assert_refused(self.reshard("inspect", source), 4, "E_MISSING", words=words)
        self.refuse(plan, source, 4, "E_MISSING", words=words)
        # What the message says to do works.
        self.assert_exit(self.reshard("inspect", source / "rank_0"), 0)
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=4"], "files": "rank_{rank}/model.safetensors"}, "target": {"axes": []}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        self.assert_full(self.convert(plan, source), {"w": iota(8)})

    def test_folders_without_such_files_are_not_spoken_of(self):
        source = self.dir / "source"
        (source / "logs").mkdir(parents=True)
        (source / "logs" / "notes.txt").touch()
        result = self.reshard("inspect", source)
        self.assert_refused(result, 4, "E_MISSING")
        self.assertNotIn("folders below", result.err)


class Dims(Case):
    def test_a_dim_outside_the_tensor(self):
        for dim in ("2", "-3"):
            self.refuse(self.tp_plan(0, 2, ("w", {dim: "tp"})), self.full({"w": iota(4, 2)}), 4, "E_DIM_RANGE", words=("'w'", dim))

    def test_one_dim_given_twice(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2", "dp=2"]}, "tensors": [{"match": "w", "shard": {"0": "tp", "-2": "dp"}}]})
        self.refuse(plan, self.full({"w": iota(4, 2)}), 4, "E_DIM_DUP", words=("'w'",))

    def test_lengths_that_an_axis_does_not_divide(self):
        self.refuse(self.tp_plan(0, 4, ("w", {"0": "tp"})), self.full({"w": iota(6, 2)}), 4, "E_INDIVISIBLE", words=("'w'", "6", "4"))

    def test_units_that_do_not_divide(self):
        self.refuse(self.tp_plan(0, 2, ("w", {"0": {"axes": "tp", "unit": 4}})), self.full({"w": iota(6)}), 4, "E_INDIVISIBLE", words=("6", "4"))
        self.refuse(self.tp_plan(0, 3, ("w", {"0": {"axes": "tp", "unit": 4}})), self.full({"w": iota(8)}), 4, "E_INDIVISIBLE", words=("2", "3"))

    def test_a_source_that_cannot_have_been_cut_so(self):
        self.refuse(self.tp_plan(2, 1, ("w", {"0": {"axes": "tp", "unit": 4}})), self.ranks([{"w": iota(3)}, {"w": iota(3)}]), 4, "E_INDIVISIBLE|E_SHAPE", words=("'w'", "6", "4"))

    def test_balanced_cuts_without_an_empty_shard(self):
        self.refuse(self.tp_plan(0, 4, ("w", {"0": {"axes": "tp", "split": "balanced"}})), self.full({"w": iota(3)}), 4, "E_EMPTY_SHARD", words=("3", "4"))

    def test_segments_that_do_not_sum_up(self):
        self.refuse(self.tp_plan(0, 2, ("w", {"0": {"axes": "tp", "segments": [4, 2]}})), self.full({"w": iota(8)}), 4, "E_SEGMENT_SUM", words=("6", "8"))

    def test_strides_that_do_not_divide(self):
        self.refuse(self.tp_plan(0, 2, ("w", {"0": {"axes": "tp", "stride": 3}})), self.full({"w": iota(8)}), 4, "E_STRIDE", words=("8", "3"))

    def test_repeat_needs_a_multiple(self):
        self.refuse(self.tp_plan(0, 3, ("w", {"0": {"axes": "tp", "unit": 2, "fallback": "repeat"}})), self.full({"w": iota(4)}), 4, "E_REPEAT", words=("3", "2"))

    def test_shares_that_do_not_divide_the_units(self):
        self.refuse(self.tp_plan(0, 2, ("w", {"0": {"axes": "tp", "split": [2, 1]}})), self.full({"w": iota(4)}), 4, "E_INDIVISIBLE", words=("4", "3"))

    def test_an_unknown_true_size_is_not_guessed(self):
        rule = {"0": {"axes": "tp", "unit": 2, "fallback": "repeat"}}
        self.refuse(self.tp_plan(4, 1, ("k", rule)), self.ranks([{"k": iota(2, 4)}] * 4), 4, "E_PAD", words=("'k'", "size"))

    def test_a_size_that_contradicts_the_shards(self):
        self.refuse(self.tp_plan(2, 1, ("w", {"0": {"axes": "tp", "size": 10}})), self.ranks([{"w": iota(4)}, {"w": iota(4)}]), 4, "E_SHAPE", words=("10", "4"))


class RanksDisagree(Case):
    def test_shapes(self):
        self.refuse(self.tp_plan(2, 1, ("w", {"0": "tp"})), self.ranks([{"w": iota(4, 2)}, {"w": iota(4, 3)}]), 4, "E_SHAPE", words=("'w'",))
        self.refuse(self.tp_plan(2, 1, ("w", None)), self.ranks([{"w": iota(4)}, {"w": iota(5)}], name="other"), 4, "E_SHAPE", words=("'w'",))

    def test_uneven_shards_under_an_even_cut(self):
        self.refuse(self.tp_plan(2, 1, ("w", {"0": "tp"})), self.ranks([{"w": iota(4)}, {"w": iota(2)}]), 4, "E_SHAPE", words=("'w'",))

    def test_dtypes(self):
        self.refuse(self.tp_plan(2, 1, ("w", {"0": "tp"})), self.ranks([{"w": iota(4)}, {"w": iota(4, dtype="I32")}]), 4, "E_DTYPE", words=("'w'",))

    def test_a_tensor_missing_on_one_rank(self):
        source = self.ranks([{"w": iota(4), "v": iota(2)}, {"w": iota(4)}])
        self.refuse(self.tp_plan(2, 1, ("w", {"0": "tp"}), ("v", None)), source, 4, "E_MISSING", words=("'v'",))
        # Neither flag excuses it.
        self.refuse(self.tp_plan(2, 1, ("w", {"0": "tp"}), ("v", None)), source, 4, "E_MISSING", options=("--allow-missing", "--allow-extra"))

    def test_a_tensor_where_its_owner_says_it_is_not(self):
        plan = self.plan({"reshard": 1, "source": {"axes": ["pp=2"]}, "target": {"axes": []}, "tensors": [{"match": "l.*", "owner": {"pp": "$1/2"}}]})
        self.refuse(plan, self.ranks([{"l.0": iota(2), "l.1": iota(2)}, {"l.1": iota(2)}]), 4, "E_MISSING", words=("'l.1'",))

    def test_an_owner_beyond_its_count(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["pp=2"]}, "tensors": [{"match": "l.*", "owner": {"pp": "$1/2"}}]})
        self.refuse(plan, self.full({"l.0": iota(2), "l.2": iota(2)}), 4, "E_OWNER", words=("'l.2'", "2"))

    def test_replicas_are_compared_on_demand(self):
        source = self.ranks([{"w": iota(4)}, {"w": iota(4, first=1)}])
        first, *others = self.files(self.convert(self.tp_plan(2, 3, ("w", None)), source))
        self.assertEqual(others, [first, first])
        for np in (1, 2):
            result = self.run_plan(self.tp_plan(2, 1, ("w", None)), source, "--check-replicas", np=np)
            self.assert_exit(result, 4)
            self.assert_error_lines(result, "E_REPLICA")
            for word in ("'w'", "rank-00000.safetensors", "rank-00001.safetensors"):
                self.assertIn(word, result.err)
            self.assertFalse(self.target.exists())


class Files(Case):
    PLAN = (("w", {"0": "tp"}),)

    def test_no_source(self):
        self.refuse(self.tp_plan(2, 1, *self.PLAN), self.dir / "nowhere", 4, "E_MISSING", words=("nowhere",))

    def test_an_empty_source(self):
        (self.dir / "source").mkdir()
        self.refuse(self.tp_plan(2, 1, *self.PLAN), self.dir / "source", 4, "E_MISSING")

    def test_a_file_missing(self):
        source = self.ranks([{"w": s} for s in even(iota(8), 0, 4)])
        (source / "rank-00002.safetensors").unlink()
        for np in (1, 3):
            self.refuse(self.tp_plan(4, 1, *self.PLAN), source, 4, "E_MISSING", words=("rank-00002.safetensors",), np=np)

    def test_files_beyond_the_mesh(self):
        self.refuse(self.tp_plan(2, 1, *self.PLAN), self.ranks([{"w": iota(2)}] * 3), 4, "E_MESH_WORLD", words=("rank-00002.safetensors",))

    def test_dims_of_a_scalar(self):
        self.refuse(self.tp_plan(0, 2, *self.PLAN), self.full({"w": iota()}), 4, "E_DIM_RANGE", words=("'w'",))

    def test_a_dtype_that_the_target_cannot_store(self):
        source = self.full({"w": iota(2)})
        content = (source / "model.safetensors").read_bytes().replace(b'"F32"', b'"F4" ')
        (source / "model.safetensors").write_bytes(content)
        result = self.run_plan(self.tp_plan(0, 1, ("w", None)), source)
        self.assert_refused(result, 4, "E_", words=("F4",))

    def test_two_and_more_processes_refuse_alike(self):
        source = self.full({"w": iota(6, 2)})
        plan = self.tp_plan(0, 4, *self.PLAN)
        lines = {np: sorted(line for line in self.refuse(plan, source, 4, "E_INDIVISIBLE", np=np).err.splitlines() if "E_INDIVISIBLE" in line) for np in (1, 2, 4)}
        self.assertEqual(len(lines[1]), 1)
        self.assertEqual(lines[1], lines[2])
        self.assertEqual(lines[1], lines[4])


class Overflow(Case):
    def test_products_beyond_63_bits(self):
        self.refuse(self.tp_plan(2, 1, ("w", {"0": "tp"})), self.huge(), 4, "E_", words=("'w'",))

    def huge(self):
        # Zero elements per file, yet the global length of dim 0 is beyond 63 bits.
        source = self.dir / "source"
        empty = Tensor("F32", (2**62, 0), b"")
        for rank in (0, 1):
            write_safetensors(source / f"rank-0000{rank}.safetensors", {"w": empty})
        return source


class Groups(Case):
    def group(self, *members, size=2, shard=None):
        return self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [f"tp={size}"]}, "tensors": [
            {"match": "*", "shard": shard or {"out": "tp"}, "members": dict(members)}]})

    def test_a_group_is_cut_together(self):
        w, scale, bias = noise("w", 8, 8, dtype="F8_E4M3"), iota(2, 2), iota(8)
        plan = self.group(("weight", "out in"), ("scale", "out/4 in/4"), ("bias?", "out"))
        target = self.convert_everywhere(plan, self.full({"a.weight": w, "a.scale": scale, "a.bias": bias, "b.weight": w, "b.scale": scale}))
        self.assert_files(target, [{"a.weight": even(w, 0, 2)[r], "a.scale": even(scale, 0, 2)[r], "a.bias": even(bias, 0, 2)[r],
                                    "b.weight": even(w, 0, 2)[r], "b.scale": even(scale, 0, 2)[r]} for r in (0, 1)])

    def test_an_incomplete_group(self):
        self.refuse(self.group(("weight", "out in"), ("scale", "out/4 in/4")), self.full({"a.weight": iota(8, 8)}), 4, "E_GROUP_INCOMPLETE", words=("a", "scale"))

    def test_a_boundary_inside_a_block(self):
        self.refuse(self.group(("weight", "out in"), ("scale", "out/4 in/4")), self.full({"a.weight": iota(12, 8), "a.scale": iota(3, 2)}), 4, "E_UNIT_SPLIT|E_INDIVISIBLE",
                    words=("4",))

    def test_members_that_disagree(self):
        self.refuse(self.group(("weight", "out in"), ("bias", "out")), self.full({"a.weight": iota(8, 8), "a.bias": iota(6)}), 4, "E_MEMBER_SIZE", words=("8", "6"))

    def test_a_name_that_no_member_has(self):
        self.refuse(self.group(("weight", "out in"), shard={"ffn": "tp"}), self.full({"a.weight": iota(8, 8)}), 3, "E_DIM_RANGE", words=("ffn",))


class Warnings(Case):
    def test_an_idle_axis_is_named(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["etp=2", "tp=2"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        result = self.reshard("plan", plan, "--source", self.full({"w": iota(4)}), "--report", "json")
        self.assert_exit(result, 0)
        self.assertIn("W_AXIS_IDLE", [warning["code"] for warning in result.json()["warnings"]])

    def test_narrowing_is_named(self):
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}, {"dtype": "bf16"}))
        result = self.reshard("plan", plan, "--source", self.full({"w": iota(4)}), "--report", "json")
        self.assertIn("W_NARROWING", [warning["code"] for warning in result.json()["warnings"]])

    def test_sorted_repeatable_messages(self):
        source = self.full({f"t{i}": iota(5) for i in range(40)})
        plan = self.tp_plan(0, 2, ("*", {"0": "tp"}))
        first = self.refuse(plan, source, 4, "E_INDIVISIBLE").err
        self.assertEqual(self.refuse(plan, source, 4, "E_INDIVISIBLE").err, first)
        self.assertGreaterEqual(len([line for line in first.splitlines() if "E_INDIVISIBLE" in line]), 1)

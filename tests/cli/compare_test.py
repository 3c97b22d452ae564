"""`reshard compare`: two checkpoints of any layout and format, with a plan and without."""

import shutil
import struct

from support import Case, needs_h5py, read_safetensors, snapshot, write_safetensors
from tensors import Tensor, even, iota, noise, pieces, tensor

EQUAL = {"schema": "reshard.compare", "version": 1, "only_in_a": [], "only_in_b": [], "different": []}


def changed(value, position, number=-7):
    """The tensor with another number at this row-major position."""
    numbers = list(value.numbers())
    numbers[position] = number
    return tensor(value.dtype, value.shape, numbers)


class CompareCase(Case):
    def compare(self, a, b, *options, np=1, code=None):
        """The report; exit code 1 unless told otherwise."""
        result = self.reshard("compare", a, b, *options, "--report", "json", np=np)
        self.assert_exit(result, 1 if code is None else code)
        report = result.json()
        self.assertEqual(list(report), ["schema", "version", "equal", "only_in_a", "only_in_b", "different"])
        for difference in report["different"]:
            self.assertEqual(list(difference), ["tensor", "what", "at", "a", "b", "file_a", "file_b"])
        return report

    def assert_equal(self, a, b, *options, count, processes=(1, 2, 3)):
        for np in processes:
            self.assertEqual(self.compare(a, b, *options, np=np, code=0), {**EQUAL, "equal": count}, f"{np} processes")

    def assert_different(self, a, b, *options, equal=0, processes=(1, 2, 3), **lists):
        for np in processes:
            self.assertEqual(self.compare(a, b, *options, np=np), {**EQUAL, "equal": equal, **lists}, f"{np} processes")

    def without_manifest(self, target):
        (target / "reshard.json").unlink()
        return target


def value(name, at, a, b, file_a="model.safetensors", file_b="model.safetensors"):
    return {"tensor": name, "what": "value", "at": at, "a": a, "b": b, "file_a": file_a, "file_b": file_b}


RANK = "rank-{:05}.safetensors".format


class WithoutAPlan(CompareCase):
    def model(self):
        return {"w": noise("w", 12, 10), "c": noise("c", 6, 8, dtype="BF16"), "n": noise("n", 5, dtype="U8"), "s": iota(), "e": iota(0, 4)}

    def test_full_sharded_and_numbered_checkpoints_in_both_formats_are_the_same(self):
        source = self.full(self.model())
        cut = {"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [
            {"match": "w", "shard": {"0": "tp"}}, {"match": "c", "shard": {"1": ["dp", "tp"]}}, {"match": "*"}]}
        first = self.convert(self.plan(cut), source)
        cut["target"]["axes"] = ["tp=3"]
        cut["tensors"][0]["shard"] = {"1": {"axes": "tp", "split": "balanced"}}
        cut["tensors"][1]["shard"] = {"0": {"axes": "tp", "layout": "striped"}}
        second = self.convert(self.plan(cut), source, "--target-format", "hdf5")
        numbered = self.convert(self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "256"}, "tensors": [{"match": "*"}]}), source)
        self.assertTrue((numbered / "model.safetensors.index.json").exists())
        self.assert_equal(first, second, count=5)
        self.assert_equal(source, first, count=5, processes=(1, 3))
        self.assert_equal(second, source / "model.safetensors", count=5, processes=(1,))
        self.assert_equal(numbered, second, count=5, processes=(1, 2))
        self.assert_equal(self.without_manifest(numbered), first, count=5, processes=(1,))
        self.assert_equal(source, source, count=5, processes=(2,))

    def test_padding_is_never_compared(self):
        plan = self.tp_plan(0, 2, ("v", {"0": "tp"}, {"target": {"shard": {"0": {"pad_total": 8, "fill": "last"}}}}))
        source = self.full({"v": noise("v", 10, 2)})
        target = self.convert(plan, source)
        path = target / RANK(1)
        path.write_bytes(path.read_bytes()[:-3] + b"abc")
        self.assert_equal(source, target, count=1)
        self.assert_equal(target, source, count=1)

    def test_numbers_that_are_local_are_compared_by_their_global_names(self):
        source = self.full({f"l.{i}.w": noise(f"w{i}", 4, 2) for i in range(4)})
        target = self.convert(self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["pp=2", "tp=2"]}, "tensors": [
            {"match": "l.*.w", "shard": {"0": "tp"}, "target": {"owner": {"pp": {"index": "$1", "count": 4, "numbering": "local"}}}}]}), source)
        self.assert_equal(source, target, count=4)
        path = target / RANK(3)
        tensors = read_safetensors(path)
        self.assertEqual(sorted(tensors), ["l.0.w", "l.1.w"])
        other = Tensor("F32", (2, 2), bytes(8) + tensors["l.1.w"].data[8:])
        write_safetensors(path, {**tensors, "l.1.w": other})
        differing = self.compare(source, target, np=2)["different"]
        self.assertEqual([(entry["tensor"], entry["at"], entry["b"], entry["file_b"]) for entry in differing], [("l.3.w", [2, 0], "0", RANK(3))])

    def test_the_first_element_in_row_major_order_is_named(self):
        w = iota(6, 8)
        source = self.full({"w": w})
        columns = self.convert(self.tp_plan(0, 4, ("w", {"1": "tp"})), source)
        # Element [2, 5] is on rank 2, [2, 1] on rank 0, [3, 0] on rank 0.
        for positions, rank, at in (((21, 24), 2, [2, 5]), ((21, 17, 24), 0, [2, 1]), ((47,), 3, [5, 7])):
            other = w
            for position in positions:
                other = changed(other, position)
            folder = self.full({"w": other}, name="other")
            number = str(at[0] * 8 + at[1])
            self.assert_different(columns, folder, different=[value("w", at, number, "-7", RANK(rank))], processes=(1, 3))
            self.assert_different(folder, columns, different=[value("w", at, "-7", number, file_b=RANK(rank))], processes=(2,))

    def test_a_large_tensor_is_compared_piece_by_piece(self):
        w = noise("large", 3000, 1001, dtype="U8")
        data = bytearray(w.data)
        for position in (2_500_000, 1_234_567, 2_999_999):
            data[position] ^= 255
        source, other = self.full({"w": w}), self.full({"w": Tensor(w.dtype, w.shape, bytes(data))}, name="other")
        target = self.convert(self.tp_plan(0, 4, ("w", {"0": "tp"})), other)
        at = [1_234_567 // 1001, 1_234_567 % 1001]
        self.assert_different(source, target, different=[value("w", at, str(w.data[1_234_567]), str(data[1_234_567]), file_b=RANK(1))])

    def test_a_copy_that_differs_on_either_side(self):
        n, w = iota(4), iota(4, 2)
        source = self.full({"n": n, "w": w})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [{"match": "w", "shard": {"0": "tp"}}, {"match": "n"}]})
        target = self.convert(plan, source)
        for rank in range(4):
            with self.subTest(rank=rank):
                copy = self.dir / f"copy-{rank}"
                shutil.copytree(target, copy)
                tensors = read_safetensors(copy / RANK(rank))
                write_safetensors(copy / RANK(rank), {"n": changed(n, 2), "w": changed(tensors["w"], 3)})
                row = 1 + rank % 2 * 2
                self.assert_different(source, copy, processes=(1, 3), different=[
                    value("n", [2], "2", "-7", file_b=RANK(rank)), value("w", [row, 1], str(2 * row + 1), "-7", file_b=RANK(rank))])
                self.assert_different(copy, source, processes=(2,), different=[
                    value("n", [2], "-7", "2", file_a=RANK(rank)), value("w", [row, 1], "-7", str(2 * row + 1), file_a=RANK(rank))])
                self.assertEqual([entry["tensor"] for entry in self.compare(target, copy)["different"]], ["n", "w"])
                self.assertEqual([entry["tensor"] for entry in self.compare(copy, target)["different"]], ["n", "w"])

    def test_bits_that_print_alike_differ(self):
        words = (0x7FC00001, 0x80000000, 0x3FC00000)
        others = (0x7FC00002, 0x00000000, 0x3FC00000)
        for i, (a, b) in enumerate((("nan (0x7fc00001)", "nan (0x7fc00002)"), ("-0", "0"))):
            one = self.full({"w": Tensor("F32", (1,), struct.pack("<I", words[i]))}, name=f"a{i}")
            other = self.full({"w": Tensor("F32", (1,), struct.pack("<I", others[i]))}, name=f"b{i}")
            self.assert_different(one, other, different=[value("w", [0], a, b)], processes=(1,))
            self.assert_equal(one, one, count=1, processes=(1,))

    def test_values_are_written_in_their_dtype(self):
        cases = {"BF16": (0x3FC0, 0xBFC0, "1.5", "-1.5"), "F16": (0x7BFF, 0x7C00, "65504", "inf"), "F64": (0x3FB999999999999A, 0, "0.1", "0"),
                 "I64": (2**64 - 1, 5, "-1", "5"), "U8": (255, 0, "255", "0"), "BOOL": (1, 0, "true", "false"), "F8_E4M3": (0x7E, 0x7F, "448", "nan (0x7f)")}
        sizes = {"F64": 8, "I64": 8, "BF16": 2, "F16": 2}
        def one_each(which):
            return {name: Tensor(name, (), words[which].to_bytes(sizes.get(name, 1), "little")) for name, words in cases.items()}
        self.assert_different(self.full(one_each(0), name="a"), self.full(one_each(1), name="b"), processes=(1,),
                              different=[value(name, [], *cases[name][2:]) for name in sorted(cases)])

    def test_tensors_missing_and_extra_other_dtypes_and_shapes(self):
        a = self.full({"same": iota(2), "gone": iota(1), "dtype": iota(2), "shape": iota(2, 3), "both": iota(2)}, name="a")
        b = self.full({"same": iota(2), "new": iota(1), "dtype": iota(2, dtype="I32"), "shape": iota(3, 2), "both": iota(3, dtype="F64")}, name="b")
        file = {"file_a": "model.safetensors", "file_b": "model.safetensors"}
        self.assert_different(a, b, equal=1, only_in_a=["gone"], only_in_b=["new"], different=[
            {"tensor": "both", "what": "dtype", "at": None, "a": "f32", "b": "f64", **file},
            {"tensor": "both", "what": "shape", "at": None, "a": "[2]", "b": "[3]", **file},
            {"tensor": "dtype", "what": "dtype", "at": None, "a": "f32", "b": "i32", **file},
            {"tensor": "shape", "what": "shape", "at": None, "a": "[2, 3]", "b": "[3, 2]", **file}])

    def test_text(self):
        a, b = self.full({"w": iota(2, 2), "x": iota(1)}, name="a"), self.full({"w": changed(iota(2, 2), 3, 1.25)}, name="b")
        result = self.reshard("compare", a, b)
        self.assert_exit(result, 1)
        self.assertEqual(result.out.splitlines(), [
            f"A {a}, B {b}: 0 equal tensors, 1 different, 1 only in A, 0 only in B",
            "E_DIFFERENT: tensor 'x': only in A",
            "E_DIFFERENT: tensor 'w': value at [1, 1]: A has 3 (model.safetensors), B has 1.25 (model.safetensors)"])
        self.assertEqual(result.err, "")
        self.assertEqual(self.reshard("compare", a, a).out, f"A {a}, B {a}: 2 equal tensors, no difference\n")

    def test_several_ranks_without_a_manifest_need_a_plan(self):
        ranks = self.ranks([{"w": iota(2)}, {"w": iota(2)}], name="ranks")
        full = self.full({"w": iota(4)})
        other_names = self.ranks([{"w": iota(2)}], name="named", template="mp_{:02}.safetensors")
        for folder in (ranks, other_names):
            for words in ((folder, full), (full, folder)):
                for np in (1, 2):
                    result = self.reshard("compare", *words, np=np)
                    self.assert_exit(result, 2)
                    self.assert_error_lines(result, "E_USAGE")
                    self.assertIn("--plan", result.err)
        self.assert_equal(full, self.ranks([{"w": iota(4)}], name="one"), count=1, processes=(1,))

    def test_what_is_not_there_or_broken(self):
        full = self.full({"w": iota(4)})
        broken = self.full({"w": iota(4)}, name="broken")
        (broken / "model.safetensors").write_bytes((broken / "model.safetensors").read_bytes()[:-1])
        for words, code in (((full, self.dir / "nowhere"), "E_MISSING"), ((broken, full), "E_FORMAT")):
            result = self.reshard("compare", *words, np=2)
            self.assert_exit(result, 4)
            self.assert_error_lines(result, code)
        self.assert_exit(self.reshard("compare", full), 2)

    @needs_h5py
    def test_a_dataset_that_is_no_tensor_is_refused(self):
        import h5py
        folder = self.dir / "strings"
        folder.mkdir()
        with h5py.File(folder / "model.h5", "w") as file:
            file["w"] = 1.5
            file["text"] = "a text"
        result = self.reshard("compare", folder, folder)
        self.assert_exit(result, 4)
        self.assertIn("'text'", result.err)

    def test_nothing_is_written(self):
        a, b = self.full({"w": iota(4)}, name="a"), self.full({"w": iota(4, first=1)}, name="b")
        before = snapshot(self.dir)
        self.compare(a, b, np=2)
        self.assertEqual(snapshot(self.dir), before)


class WithAPlan(CompareCase):
    def test_names_and_dtypes_are_compared_after_rename_and_dtype(self):
        w = tensor("F32", (4, 6), [i + 0.001 for i in range(24)])
        n = noise("n", 3)
        source = self.ranks([{"old.w": half, "n": n} for half in even(w, 1, 2)])
        plan = self.tp_plan(2, 4, ("old.*", None, {"rename": "new.$1", "dtype": "bf16", "source": {"shard": {"1": "tp"}}, "target": {"shard": {"0": "tp"}}}), ("n", None))
        target = self.without_manifest(self.convert(plan, source))
        self.assert_equal(source, target, "--plan", plan, count=2)
        # 20.001 is 20 in bf16; its element [3, 2] is on rank 1 of the source and rank 3 of the target.
        path = target / RANK(3)
        tensors = read_safetensors(path)
        words = list(tensors["new.w"].numbers())
        words[2] += 1
        write_safetensors(path, {**tensors, "new.w": tensor("BF16", (1, 6), words)})
        self.assert_different(source, target, "--plan", plan, equal=1, different=[value("new.w", [3, 2], "20", "20.125", RANK(0), RANK(3))])

    def test_a_difference_that_the_conversion_rounds_away_is_none(self):
        one, other = (self.full({"w": tensor("F32", (2,), (1.0, number))}, name=name) for name, number in (("a", 2.0), ("b", 2.0001)))
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}, {"dtype": "bf16"}))
        target = self.without_manifest(self.convert(plan, one))
        self.assert_equal(other, target, "--plan", plan, count=1)

    def test_copies_of_a_converted_tensor_in_the_source(self):
        n = tensor("F32", (3,), (1, 2, 3))
        plan = self.tp_plan(2, 1, ("n", None, {"dtype": "f64"}))
        source = self.ranks([{"n": n}, {"n": n}])
        target = self.without_manifest(self.convert(plan, source))
        self.assert_equal(source, target, "--plan", plan, count=1)
        for rank in (0, 1):
            write_safetensors(source / RANK(rank), {"n": changed(n, 1, 2.5)})
            self.assert_different(source, target, "--plan", plan, different=[value("n", [1], "2.5", "2", RANK(rank))])
            write_safetensors(source / RANK(rank), {"n": n})

    def test_layouts_of_every_kind(self):
        source = self.full({"vocab": noise("v", 101, 3), "qkv": noise("qkv", 24, 4), "uneven": noise("u", 10, 7), "mlp": noise("m", 24, 5), "h": noise("h", 16, 2),
                            "packed": noise("p", 14, 2), "cu": tensor("I32", (4,), (0, 5, 6, 14)),
                            **{f"experts.{e}.{suffix}": noise(f"{e}{suffix}", *shape) for e in range(4) for suffix, shape in (("weight", (8, 6)), ("scale", (4, 2)))}})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["gtp=2", "tp=4"], "views": {"expert": ["ep=2", "etp=4"]}}, "tensors": [
            {"match": "vocab", "shard": {"0": "tp"}, "target": {"shard": {"0": {"pad_total": 8}}}},
            {"match": "qkv", "shard": {"0": {"axes": "tp", "unit": 4, "segments": [16, 4, 4], "fallback": "repeat"}}},
            {"match": "uneven", "shard": {"0": {"axes": "tp", "split": "chunk"}}},
            {"match": "mlp", "shard": {"0": {"axes": ["tp", "gtp"], "pad_to": 2}}},
            {"match": "h", "target": {"shard": {"0": {"axes": ["gtp", "tp"], "layout": "zigzag"}}}},
            {"match": "packed", "target": {"shard": {"0": {"axes": "gtp", "layout": "zigzag", "packed": {"cu_seqlens": "cu"}, "pad_value": 7}}}},
            {"match": "experts.*", "view": "expert", "members": {"weight": "out in", "scale": "out/2 in/3"},
             "target": {"owner": {"ep": {"index": "$1", "count": 4, "numbering": "local"}}}, "shard": {"out": "etp"}},
            {"match": "*"}]})
        target = self.without_manifest(self.convert(plan, source))
        self.assert_equal(source, target, "--plan", plan, count=15)
        # One byte of a tensor in every file at a time: found exactly where it is no padding.
        for rank in (1, 6):
            path = target / RANK(rank)
            content = path.read_bytes()
            tensors = read_safetensors(path)
            for name, shard in tensors.items():
                data = bytes([shard.data[0] ^ 1]) + shard.data[1:]
                write_safetensors(path, {**tensors, name: Tensor(shard.dtype, shard.shape, data)})
                difference, = self.compare(source, target, "--plan", plan)["different"]
                self.assertEqual((difference["tensor"].split(".")[-1], difference["file_b"]), (name.split(".")[-1], path.name))
            path.write_bytes(content)

    def test_a_target_in_another_format_than_the_source(self):
        source = self.ranks([{"w": part} for part in even(noise("w", 8, 4), 0, 2)])
        plan = self.tp_plan(2, 4, ("w", {"0": "tp"}))
        target = self.convert(plan, source, "--target-format", "hdf5")
        self.assert_equal(source, target, "--plan", plan, count=1, processes=(1, 2))
        self.assert_equal(source, self.without_manifest(target), "--plan", plan, count=1, processes=(1,))

    def test_the_target_of_a_template_and_a_numbered_set(self):
        source = self.full({"a": noise("a", 8, 4), "b": noise("b", 8, 4)})
        files = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2"], "files": "mp_{tp:02}/model.safetensors"}, "tensors": [{"match": "*", "shard": {"0": "tp"}}]})
        self.assert_equal(source, self.without_manifest(self.convert(files, source)), "--plan", files, count=2, processes=(1,))
        numbered = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "128"}, "tensors": [{"match": "*"}]}, "numbered.json")
        self.assert_equal(source, self.without_manifest(self.convert(numbered, source)), "--plan", numbered, count=2, processes=(1,))

    def test_missing_extra_dropped_and_misshapen_tensors(self):
        source = self.full({"w": iota(4, 2), "gone": iota(4), "dropped": iota(4), "d": iota(4), "s": iota(6, 2)})
        plan = self.tp_plan(0, 2, ("dropped", None, {"drop": True}), ("*", {"0": "tp"}))
        target = self.ranks([{"w": w, "new": iota(1), "dropped": iota(4), "d": d, "s": s} for w, d, s in
                             zip(even(iota(4, 2), 0, 2), even(iota(4, dtype="I32"), 0, 2), pieces(iota(6, 2), 0, [4, 2]))], name="target")
        self.assert_different(source, target, "--plan", plan, equal=1, only_in_a=["gone"], only_in_b=["dropped", "new"], different=[
            {"tensor": "d", "what": "dtype", "at": None, "a": "f32", "b": "i32", "file_a": "model.safetensors", "file_b": RANK(0)},
            {"tensor": "s", "what": "shape", "at": None, "a": "[3, 2] of [6, 2]", "b": "[4, 2]", "file_a": "model.safetensors", "file_b": RANK(0)}])

    def test_a_tensor_that_a_rank_of_the_target_lacks(self):
        source = self.full({"w": iota(4), "n": iota(1)})
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}), ("n", None))
        target = self.ranks([{"w": iota(2), "n": iota(1)}, {"w": iota(2, first=2)}], name="target")
        for np in (1, 2):
            result = self.reshard("compare", source, target, "--plan", plan, np=np)
            self.assert_exit(result, 4)
            self.assert_error_lines(result, "E_MISSING")
            self.assertIn("'n'", result.err)

    def test_the_source_may_have_a_manifest_and_the_plan_no_source(self):
        first = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": noise("w", 8, 4)}))
        plan = self.plan({"reshard": 1, "target": {"axes": ["tp=4"]}, "tensors": [{"match": "w", "target": {"shard": {"1": "tp"}}}]}, "next.json")
        target = self.without_manifest(self.convert(plan, first))
        self.assert_equal(first, target, "--plan", plan, count=1)

    def test_a_plan_that_is_not_of_these_checkpoints(self):
        source = self.full({"w": iota(4)})
        target = self.ranks([{"w": half} for half in even(iota(4), 0, 2)], name="target")
        for plan, exit_code, code in ((self.dir / "none.yaml", 2, "E_USAGE"), (self.plan("reshard: 1\ntensors: [{match: w, shard: {0: xx}}]\n"), 3, "E_AXIS_UNKNOWN"),
                                      (self.plan("reshard: 1\ntarget: {axes: [tp=2]}\ntensors: [{match: x}]\n", "unused.yaml"), 4, "E_RULE_UNUSED"),
                                      (self.tp_plan(0, 3, ("w", None)), 4, "E_MISSING")):
            result = self.reshard("compare", source, target, "--plan", plan, np=2)
            self.assert_exit(result, exit_code)
            self.assert_error_lines(result, code)

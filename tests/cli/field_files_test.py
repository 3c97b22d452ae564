"""Failures that people met in other checkpoint tools, as tests: dtypes, files, names, keys, processes, targets. Each test is named by
the id of its report; docstrings retell what went wrong there. DTY_1, FMT_6, FMT_8, FMT_9 and FMT_10 read files that h5py writes.
"""

import json
import os
import signal
import struct

from stopped import Stopped
from support import Case, environment, h5py, needs_h5py, read_metadata, read_safetensors, snapshot
from tensors import Tensor, even, iota, noise, tensor

if h5py:
    import numpy


class Dtypes(Case):
    BF16 = Tensor("BF16", (4,), bytes.fromhex("803f20c000004040"))  # 1, -2.5, 0, 3

    def hdf5(self, name, write):
        folder = self.dir / name
        folder.mkdir()
        with h5py.File(folder / "model.h5", "w") as file:
            write(file)
        return folder

    def to_two(self, source, *options):
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        target = self.convert_everywhere(plan, source, "--target-format", "safetensors", *options)
        return [file["w"] for file in self.files(target)]

    @needs_h5py
    def test_DTY_1(self):
        """bf16 in HDF5 is opaque, or an integer with an attribute, or a custom float."""
        words = numpy.frombuffer(self.BF16.data, "<u2")
        def opaque(file, attribute):
            kind = h5py.h5t.create(h5py.h5t.OPAQUE, 2)
            dataset = h5py.h5d.create(file.id, b"w", kind, h5py.h5s.create_simple((4,)))
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, words.view("V2").copy(), kind)
            if attribute:
                file["w"].attrs["dtype"] = "bfloat16"
        def unsigned(file, attribute):
            file["w"] = words
            if attribute:
                file["w"].attrs["dtype"] = "bf16"
        def custom_float(file):
            kind = h5py.h5t.IEEE_F32LE.copy()
            kind.set_fields(15, 7, 8, 0, 7)
            kind.set_size(2)
            kind.set_ebias(127)
            dataset = h5py.h5d.create(file.id, b"w", kind, h5py.h5s.create_simple((4,)))
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array([1.0, -2.5, 0.0, 3.0], "f4"))
        expected = even(self.BF16, 0, 2)
        self.assertEqual(self.to_two(self.hdf5("opaque", lambda file: opaque(file, True))), expected)
        self.assertEqual(self.to_two(self.hdf5("unsigned", lambda file: unsigned(file, True))), expected)
        self.assertEqual(self.to_two(self.hdf5("float", custom_float)), expected)
        self.assertEqual([value.dtype for value in self.to_two(self.hdf5("plain", lambda file: unsigned(file, False)))], ["U16", "U16"])
        self.refuse(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.hdf5("bare", lambda file: opaque(file, False)), 4, "E_DTYPE|E_UNSUPPORTED|E_FORMAT", words=("'w'", "dtype"))

    def test_DTY_2(self):
        """A library without bf16 in the path forced an upcast."""
        middle = self.convert_everywhere(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": self.BF16}), "--target-format", "hdf5")
        back = self.convert_everywhere(self.tp_plan(2, 0, ("w", {"0": "tp"})), middle, "--target-format", "safetensors")
        self.assert_full(back, {"w": self.BF16})

    def test_DTY_3(self):
        """An export dtype equal to a default was skipped: the log said f32, the files stayed bf16."""
        model = {"a": self.BF16, "b": tensor("F32", (2,), (1.00390625, 3.0)), "n": iota(2, dtype="I64"), "m": Tensor("BOOL", (2,), b"\x01\x00")}
        source = self.full(model)
        def converted(dtype):
            further = {"dtype": dtype} if dtype else {}
            result = self.run_plan(self.tp_plan(0, 1, ("{a,b}", None, further), ("*", None)), source)
            self.assert_exit(result, 0)
            return read_safetensors(self.target / "model.safetensors"), result.out + result.err
        self.assertEqual(converted(None)[0], model)
        wide, _ = converted("f32")
        self.assertEqual(wide, model | {"a": tensor("F32", (4,), (1.0, -2.5, 0.0, 3.0))})
        narrow, text = converted("bf16")
        # 1.00390625 = 0x3F808000 lies half way between two bf16 numbers: to the even one.
        self.assertEqual(narrow, model | {"b": Tensor("BF16", (2,), struct.pack("<2H", 0x3F80, 0x4040))})
        self.assertIn("W_NARROWING", text)


class Shapes(Case):
    def test_SHP_1(self):
        """Zero-size tensors crash readers or get flagged as corrupt."""
        model = {"flag": Tensor("F8_E4M3", (0,), b""), "e": Tensor("F32", (2, 0), b""), "w": iota(4)}
        rules = [("{flag,e}", None), ("w", {"0": "tp"})]
        target = self.convert_everywhere(self.tp_plan(0, 2, *rules), self.full(model))
        expected = [model | {"w": half} for half in even(model["w"], 0, 2)]
        self.assert_files(target, expected)
        middle = self.convert_everywhere(self.tp_plan(0, 2, *rules), self.dir / "source", "--target-format", "hdf5")
        back = self.convert_everywhere(self.tp_plan(2, 2, *rules), middle, "--target-format", "safetensors")
        self.assert_files(back, expected)
        source = self.dir / "bad"
        source.mkdir()
        header = b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,0]}}'
        (source / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        self.refuse(self.tp_plan(0, 1, ("x", None)), source, 4, "E_FORMAT", words=("'x'",))


class Containers(Case):
    def test_FMT_1(self):
        """A truncated file was picked up as a valid checkpoint."""
        source = self.full({"w": iota(16)})
        path = source / "model.safetensors"
        content = path.read_bytes()
        for length in (5, 40, len(content) - 1):
            path.write_bytes(content[:length])
            self.refuse(self.tp_plan(0, 2, ("w", {"0": "tp"})), source, 4, "E_FORMAT", words=("model.safetensors", str(length)))

    def test_FMT_1_hdf5(self):
        middle = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": noise("w", 4, 5000)}), "--target-format", "hdf5")
        (middle / "reshard.json").unlink()
        path = middle / "rank-00001.h5"
        path.write_bytes(path.read_bytes()[:path.stat().st_size * 6 // 10])
        for np in (1, 2):
            result = self.run_plan(self.tp_plan(2, 1, ("w", {"0": "tp"})), middle, np=np)
            self.assertIn(result.code, (4, 5), str(result))
            self.assertIn("rank-00001.h5", result.err)
            self.assertFalse(self.target.exists())

    def test_FMT_3(self):
        """Two tensors declared one byte range and aliased each other."""
        source = self.dir / "source"
        source.mkdir()
        for second in ([0, 16], [12, 28]):
            header = json.dumps({name: {"dtype": "F32", "shape": [4], "data_offsets": offsets} for name, offsets in (("k", [0, 16]), ("v", second))}).encode()
            (source / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(second[1]))
            self.refuse(self.tp_plan(0, 1, ("*", None)), source, 4, "E_FORMAT", words=("model.safetensors",))

    def test_FMT_5(self):
        """Trailing bytes and holes were accepted by one path and rejected by another."""
        source = self.full({"w": iota(4)})
        path = source / "model.safetensors"
        good = path.read_bytes()
        header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
        for content in (good + bytes(16), struct.pack("<Q", len(header)) + header + bytes(12)):
            path.write_bytes(content)
            for np in (1, 4):
                self.refuse(self.tp_plan(0, 2, ("*", None)), source, 4, "E_FORMAT", words=("model.safetensors",), np=np)

    @needs_h5py
    def test_FMT_6(self):
        """Byte order was ignored."""
        source = self.dir / "source"
        source.mkdir()
        with h5py.File(source / "model.h5", "w") as file:
            file["f4"] = numpy.array([1.0, -2.5], ">f4")
            file["f8"] = numpy.array([1.0, -2.5], ">f8")
        target = self.convert_everywhere(self.tp_plan(0, 2, ("*", {"0": "tp"})), source, "--target-format", "safetensors")
        self.assert_files(target, [{"f4": tensor("F32", (1,), (number,)), "f8": tensor("F64", (1,), (number,))} for number in (1.0, -2.5)])

    @needs_h5py
    def test_FMT_8(self):
        """A virtual dataset whose source is gone reads as fill values."""
        source = self.dir / "source"
        source.mkdir()
        for i in (0, 1):
            with h5py.File(source / f"p{i}.h5", "w") as file:
                file["w"] = numpy.arange(4 * i, 4 * i + 4, dtype="f4").reshape(2, 2)
        with h5py.File(source / "model.h5", "w") as file:
            layout = h5py.VirtualLayout((4, 2), "f4")
            for i in (0, 1):
                layout[2 * i:2 * i + 2] = h5py.VirtualSource(f"p{i}.h5", "w", (2, 2))
            file.create_virtual_dataset("w", layout)
        plan = self.tp_plan(0, 1, ("w", None))
        target = self.convert(plan, source / "model.h5", "--allow-external", "--target-format", "safetensors")
        self.assert_full(target, {"w": iota(4, 2)})
        (source / "p1.h5").unlink()
        result = self.run_plan(plan, source / "model.h5", "--allow-external")
        self.assert_refused(result, 4, "E_", words=("p1.h5",))

    def test_FMT_9(self):
        """A list of all names in one HDF5 attribute exceeds its limit."""
        model = {f"{'layer' * 11}.{i:04}": iota(1, first=i) for i in range(5000)}
        plan = self.tp_plan(0, 2, ("**", None))
        middle = self.convert(plan, self.full(model), "--target-format", "hdf5", np=2)
        self.assert_full(self.convert(self.tp_plan(2, 0, ("**", None)), middle, "--target-format", "safetensors"), model)

    @needs_h5py
    def test_FMT_10(self):
        """HDF5 file locks clash between readers."""
        source = self.dir / "source"
        source.mkdir()
        with h5py.File(source / "model.h5", "w") as file:
            file["w"] = numpy.arange(8, dtype="f4")
        plan = self.tp_plan(0, 4, ("w", {"0": "tp"}))
        with h5py.File(source / "model.h5", "r"):
            first = self.convert(plan, source, np=4)
        source.chmod(0o555)
        second = self.convert(plan, source, np=4)
        third = self.convert(plan, source, np=4, env=environment(HDF5_USE_FILE_LOCKING="FALSE"))
        self.assertEqual(snapshot(first), snapshot(second))
        self.assertEqual(snapshot(first), snapshot(third))


class Indexes(Case):
    def test_IDX_1(self):
        """The index names files that are not there."""
        a, b, c, d = (iota(2, first=i) for i in range(4))
        names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
        source = self.hub({names[0]: {"a": a}, names[1]: {"b": b, "c": c}, names[2]: {"d": d}})
        (source / names[1]).unlink()
        for np in (1, 2):
            self.refuse(self.tp_plan(0, 1, ("*", None)), source, 4, "E_MISSING", words=(names[1], "b", "c"), np=np)
        extra = self.hub({names[0]: {"a": a}, names[1]: {"b": b}, names[2]: {"d": d}}, name="extra", weight_map={"a": names[0], "d": names[2]}, total_size=16)
        result = self.run_plan(self.tp_plan(0, 1, ("*", None)), extra, "--report", "json")
        self.assert_exit(result, 0)
        self.assertEqual(result.json()["ignored_files"], [names[1]])
        self.assert_full(self.target, {"a": a, "d": d})

    def test_IDX_2(self):
        """total_size was the sum of file sizes."""
        a, b, c = noise("a", 1024, 3), noise("b", 1280, dtype="BF16"), noise("c", 1792, dtype="U8")
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "13KiB"}, "tensors": [{"match": "*"}]})
        target = self.convert_everywhere(plan, self.full({"A": a, "B": b, "C": c}))
        index = json.loads((target / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], 12288 + 2560 + 1792)
        self.assertEqual(len(set(index["weight_map"].values())), 2)

    def test_IDX_3(self):
        """Unusual source names collapsed into a single output file."""
        tensors = {name: noise(name, 1024, 256) for name in ("x", "y", "z")}
        source = self.hub(dict(zip(("part_a.safetensors", "part-b.safetensors", "weights.v2.safetensors"), ({name: value} for name, value in tensors.items()))))
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "1MiB"}, "tensors": [{"match": "*"}]})
        target = self.convert_everywhere(plan, source)
        files = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
        self.assertEqual(set(os.listdir(target)), {*files, "model.safetensors.index.json", "reshard.json"})
        self.assertEqual([read_safetensors(target / file) for file in files], [{name: value} for name, value in tensors.items()])

    def test_IDX_4(self):
        """Without its format tag the output was unreadable for a common loader."""
        for metadata in ({"format": "pt", "note": "x"}, {"note": "x"}, None):
            source = self.full({"w": iota(4)}, metadata=metadata, name=f"source-{self.targets}")
            target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), source)
            for rank in (0, 1):
                self.assertEqual(read_metadata(target / f"rank-0000{rank}.safetensors"), {**(metadata or {}), "format": "pt"})


class NamesAndKeys(Case):
    def test_NAM_1(self):
        """A slash in a name makes HDF5 groups; `conv1` and `conv1/bn` collide."""
        model = {"conv1": iota(2), "conv1/bn": iota(2, first=5), "m.a.b": iota(2, first=9), "a%2Fb": iota(2, first=12)}
        middle = self.convert_everywhere(self.tp_plan(0, 1, ("**", None)), self.full(model), "--target-format", "hdf5")
        self.assert_full(self.convert_everywhere(self.tp_plan(0, 1, ("**", None)), middle, "--target-format", "safetensors"), model)
        if h5py:
            with h5py.File(middle / "model.h5", "r") as file:
                for address, name in (("conv1%2Fbn", "conv1/bn"), ("a%252Fb", "a%2Fb")):
                    stored = file[address].attrs["name"]
                    self.assertEqual(stored.decode() if isinstance(stored, bytes) else stored, name)

    def test_MET_4(self):
        """Extra keys pass unnoticed while missing keys fail, or the reverse."""
        source = self.full({name: iota(2) for name in "abd"})
        plan = self.tp_plan(0, 2, *((name, {"0": "tp"}) for name in "abc"))
        self.refuse(plan, source, 4, "E_RULE_UNUSED", "E_TENSOR_UNMATCHED", words=("'d'", "'c'"))
        self.refuse(plan, source, 4, "E_RULE_UNUSED", options=("--allow-extra",))
        self.refuse(plan, source, 4, "E_TENSOR_UNMATCHED", options=("--allow-missing",))
        target = self.convert(plan, source, "--allow-extra", "--allow-missing")
        self.assertEqual([sorted(file) for file in self.files(target)], [["a", "b"], ["a", "b"]])

    def test_MET_6(self):
        """The conversion finished normally although nothing matched."""
        source = self.full({f"module.layers.{i}.w": iota(2) for i in range(3)})
        self.refuse(self.tp_plan(0, 2, ("model.layers.*.w", {"0": "tp"})), source, 4, "E_RULE_UNUSED", "E_TENSOR_UNMATCHED",
                    words=("model.layers.*.w", "module.layers.0.w"))

    def test_PLN_1(self):
        """YAML turns numbers into text and words into booleans."""
        source = self.full({"w": iota(8, 1)})
        def both(axis, unit):
            yaml = f'reshard: 1\nsource: {{axes: []}}\ntarget: {{axes: ["{axis}"]}}\ntensors:\n  - match: w\n    shard:\n      0:\n        axes: tp\n        unit: {unit}\n'
            as_json = (f'{{"reshard": 1, "source": {{"axes": []}}, "target": {{"axes": ["{axis}"]}},\n "tensors": [{{"match": "w", "shard": {{"0": {{"axes": "tp",'
                       f' "unit": {unit or "null"}}}}}}}]}}')
            return self.plan(yaml, "plan.yaml"), self.plan(as_json, "plan.json")
        results = [snapshot(self.convert(plan, source)) for plan in both("tp=4", "2")]
        self.assertEqual(results[0], results[1])
        for axis in ("tp=4.0", "tp=04", "tp=0x4", "tp=4e0", "tp=yes", "tp=-1", "tp=0", "tp="):
            for plan, line in zip(both(axis, "2"), (3, 1)):
                result = self.refuse(plan, source, 3, "E_MESH_SIZE|E_SCHEMA")
                self.assertRegex(result.err, rf"plan\.(yaml|json):{line}:\d+")
        for unit in ('"4"', "4.0", "04", "0x4", "4e0", "yes", "-1", "0", ""):
            yaml, as_json = both("tp=4", unit)
            self.assertRegex(self.refuse(yaml, source, 3, "E_").err, r"plan\.yaml:9:\d+")
            if unit != "yes":
                self.assertRegex(self.refuse(as_json, source, 3, "E_").err, r"plan\.json:2:\d+")

    def test_PLN_2(self):
        """A weight that matched no rule was left whole, or stopped the run at the first unknown name."""
        model = {"m.gate_proj.weight": iota(4, 2), "m.up_proj.weight": iota(4, 2), "down_proj": iota(4, 8), "x.layer_norm_weight": iota(4)}
        rule = ("**.{gate,up}_proj.weight", {"0": "tp"})
        result = self.refuse(self.tp_plan(0, 2, rule), self.full(model), 4, "E_TENSOR_UNMATCHED", words=("'down_proj'", "'x.layer_norm_weight'"))
        self.assertEqual(len([line for line in result.err.splitlines() if "E_TENSOR_UNMATCHED" in line]), 2)
        result = self.run_plan(self.tp_plan(0, 2, rule, unmatched="replicate"), self.dir / "source")
        self.assert_exit(result, 0)
        for rank, file in enumerate(self.files(self.target)):
            self.assertEqual(file, model | {name: even(model[name], 0, 2)[rank] for name in ("m.gate_proj.weight", "m.up_proj.weight")})
        self.assertIn("down_proj", result.out + result.err)


class Processes(Case):
    def test_COL_1(self):
        """Ranks with nothing to write skipped a collective HDF5 call; the others waited for ever."""
        w = iota(3, 2)
        rule = ("w", {"0": {"axes": "tp", "split": "chunk"}})
        source = self.ranks([{"w": row} for row in even(w, 0, 3)])
        first = None
        for np in (4, 7):
            middle = self.convert(self.tp_plan(3, 3, rule), source, "--target-format", "hdf5", np=np, timeout=30)
            first = first or snapshot(middle)
            self.assertEqual(snapshot(middle), first)
            self.assert_full(self.convert(self.tp_plan(3, 1, rule), middle, "--target-format", "safetensors", np=np, timeout=30), {"w": w})

    def test_COL_3(self):
        """A checkpoint of a large mesh could not be inspected on a small machine."""
        w = iota(64, 2)
        source = self.ranks([{"w": row} for row in even(w, 0, 64)])
        plan = self.tp_plan(64, 4, ("w", {"0": "tp"}))
        for np in (1, 3, 16):
            self.assert_files(self.convert(plan, source, np=np), [{"w": part} for part in even(w, 0, 4)])
        self.assert_exit(self.reshard("inspect", source), 0)
        self.assert_exit(self.reshard("plan", plan, "--source", source), 0)


class Targets(Case):
    def test_ATM_1(self):
        """Old shards stayed in the output folder and were loaded with the new ones."""
        source = self.full({"w": iota(4)})
        rule = ("w", {"0": "tp"})
        out = self.convert(self.tp_plan(0, 4, rule), source)
        before = snapshot(out)
        two = self.tp_plan(0, 2, rule)
        result = self.reshard("run", two, "--source", source, "--target", out)
        self.assert_exit(result, 2)
        self.assert_error_lines(result, "E_EXISTS")
        self.assertEqual(snapshot(out), before)
        self.assert_exit(self.reshard("run", two, "--source", source, "--target", out, "--overwrite"), 0)
        self.assert_files(out, [{"w": half} for half in even(iota(4), 0, 2)])

    def test_ATM_2(self):
        """Writing in place destroyed the previous good checkpoint when the job was killed."""
        source = self.full({"w": iota(4)})
        out = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), source)
        before = snapshot(out)
        with Stopped(self, out, 2, options=("--overwrite",)) as stopped:
            os.kill(stopped.workers()[1], signal.SIGKILL)
            self.assertNotEqual(stopped.go_on().code, 0)
        self.assertEqual(snapshot(out), before)
        self.assert_exit(stopped.again("--resume"), 0)
        self.assert_files(out, stopped.expected)
        self.assertEqual([path.name for path in self.dir.iterdir() if path.name.startswith(out.name)], [out.name])

    def test_ATM_4(self):
        """Output and source the same place: the file is truncated while still needed."""
        source = self.full({"w": iota(4)})
        before = snapshot(source)
        link = self.dir / "link"
        link.symlink_to(source)
        for target in (source, link, source / "inside"):
            for options in ((), ("--overwrite",)):
                result = self.reshard("run", self.tp_plan(0, 2, ("w", {"0": "tp"})), "--source", source, "--target", target, *options)
                self.assert_exit(result, 2)
                self.assertEqual(snapshot(source), before)

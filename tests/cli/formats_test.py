"""Files as they must lie on disk: safetensors headers, Hugging Face sets, HDF5, side files."""

import json
import os
import struct

from support import (Case, h5py, needs_h5py, read_hdf5, read_header, read_metadata, read_safetensors, safetensors_bytes, snapshot,
                     write_safetensors)
from tensors import Tensor, even, iota, noise, take

if h5py:
    import numpy


class Safetensors(Case):
    def test_tensors_lie_by_descending_element_size_then_bytewise_name(self):
        tensors = {"b": iota(2, dtype="U8"), "a": iota(2, dtype="U8"), "z": iota(2, dtype="F64"), "m": iota(2, dtype="BF16"),
                   "Z": iota(2, dtype="F32"), "é": iota(2, dtype="F32"), "a.b": iota(2, dtype="F32")}
        target = self.convert(self.tp_plan(0, 1, ("**", None)), self.full(tensors))
        header, start = read_header(target / "model.safetensors")
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        by_offset = sorted(header, key=lambda name: header[name]["data_offsets"])
        self.assertEqual(by_offset, ["z", "Z", "a.b", "é", "m", "a", "b"])
        self.assertEqual(start % 8, 0)
        self.assert_full(target, tensors)

    def test_metadata_on_which_all_files_agree_travels(self):
        rows = even(iota(4), 0, 2)
        folder = self.ranks([{"w": rows[0]}], metadata={"format": "pt", "note": "x", "step": "1"})
        write_safetensors(folder / "rank-00001.safetensors", {"w": rows[1]}, {"format": "pt", "note": "x", "step": "2", "DCP_VERSION": "1.0"})
        result = self.run_plan(self.tp_plan(2, 4, ("w", {"0": "tp"})), folder)
        self.assert_exit(result, 0)
        self.assertIn("W_METADATA", result.out + result.err)
        for rank in range(4):
            self.assertEqual(read_metadata(self.target / f"rank-{rank:05}.safetensors"), {"format": "pt", "note": "x"})

    def test_metadata_that_hdf5_has_no_place_for_is_named(self):
        source = self.full({"w": iota(4)}, metadata={"format": "pt", "note": "x"})
        result = self.run_plan(self.tp_plan(0, 1, ("w", None)), source, "--target-format", "hdf5")
        self.assert_exit(result, 0)
        self.assertIn("W_METADATA", result.err)
        self.assertIn("'note'", result.err)
        result = self.run_plan(self.tp_plan(0, 1, ("w", None)), self.full({"w": iota(4)}, name="plain"), "--target-format", "hdf5")
        self.assertNotIn("W_METADATA", result.err + result.out)

    def test_torch_shard_metadata_never_travels(self):
        sharding = json.dumps({"w": {"saved_offsets": [0]}})
        source = self.full({"w": iota(4)}, metadata={"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": sharding})
        target = self.convert(self.tp_plan(0, 1, ("w", None)), source)
        self.assertEqual(read_metadata(target / "model.safetensors"), {"format": "pt"})

    def test_a_torch_shard_with_offsets_is_unsupported(self):
        folder = self.dir / "source"
        for rank in (1, 2):
            sharding = json.dumps({"w": {"saved_offsets": [2 * (rank - 1)]}})
            write_safetensors(folder / f"shard-0000{rank}-model-00001-of-00001.safetensors", {"w": iota(2, first=2 * rank - 2)},
                              {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": sharding})
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"]}, "target": {"axes": []}, "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        result = self.run_plan(plan, folder)
        self.assert_refused(result, 4)


class HuggingFaceSets(Case):
    TENSORS = {"A": iota(256, 3), "B": iota(320, dtype="BF16"), "C": noise("C", 448, dtype="U8"), "D": iota(384)}

    def full_plan(self, size=None):
        target = {"axes": []} if size is None else {"axes": [], "max_file_size": size}
        return self.plan({"reshard": 1, "source": {"axes": []}, "target": target, "tensors": [{"match": "*"}]})

    def test_a_set_is_read_through_its_index(self):
        names = list(self.TENSORS)
        source = self.hub({"model-00001-of-00002.safetensors": {n: self.TENSORS[n] for n in names[:2]},
                           "model-00002-of-00002.safetensors": {n: self.TENSORS[n] for n in names[2:]}})
        self.assert_full(self.convert_everywhere(self.full_plan(), source), self.TENSORS)

    def test_a_full_target_beyond_the_limit_becomes_a_numbered_set_in_name_order(self):
        target = self.convert_everywhere(self.full_plan("4KiB"), self.full(self.TENSORS))
        first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
        self.assertEqual(set(os.listdir(target)), {first, second, "model.safetensors.index.json", "reshard.json"})
        self.assertEqual(read_safetensors(target / first), {"A": self.TENSORS["A"], "B": self.TENSORS["B"]})
        self.assertEqual(read_safetensors(target / second), {"D": self.TENSORS["D"], "C": self.TENSORS["C"]})
        index = json.loads((target / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"], {"total_size": 3072 + 640 + 448 + 1536, "total_parameters": 768 + 320 + 448 + 384})
        self.assertEqual(index["weight_map"], {"A": first, "B": first, "C": second, "D": second})
        for file in (first, second):
            self.assertEqual(read_metadata(target / file)["format"], "pt")

    def test_a_set_with_padding_counts_what_its_files_hold_and_is_verified(self):
        a, b = iota(5, 4), iota(5, 4, first=50)
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=1"], "max_file_size": 100}, "tensors": [
            {"match": "a", "target": {"shard": {"0": {"axes": "tp", "size": 5, "pad_total": 4}}}}, {"match": "b"}]})
        target = self.convert(plan, self.full({"a": a, "b": b}), "--verify")
        files = [read_safetensors(target / f"model-0000{part}-of-00002.safetensors") for part in (1, 2)]
        self.assertEqual(files, [{"a": Tensor("F32", (8, 4), a.data + bytes(48))}, {"b": b}])
        index = json.loads((target / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"], {"total_size": 128 + 80, "total_parameters": 32 + 20})
        self.assert_exit(self.reshard("verify", target), 0)

    def test_the_set_is_a_source_again(self):
        target = self.convert(self.full_plan("4KiB"), self.full(self.TENSORS))
        self.assert_full(self.convert(self.full_plan(), target), self.TENSORS)

    def test_a_tensor_larger_than_the_limit_has_a_file_of_its_own(self):
        tensors = {"a": iota(200), "b": iota(1000), "c": iota(200)}
        target = self.convert(self.full_plan("1KiB"), self.full(tensors))
        self.assertEqual([sorted(read_safetensors(target / f"model-0000{i}-of-00003.safetensors")) for i in (1, 2, 3)], [["a"], ["b"], ["c"]])

    def test_what_fits_one_file_is_one_file_without_an_index(self):
        self.assert_full(self.convert(self.full_plan("5GiB"), self.full(self.TENSORS)), self.TENSORS)

    def test_a_single_file_and_an_index_together_are_refused(self):
        source = self.hub({"model-00001-of-00001.safetensors": {"w": iota(2)}})
        write_safetensors(source / "model.safetensors", {"w": iota(2)})
        self.refuse(self.full_plan(), source, 4, "E_FORMAT", words=("model.safetensors", "index"))

    def test_files_of_two_formats_are_refused(self):
        source = self.full({"w": iota(2)})
        (source / "model.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
        self.refuse(self.full_plan(), source, 4, "E_FORMAT", words=("model.safetensors", "model.h5"))

    def test_links_into_a_blob_folder_are_followed(self):
        blobs = self.dir / "blobs"
        blobs.mkdir()
        (blobs / "abc").write_bytes(safetensors_bytes(self.TENSORS))
        source = self.dir / "source"
        source.mkdir()
        (source / "model.safetensors").symlink_to("../blobs/abc")
        self.assert_full(self.convert(self.full_plan(), source), self.TENSORS)


class SideFiles(Case):
    def source_with_side_files(self):
        source = self.full({"w": iota(4)})
        (source / "config.json").write_text('{"hidden_size": 4}')
        (source / "tokenizer.model").write_bytes(bytes(range(256)))
        (source / "subfolder").mkdir()
        (source / "subfolder" / "note.txt").write_text("not at the top level")
        return source

    def test_side_files_are_left_and_named(self):
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.source_with_side_files())
        self.assert_exit(result, 0)
        self.assert_files(self.target, [{"w": iota(2)}, {"w": iota(2, first=2)}])
        self.assertIn("config.json", result.out + result.err)

    def test_side_files_are_copied_on_demand_and_listed_in_the_manifest(self):
        source = self.source_with_side_files()
        target = self.convert_everywhere(self.tp_plan(0, 2, ("w", {"0": "tp"})), source, "--copy-side-files")
        self.assertEqual(set(os.listdir(target)), {"rank-00000.safetensors", "rank-00001.safetensors", "reshard.json", "config.json", "tokenizer.model"})
        for name in ("config.json", "tokenizer.model"):
            self.assertEqual((target / name).read_bytes(), (source / name).read_bytes())
        self.assertLessEqual({"config.json", "tokenizer.model"}, set(json.loads((target / "reshard.json").read_text())["file_list"]))

    def test_the_source_manifest_is_no_side_file(self):
        first = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}))
        plan = self.tp_plan(2, 1, ("w", {"0": "tp"}))
        target = self.convert(plan, first, "--copy-side-files")
        self.assertEqual(json.loads((target / "reshard.json").read_text())["axes"], ["tp=1"])


class Hdf5(Case):
    def hdf5_plan(self, source, target, *rules, **top):
        plan = json.loads(self.tp_plan(source, target, *rules, **top).read_text())
        plan["target"]["format"] = "hdf5"
        return self.plan(plan)

    def test_hdf5_and_back_is_the_same_without_any_other_library(self):
        tensors = {"a.w": noise("a", 6, 4, dtype="BF16"), "b/c": noise("b", 6, 2), "s": iota(), "e": iota(0, 3), "m": Tensor("BOOL", (6, 2), bytes([0, 1] * 6)),
                   "f8": noise("f8", 6, 2, dtype="F8_E4M3"), "f5": noise("f5", 6, 2, dtype="F8_E5M2"), "h": noise("h", 6, 2, dtype="F16")}
        rules = [(name, {"0": "tp"} if value.shape[:1] == (6,) else None) for name, value in tensors.items()]
        middle = self.convert_everywhere(self.hdf5_plan(0, 2, *rules), self.full(tensors))
        self.assertEqual(set(os.listdir(middle)), {"rank-00000.h5", "rank-00001.h5", "reshard.json"})
        back = self.plan({"reshard": 1, "target": {"axes": [], "format": "safetensors"}, "tensors": [{"match": "**"}]})
        self.assert_full(self.convert_everywhere(back, middle), tensors)

    @needs_h5py
    def test_datasets_names_attributes_and_bytes(self):
        tensors = {"model.w": noise("w", 4, 2, dtype="BF16"), "dense/kernel": noise("k", 4, 3), "n": iota(4, dtype="I64"), "s": iota()}
        target = self.convert_everywhere(self.hdf5_plan(0, 2, ("s", None), ("**", {"0": "tp"})), self.full(tensors))
        for rank in (0, 1):
            path = target / f"rank-0000{rank}.h5"
            self.assertEqual(read_hdf5(path), {name: even(value, 0, 2)[rank] if value.shape else value for name, value in tensors.items()})
            with h5py.File(path, "r") as file:
                self.assertEqual({key: [value.decode() if isinstance(value, bytes) else value for value in file.attrs[key]] if key == "axes" else file.attrs[key]
                                  for key in ("axes", "rank")}, {"axes": ["tp=2"], "rank": rank})
                self.assertIn("reshard_version", file.attrs)
                self.assertEqual(list(file["model.w"].attrs["global_shape"]), [4, 2])
                self.assertEqual(file["model.w"].attrs["global_shape"].dtype, "int64")
                dtype = file["model.w"].attrs["dtype"]
                self.assertEqual(dtype.decode() if isinstance(dtype, bytes) else dtype, "bf16")
                self.assertEqual(file["dense"]["kernel"].shape, (2, 3))
                self.assertEqual(file["n"].dtype, "int64")

    @needs_h5py
    def test_bf16_reads_as_numbers(self):
        target = self.convert(self.hdf5_plan(0, 1, ("w", None)), self.full({"w": Tensor("BF16", (4,), bytes.fromhex("803f20c000004040"))}))
        with h5py.File(target / "model.h5", "r") as file:
            self.assertEqual([float(x) for x in file["w"].astype("f4")[:]], [1.0, -2.5, 0.0, 3.0])

    @needs_h5py
    def test_bool_is_the_enumeration_of_h5py(self):
        target = self.convert(self.hdf5_plan(0, 1, ("w", None)), self.full({"w": Tensor("BOOL", (3,), bytes([1, 0, 1]))}))
        with h5py.File(target / "model.h5", "r") as file:
            self.assertEqual(file["w"].dtype, bool)
            self.assertEqual([bool(x) for x in file["w"][:]], [True, False, True])

    @needs_h5py
    def test_large_datasets_are_aligned_and_contiguous(self):
        target = self.convert(self.hdf5_plan(0, 1, ("*", None)), self.full({"a": noise("a", 3), "big": noise("big", 20000), "large": noise("large", 30000)}))
        with h5py.File(target / "model.h5", "r") as file:
            for name in ("big", "large"):
                self.assertIsNone(file[name].chunks)
                self.assertEqual(file[name].id.get_offset() % 4096, 0)

    @needs_h5py
    def test_files_of_h5py_are_read_contiguous_chunked_compressed_and_compact(self):
        source = self.dir / "source"
        source.mkdir()
        w = noise("w", 40, 30, dtype="F64")
        values = numpy.frombuffer(w.data, "<f8").reshape(40, 30)
        with h5py.File(source / "model.h5", "w") as file:
            file["contiguous"] = values
            file.create_dataset("chunked", data=values, chunks=(7, 11))
            file.create_dataset("packed/gzip", data=values, chunks=(16, 16), compression="gzip", shuffle=True, fletcher32=True)
            file.create_dataset("big_endian", data=values.astype(">f8"))
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_layout(h5py.h5d.COMPACT)
            compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4, 30)), plist)
            compact.write(h5py.h5s.ALL, h5py.h5s.ALL, values[:4].copy())
        plan = json.loads(self.tp_plan(0, 2, ("**", {"1": "tp"})).read_text())
        plan["target"]["format"] = "safetensors"
        target = self.convert_everywhere(self.plan(plan), source)
        halves = even(w, 1, 2)
        self.assert_files(target, [{"contiguous": half, "chunked": half, "packed/gzip": half, "big_endian": half, "compact": take(half, range(4))} for half in halves])

    @needs_h5py
    def test_what_one_rank_has_otherwise_than_another_is_told(self):
        source = self.dir / "source"
        source.mkdir()
        def ranks(write_second):
            for rank, write in enumerate((lambda file: file.create_dataset("w", data=numpy.arange(2, dtype="<f4")), write_second)):
                with h5py.File(source / f"rank-{rank:05}.h5", "w") as file:
                    write(file)
                    file.attrs["reshard_version"] = "0.1.0"
                    file["w"].attrs["global_shape"] = numpy.array([4 + 2 * rank], "i8")
        plan = self.tp_plan(2, 1, ("w", {"0": "tp"}))
        ranks(lambda file: file.create_dataset("w", data=numpy.zeros(2, "V4")))
        self.refuse(plan, source, 4, "E_DTYPE|E_UNSUPPORTED", words=("'w'", "rank-00001.h5"))
        ranks(lambda file: file.create_dataset("w", data=numpy.arange(2, dtype="<f4")))
        self.refuse(plan, source, 4, "E_SHAPE", words=("'w'", "global shape", "[4]", "[6]"))

    @needs_h5py
    def test_names_that_are_not_utf8_are_refused_or_renamed(self):
        source = self.dir / "source"
        source.mkdir()
        with h5py.File(source / "model.h5", "w") as file:
            file.create_dataset(b"a\xff", data=numpy.arange(4, dtype="<f4"))
        for name in ("hdf5", "safetensors"):
            plan = {"reshard": 1, "target": {"axes": ["tp=2"], "format": name}, "tensors": [{"match": "a*", "shard": {"0": "tp"}}]}
            with self.subTest(name):
                self.refuse(self.plan(plan), source, 4, "E_UNSUPPORTED", words=["a\\xff", "UTF-8", "rename"])
                plan["tensors"][0]["rename"] = "b"
                self.assert_exit(self.run_plan(self.plan(plan), source), 0)

    def test_target_format_on_the_command_line_wins(self):
        target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}), "--target-format", "hdf5")
        self.assertEqual(set(os.listdir(target)), {"rank-00000.h5", "rank-00001.h5", "reshard.json"})

    def test_hdf5_targets_are_reproducible(self):
        source = self.full({"w": iota(4), "v": noise("v", 100, 300)})
        plan = self.hdf5_plan(0, 2, ("w", {"0": "tp"}), ("v", {"1": "tp"}))
        self.assertEqual(snapshot(self.convert(plan, source)), snapshot(self.convert(plan, source)))


class Conversions(Case):
    def converted(self, value, dtype):
        target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"}, {"dtype": dtype})), self.full({"w": value}))
        files = self.files(target)
        return files[0]["w"], files[1]["w"]

    def test_rounding_to_nearest_even_overflow_subnormals_and_nan(self):
        # f32 words and the bf16 words they must become.
        cases = [(0x3F800000, 0x3F80), (0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x3F808001, 0x3F81), (0x7F7FFFFF, 0x7F80), (0xFF7FFFFF, 0xFF80),
                 (0x00000001, 0x0000), (0x00010000, 0x0001), (0x80018000, 0x8002), (0x7F800000, 0x7F80), (0x7FC12345, 0x7FC1), (0xFF812345, 0xFFC1)]
        value = Tensor("F32", (len(cases),), struct.pack(f"<{len(cases)}I", *(word for word, _ in cases)))
        low, high = self.converted(value, "bf16")
        self.assertEqual([hex(word) for word in struct.unpack(f"<{len(cases)}H", low.data + high.data)], [hex(word) for _, word in cases])
        self.assertEqual(low.dtype, "BF16")

    def test_widening_is_exact(self):
        value = noise("w", 256, dtype="F16")
        low, high = self.converted(value, "f64")
        numbers = struct.unpack("<256e", value.data)
        self.assertEqual([struct.pack("<d", x) for x in low.numbers() + high.numbers() if x == x], [struct.pack("<d", x) for x in numbers if x == x])

    def test_f64_to_f16_rounds_once(self):
        # 1 + 2^-11 + 2^-30: through f32 it would round to 1 + 2^-11 first, and then to even, 1.
        value = Tensor("F64", (2,), struct.pack("<2d", 1 + 2**-11 + 2**-30, 65520.0))
        low, high = self.converted(value, "f16")
        self.assertEqual((low.data, high.data), (struct.pack("<H", 0x3C01), struct.pack("<H", 0x7C00)))

    def test_integers_are_not_converted(self):
        self.refuse(self.tp_plan(0, 2, ("w", {"0": "tp"}, {"dtype": "f32"})), self.full({"w": iota(4, dtype="I32")}), 4, "E_DTYPE", words=("'w'",))

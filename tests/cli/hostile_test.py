"""Broken and hostile inputs: refused with the right code, quickly, in little memory, at one and at several processes alike."""

import json
import io
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import zipfile

from support import (SANITIZED, Case, command, environment, execute, h5py, iota, needs_h5py, read_safetensors, safetensors_bytes, snapshot,
                     write_safetensors)


# Runs a command and writes the most KiB that it or a child of it had resident.
MEASURED = """
import pathlib, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
pathlib.Path(sys.argv[1]).write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


def header_only(header, body=b""):
    """A safetensors file with this header text."""
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header)) + header + body


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return json.dumps({"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)})


class Bounded(Case):
    def inspect_in_little_memory(self, source, *options, **how):
        """`inspect`, which must do with the size of the input and 256 MiB."""
        measure = self.dir / "kib"
        result = execute([sys.executable, "-c", MEASURED, measure, *command("inspect", source, *options)], **how)
        if not SANITIZED:
            size = sum(path.stat().st_size for path in (source.rglob("*") if source.is_dir() else [source]) if path.is_file())
            self.assertLess(int(measure.read_text()) * 1024, size + (256 << 20), "bytes of resident memory")
        return result


class Hostile(Bounded):
    """Every input must be refused by `inspect` and by `run`, and a test's first one with one good rank beside it, too."""

    def setUp(self):
        super().setUp()
        self.beside_a_good_rank = False

    def refuse_file(self, content, code="E_FORMAT", words=(), exit_code=4):
        source = self.dir / f"source-{self.targets}"
        source.mkdir()
        (source / "model.safetensors").write_bytes(content)
        inspect = self.inspect_in_little_memory(source)
        self.assert_refused(inspect, exit_code, code, words=("model.safetensors", *words))
        self.assertLess(inspect.seconds, 2)
        self.refuse(self.tp_plan(0, 1, ("**", None)), source, exit_code, code, words=("model.safetensors", *words))
        self.assertEqual(self.reshard("inspect", source).err, inspect.err, "the same line on every run")
        # One process alone can see the fault; how the others learn of it is the same for all faults of one kind.
        if self.beside_a_good_rank:
            return
        self.beside_a_good_rank = True
        pair = self.dir / f"pair-{self.targets}"
        pair.mkdir()
        write_safetensors(pair / "rank-00000.safetensors", {"w": iota(2)})
        (pair / "rank-00001.safetensors").write_bytes(content)
        result = self.refuse(self.tp_plan(2, 1, ("**", None)), pair, exit_code, code, words=("rank-00001.safetensors",), np=2)
        self.assertLess(result.seconds, 10)


class SafetensorsFiles(Hostile):
    def test_BI_01_files_too_short_for_a_header(self):
        for content in (b"", bytes(7), struct.pack("<Q", 2)):
            self.refuse_file(content, words=(str(len(content)),))

    def test_BI_02_header_lengths_beyond_every_limit(self):
        for length in (2**63, 2**64 - 1, 100_000_001, 2**40):
            self.refuse_file(struct.pack("<Q", length) + b"{}" + bytes(100), words=(str(length),))

    def test_BI_03_a_header_one_byte_longer_than_the_file(self):
        content = safetensors_bytes({"w": iota(2)})
        self.refuse_file(struct.pack("<Q", len(content) - 7) + content[8:])

    def test_BI_04_headers_that_do_not_begin_with_a_brace(self):
        for header in (b" {}", b"[]", b"\xef\xbb\xbf{}", b"", b"{", b"{}x", b"\x00", b"{\"a\": NaN}"):
            self.refuse_file(header_only(header))

    def test_BI_05_names_and_keys_given_twice(self):
        self.refuse_file(header_only(f'{{"w": {entry()}, "w": {entry()}}}', bytes(8)), "E_FORMAT|E_DUP_KEY", words=("w",))
        self.refuse_file(header_only(f'{{"__metadata__": {{}}, "__metadata__": {{}}, "w": {entry()}}}', bytes(8)), "E_FORMAT|E_DUP_KEY", words=("__metadata__",))
        self.refuse_file(header_only('{"w": {"dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', bytes(8)), "E_FORMAT|E_DUP_KEY", words=("dtype",))

    def test_BI_06_ranges_that_do_not_tile_the_buffer(self):
        for header, body in ((f'{{"k": {entry(shape=(4,), offsets=(0, 16))}, "v": {entry(shape=(4,), offsets=(0, 16))}}}', 16),
                             (f'{{"k": {entry(shape=(4,), offsets=(0, 16))}, "v": {entry(shape=(4,), offsets=(12, 28))}}}', 28),
                             (f'{{"k": {entry(offsets=(0, 8))}, "v": {entry(offsets=(12, 20))}}}', 20),
                             (f'{{"k": {entry(offsets=(4, 12))}}}', 12), (f'{{"k": {entry()}}}', 24), (f'{{"k": {entry()}}}', 7)):
            self.refuse_file(header_only(header, bytes(body)))

    def test_BI_07_unknown_types(self):
        for dtype in ("F9", "f32", "", "F32 "):
            self.refuse_file(header_only(f'{{"w": {entry(dtype)}}}', bytes(8)), "E_FORMAT|E_DTYPE", words=("'w'",))
        self.refuse_file(header_only('{"w": {"shape": [2], "data_offsets": [0, 8]}}', bytes(8)), words=("dtype",))

    def test_BI_08_a_header_nested_a_million_deep(self):
        self.refuse_file(header_only('{"w": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}"))
        self.refuse_file(header_only('{"a":' * 1_000_000 + "1" + "}" * 1_000_000))

    def test_BI_10_metadata_that_is_not_text(self):
        for value in ("1", "{}", "null", '["a"]'):
            self.refuse_file(header_only(f'{{"__metadata__": {{"a": {value}}}, "w": {entry()}}}', bytes(8)), words=("__metadata__",))
        self.refuse_file(header_only(f'{{"__metadata__": 5, "w": {entry()}}}', bytes(8)))

    def test_FMT_2_shapes_and_ranges_that_disagree(self):
        self.refuse_file(header_only(f'{{"t": {entry(shape=(1000, 1000), offsets=(0, 4))}}}', bytes(4)), words=("'t'",))
        self.refuse_file(header_only(f'{{"u": {entry(offsets=(8, 0))}}}', bytes(8)), words=("'u'",))
        self.refuse_file(header_only(f'{{"n": {entry(shape=(2**40, 2**40), offsets=(0, 8))}}}', bytes(8)), "E_FORMAT|E_OVERFLOW", words=("'n'",))
        for bad in ('"shape": [-2]', '"shape": [2.0]', '"shape": ["2"]', '"shape": 2', f'"shape": [{2**64}]'):
            self.refuse_file(header_only('{"w": {"dtype": "F32", ' + bad + ', "data_offsets": [0, 8]}}', bytes(8)), "E_FORMAT|E_OVERFLOW")
        for bad in ("[0]", "[0, 8, 8]", "[0, 8.0]", "[-8, 0]", f"[0, {2**64}]", "{}"):
            self.refuse_file(header_only('{"w": {"dtype": "F32", "shape": [2], "data_offsets": ' + bad + "}}", bytes(8)), "E_FORMAT|E_OVERFLOW")

    def test_unknown_keys_of_a_tensor_and_bad_text(self):
        self.refuse_file(header_only(b'{"w\xff": ' + entry().encode() + b"}", bytes(8)))
        self.refuse_file(header_only('{"w": 5}', bytes(8)))

    def test_FMT_4_the_length_prefix_is_not_believed(self):
        source = self.dir / "source"
        source.mkdir()
        (source / "model.safetensors").write_bytes(struct.pack("<Q", 90_000_000) + b"{" + bytes(1000))
        self.assert_exit(self.inspect_in_little_memory(source), 4)

    def test_FMT_5_order_of_offsets_is_free(self):
        a, b = iota(2), iota(2, first=5)
        source = self.dir / "source"
        source.mkdir()
        (source / "model.safetensors").write_bytes(header_only(f'{{"b": {entry(offsets=(8, 16))}, "a": {entry(offsets=(0, 8))}}}', a.data + b.data))
        self.assert_full(self.convert_everywhere(self.tp_plan(0, 1, ("*", None)), source), {"a": a, "b": b})


class Indexes(Case):
    PLAN = (("**", None),)

    def indexed(self, weight_map):
        source = self.hub({"model-00001-of-00001.safetensors": {"w": iota(2)}}, weight_map=weight_map, name=f"source-{self.targets}")
        write_safetensors(self.dir / "x", {"v": iota(2)})
        return source

    def test_BI_09_files_that_are_no_bare_names(self):
        for name in ("../x", "/etc/passwd", "a/b", "a\\b", "..", ".", "", "x\0y"):
            with self.subTest(name=name):
                self.refuse(self.tp_plan(0, 1, *self.PLAN), self.indexed({"w": "model-00001-of-00001.safetensors", "v": name}), 4, "E_FORMAT|E_LINK",
                            words=("model.safetensors.index.json",))

    def test_BI_09_files_that_are_not_regular(self):
        for kind in ("fifo", "directory", "missing"):
            with self.subTest(kind=kind):
                source = self.indexed({"w": "model-00001-of-00001.safetensors", "v": "other.safetensors"})
                if kind == "fifo":
                    os.mkfifo(source / "other.safetensors")
                elif kind == "directory":
                    (source / "other.safetensors").mkdir()
                for np in (1, 2):
                    result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), source, np=np, timeout=20)
                    self.assertIn(result.code, (4, 5), str(result))
                    self.assertIn("other.safetensors", result.err)
                    self.assertFalse(self.target.exists())

    def test_an_index_that_is_no_index(self):
        for text in ("", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"w": 5}}', '{"weight_map": {"w": "a", "w": "b"}}'):
            with self.subTest(text=text):
                source = self.indexed(None)
                (source / "model.safetensors.index.json").write_text(text)
                self.refuse(self.tp_plan(0, 1, *self.PLAN), source, 4, "E_", words=("model.safetensors.index.json",))

    def test_a_tensor_that_the_mapped_file_does_not_hold(self):
        self.refuse(self.tp_plan(0, 1, *self.PLAN), self.indexed({"w": "model-00001-of-00001.safetensors", "ghost": "model-00001-of-00001.safetensors"}),
                    4, "E_", words=("ghost",))

    def test_a_tensor_in_two_files(self):
        source = self.hub({"model-00001-of-00002.safetensors": {"w": iota(2)}, "model-00002-of-00002.safetensors": {"w": iota(2), "v": iota(2)}})
        self.refuse(self.tp_plan(0, 1, *self.PLAN), source, 4, "E_", words=("w",))

    def test_BI_11_a_wrong_total_size_is_a_warning(self):
        source = self.hub({"model-00001-of-00001.safetensors": {"w": iota(2)}}, total_size=10**15)
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), source)
        self.assert_exit(result, 0)
        self.assertIn("W_INDEX", result.out + result.err)
        self.assert_full(self.target, {"w": iota(2)})

    def test_BI_12_rows_that_are_no_whole_heads(self):
        source = self.full({"q_proj.weight": iota(400, 4)})
        (source / "config.json").write_text(json.dumps({"num_attention_heads": 6, "head_dim": 64}))
        self.refuse(self.tp_plan(0, 2, ("q_proj.weight", {"0": {"axes": "tp", "unit": 64}})), source, 4, "E_UNIT_SPLIT|E_INDIVISIBLE", words=("400", "64"))

    def test_a_dangling_link(self):
        source = self.dir / "source"
        source.mkdir()
        (source / "model.safetensors").symlink_to("nowhere")
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), source)
        self.assert_exit(result, 4)
        self.assertIn("model.safetensors", result.err)


class Names(Case):
    def test_BI_35_names_never_become_paths(self):
        names = ["", "a/b", "../../escape", "/absolute", "new\nline", 'quote"and\\backslash', "tab\t", "ünï", ".", "..", "a//b", "/", "x" * 300]
        tensors = {name: iota(2, first=i) for i, name in enumerate(names)}
        source = self.full(tensors)
        before = snapshot(self.dir)
        self.assert_full(self.convert_everywhere(self.tp_plan(0, 1, ("re:(?s).*", None)), source), tensors)
        self.assertEqual({name for name in snapshot(self.dir) if not name.startswith("target-")} - {"plan.json"}, set(before) - {"plan.json"})

    def test_BI_35_names_survive_hdf5(self):
        names = ["a/b", "a", "../x", "./y", "new\nline", 'q"\\', "a//b", "100%", "ünï", "..", "/lead", "trail/"]
        tensors = {name: iota(2, first=i) for i, name in enumerate(names)}
        middle = self.convert(self.tp_plan(0, 1, ("re:(?s).*", None)), self.full(tensors), "--target-format", "hdf5")
        self.assert_full(self.convert(self.tp_plan(0, 1, ("re:(?s).*", None)), middle, "--target-format", "safetensors"), tensors)

    def test_BI_35_one_line_per_error(self):
        result = self.refuse(self.tp_plan(0, 2, ("re:(?s).*", {"0": "tp"})), self.full({"new\nline": iota(3)}), 4, "E_INDIVISIBLE")
        self.assertEqual(len([line for line in result.err.splitlines() if "new" in line or line.startswith("line")]), 1, result.err)
        self.assertIn("new\\nline", result.err)

    def test_BI_35_a_million_tensors_in_one_file(self):
        count = 1_000_000
        header = "{" + ",".join(f'"layer.{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(count)) + "}"
        source = self.dir / "source"
        source.mkdir()
        body = bytes(i * 7 % 251 for i in range(count))
        (source / "model.safetensors").write_bytes(header_only(header, body))
        result = self.run_plan(self.tp_plan(0, 1, ("**", None)), source, timeout=120)
        self.assert_exit(result, 0)
        written = read_safetensors(self.target / "model.safetensors")
        self.assertEqual(len(written), count)
        self.assertEqual(written["layer.123456"].data, body[123456:123457])


class Hdf5Files(Bounded):
    PLAN = (("**", None),)

    def source_file(self):
        folder = self.dir / f"source-{self.targets}"
        folder.mkdir()
        return folder / "model.h5"

    def refused(self, path, codes="E_", words=(), exit_codes=(4, 5)):
        for np in (1, 2):
            result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent, np=np)
            self.assertIn(result.code, exit_codes, str(result))
            self.assert_error_lines(result, codes)
            for word in ("model.h5", *words):
                self.assertIn(word, result.err)
            self.assertFalse(self.target.exists())

    @needs_h5py
    def test_BI_27_links_out_of_the_folder(self):
        outside = self.dir / "outside.h5"
        with h5py.File(outside, "w") as file:
            file["w"] = [1.0, 2.0]
        for kind in ("external link", "external storage", "virtual"):
            with self.subTest(kind=kind):
                path = self.source_file()
                with h5py.File(path, "w") as file:
                    file["good"] = [1.0]
                    if kind == "external link":
                        file["w"] = h5py.ExternalLink("../outside.h5", "/w")
                    elif kind == "external storage":
                        file.create_dataset("w", (2,), "f8", external=[("../outside.h5", 0, 16)])
                    else:
                        layout = h5py.VirtualLayout((2,), "f8")
                        layout[:] = h5py.VirtualSource("../outside.h5", "w", (2,))
                        file.create_virtual_dataset("w", layout)
                self.refused(path, "E_LINK|E_UNSUPPORTED", words=("w",), exit_codes=(4,))
                # --allow-external follows links inside the source directory only.
                result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent, "--allow-external")
                self.assert_refused(result, 4, "E_LINK")

    @needs_h5py
    def test_BI_27_links_inside_the_folder(self):
        """Refused as they are, followed with --allow-external; a soft link is a name inside the file."""
        for kind in ("external link", "external storage", "virtual", "soft"):
            with self.subTest(kind=kind):
                path = self.source_file()
                with h5py.File(path.with_name("part.h5"), "w") as file:
                    file["w"] = [1.0, 2.0]
                    offset = file["w"].id.get_offset()
                with h5py.File(path, "w") as file:
                    if kind == "external link":
                        file["w"] = h5py.ExternalLink("part.h5", "/w")
                    elif kind == "external storage":
                        file.create_dataset("w", (2,), "f8", external=[("part.h5", offset, 16)])
                    elif kind == "soft":
                        file["v"] = [1.0, 2.0]
                        file["w"] = h5py.SoftLink("/v")
                    else:
                        layout = h5py.VirtualLayout((2,), "f8")
                        layout[:] = h5py.VirtualSource("part.h5", "w", (2,))
                        file.create_virtual_dataset("w", layout)
                plan = self.tp_plan(0, 1, ("w", None), unmatched="drop")
                if kind != "soft":
                    self.assert_refused(self.run_plan(plan, path), 4, "E_LINK", words=("'w'", "--allow-external"))
                for np in (1, 2) if kind == "virtual" else (1,):
                    result = self.run_plan(plan, path, "--allow-external", "--target-format", "safetensors", np=np)
                    self.assert_exit(result, 0)
                    self.assertEqual(read_safetensors(self.target / "model.safetensors")["w"].numbers(), (1.0, 2.0))

    @needs_h5py
    def test_BI_27_soft_links_that_lead_nowhere_or_round(self):
        for target in ("/nothing", "/w", "../../outside"):
            path = self.source_file()
            with h5py.File(path, "w") as file:
                file["good"] = [1.0]
                file["w"] = h5py.SoftLink(target)
            self.refused(path, "E_LINK", words=("'w'",), exit_codes=(4,))

    @needs_h5py
    def test_BI_27_a_virtual_dataset_with_a_missing_member(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:
            layout = h5py.VirtualLayout((4, 2), "f4")
            for i in (0, 1):
                layout[2 * i:2 * i + 2] = h5py.VirtualSource(f"p{i}.h5", "w", (2, 2))
            file.create_virtual_dataset("w", layout)
        with h5py.File(path.parent / "p0.h5", "w") as file:
            file["w"] = [[1.0, 2.0], [3.0, 4.0]]
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path, "--allow-external")
        self.assert_exit(result, 4)
        self.assertIn("p1.h5", result.err)

    @needs_h5py
    def test_BI_28_a_huge_dataset_that_was_never_written(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:
            file.create_dataset("w", (10**6, 10**6, 10**6), "f4", chunks=(64, 64, 64), compression="gzip")
        self.refused(path, words=("w",))
        self.assert_exit(self.inspect_in_little_memory(path.parent), 0)

    @needs_h5py
    def test_BI_28_an_unknown_filter_and_no_plugins(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((4,))
            plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
            dataset = h5py.h5d.create(file.id, b"w", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8,)), plist)
            for offset in (0, 4):
                dataset.write_direct_chunk((offset,), bytes(16), 0)
        plugins = self.dir / "plugins"
        plugins.mkdir()
        # A library that leaves a file when it is loaded.
        trace = self.dir / "loaded"
        source = self.dir / "plugin.c"
        source.write_text(f'#include <stdio.h>\n__attribute__((constructor)) static void load(void) {{ FILE *f = fopen("{trace}", "w"); if (f) fclose(f); }}\n')
        if shutil.which("cc"):
            subprocess.run(["cc", "-shared", "-fPIC", "-o", plugins / "libplugin.so", source], check=True)
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent, env=environment(HDF5_PLUGIN_PATH=str(plugins)))
        self.assert_refused(result, 4, "E_UNSUPPORTED", words=("32015",))
        self.assertFalse(trace.exists())

    @needs_h5py
    def test_BI_29_a_file_cut_short_or_left_open_or_flipped(self):
        path = self.source_file()
        with h5py.File(path, "w", libver="latest") as file:
            for i in range(20):
                file.create_dataset(f"group/{i}", data=[float(i)] * 500, chunks=(100,), compression="gzip")
        content = path.read_bytes()
        path.write_bytes(content[:len(content) * 6 // 10])
        self.refused(path)
        # The writer's status flag, as a killed writer leaves it: superblock version 2 or 3, byte 11.
        path.write_bytes(content[:11] + b"\x05" + content[12:])
        result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent)
        self.assertIn(result.code, (4, 5), str(result))
        # Random flips: an error or a result, never a crash.
        for seed in range(20):
            flipped = bytearray(content)
            generator = random.Random(seed)
            for _ in range(8):
                flipped[generator.randrange(min(len(flipped), 65536))] ^= 1 << generator.randrange(8)
            path.write_bytes(flipped)
            result = self.run_plan(self.tp_plan(0, 1, *self.PLAN), path.parent)
            self.assertIn(result.code, (0, 4, 5), f"seed {seed}\n{result}")

    @needs_h5py
    def test_BI_29_one_bit_of_the_first_64_KiB(self):
        path = self.source_file()
        with h5py.File(path, "w") as file:  # the oldest format: no checksums, symbol tables, B-trees
            for i in range(8):
                file.create_dataset(f"group/{i}", data=[float(i)] * 300, chunks=(100,), compression="gzip")
                file[f"plain/{i}"] = [float(i)] * 4
                file[f"plain/{i}"].attrs["name"] = "a" * i
        content = path.read_bytes()
        generator = random.Random(29)
        for number in range(250):
            flipped = bytearray(content)
            at = generator.randrange(min(len(content), 65536))
            flipped[at] ^= 1 << generator.randrange(8)
            path.write_bytes(flipped)
            result = self.reshard("inspect", path.parent, timeout=20)
            self.assertIn(result.code, (0, 4), f"byte {at}\n{result}")
            if result.code:
                self.assert_error_lines(result, "E_FORMAT|E_UNSUPPORTED|E_LINK|E_DTYPE|E_OVERFLOW|E_SHAPE")

    def test_what_only_looks_like_hdf5(self):
        path = self.source_file()
        for content in (b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(2000), b"not hdf5 at all" * 50):
            path.write_bytes(content)
            self.refused(path)


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class OtherFormats(Bounded):
    """BI-13 to BI-26, BI-30, BI-31: torch archives, distributed checkpoints, npy and GGUF are not read; the tool says so."""

    def refused(self, files, *words, several=False):
        source = self.dir / f"source-{self.targets}"
        source.mkdir()
        for name, content in files.items():
            (source / name).write_bytes(content)
        inspect = self.inspect_in_little_memory(source)
        self.assert_refused(inspect, 4, "E_", words=(str(source), *words))
        for np in (1, 2) if several else (1,):
            self.refuse(self.tp_plan(0, 1, ("**", None)), source, 4, "E_", words=(str(source), *words), np=np)
        for name in files:
            alone = self.reshard("inspect", source / name)
            self.assert_refused(alone, 4, "E_FORMAT", words=(name, "no file of a known format"))
        self.assertEqual({name: (source / name).read_bytes() for name in files}, files)

    def archive(self, members, compression=zipfile.ZIP_STORED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", compression) as file:
            for name, content in members:
                file.writestr(name, content)
        return out.getvalue()

    def test_BI_13_BI_14_BI_15_pickles_are_never_run(self):
        trap = pickle.dumps(Trap(self.dir / "sprung"))
        for name in (".metadata", "common.pt", "pytorch_model.bin"):
            self.refused({name: trap})
        self.refused({"model.pt": self.archive([("archive/data.pkl", trap)])})
        self.refused({"model.pt": trap[:-3]})
        self.assertFalse((self.dir / "sprung").exists())

    def test_BI_16_BI_17_BI_18_BI_19_BI_20_torch_archives(self):
        for members in ([("archive/data.pkl", b"a"), ("archive/data.pkl", b"b")], [("archive/byteorder", b"big")], [("archive/data/0", bytes(16))]):
            self.refused({"model.pt": self.archive(members)})
        self.refused({"weights.npz": self.archive([("w.npy", bytes(1_000_000))], zipfile.ZIP_DEFLATED)})

    def test_BI_21_BI_22_BI_23_BI_24_BI_25_distributed_checkpoints(self):
        self.refused({".metadata": pickle.dumps({}), "__0_0.distcp": bytes(64), "__1_0.distcp": b""}, several=True)
        self.refused({"metadata.json": b"{}", "__0_0.distcp": bytes(64)})

    def test_BI_26_a_megatron_directory(self):
        self.refused({"latest_checkpointed_iteration.txt": b"100", "model_optim_rng.pt": self.archive([("archive/data.pkl", b"N.")])})

    def test_BI_30_BI_31_npy_and_GGUF(self):
        for dtype in ("|O", "<V2"):
            header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (2,), }}".ljust(117).encode() + b"\n"
            self.refused({"w.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(16)})
        self.refused({"model.gguf": b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + bytes(64)})

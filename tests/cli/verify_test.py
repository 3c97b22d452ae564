"""`reshard verify` and `run --verify`: what is found in files that changed after they were written, and that nothing else is.
scripts/crc64.py, which checks digests without reshard."""

import importlib.util
import json
import os
import pathlib
import shutil
import sys

from support import REPOSITORY, Case, crc64, environment, execute, needs_h5py, read_header, read_safetensors, snapshot
from tensors import iota, noise, tensor

FORMATS = (("safetensors", "rank-{:05}.safetensors"), ("hdf5", "rank-{:05}.h5"))


def flip(path, at):
    """Changes one bit of the byte at this offset."""
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def place_of(path, name):
    """Offset of the tensor's bytes in the file."""
    if path.suffix == ".h5":
        import h5py
        with h5py.File(path) as file:
            return file[name].id.get_offset()
    header, start = read_header(path)
    return start + header[name]["data_offsets"][0]


class VerifyCase(Case):
    def verify(self, target, np=1, code=None):
        """(code, file, tensor) of every problem."""
        result = self.reshard("verify", target, "--report", "json", np=np)
        self.assert_exit(result, code if code is not None else 1)
        report = result.json()
        self.assertEqual((report["schema"], report["version"]), ("reshard.verify", 1))
        self.assertEqual(list(report), ["schema", "version", "files", "tensors", "bytes", "problems"])
        for problem in report["problems"]:
            self.assertEqual(list(problem), ["code", "file", "tensor", "expected", "found"])
            self.assertNotEqual(problem["expected"], problem["found"])
        self.problems = report["problems"]
        self.counts = (report["files"], report["tensors"])
        return [(problem["code"], problem["file"], problem["tensor"]) for problem in report["problems"]]

    def assert_clean(self, target, files=None, tensors=None):
        for np in (1, 2, 3):
            self.assertEqual(self.verify(target, np=np, code=0), [])
            if files is not None:
                self.assertEqual(self.counts, (files, tensors))

    def copy(self, target):
        self.targets += 1
        return pathlib.Path(shutil.copytree(target, self.dir / f"copy-{self.targets}"))

    def change_manifest(self, target, change):
        path = target / "reshard.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))


class Finished(VerifyCase):
    """Targets that are as they were written, of every kind of layout and file."""

    def both_formats(self, plan, source, files, tensors):
        for name, _ in FORMATS:
            with self.subTest(format=name):
                self.assert_clean(self.convert(plan, source, "--target-format", name, "--verify", np=2), files, tensors)

    def test_rows_columns_replicas_scalars_and_empty_tensors(self):
        source = self.full({"w": noise("w", 12, 10), "c": noise("c", 6, 8, dtype="BF16"), "n": noise("n", 5, dtype="U8"), "s": iota(),
                            "e": iota(0, 4)})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [
            {"match": "w", "shard": {"0": "tp"}}, {"match": "c", "shard": {"1": "tp"}}, {"match": "*"}]})
        self.both_formats(plan, source, 4, 5)

    def test_padding_fused_parts_uneven_and_repeated_pieces(self):
        source = self.full({"vocab": noise("v", 101, 3), "qkv": noise("qkv", 24, 4), "uneven": noise("u", 10, 7), "mlp": noise("m", 24, 5)})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["gtp=3", "tp=4"]}, "tensors": [
            {"match": "vocab", "shard": {"0": "tp"}, "target": {"shard": {"0": {"pad_total": 8, "fill": "last"}}}},
            {"match": "qkv", "shard": {"0": {"axes": "tp", "unit": 4, "segments": [16, 4, 4], "fallback": "repeat"}}},
            {"match": "uneven", "shard": {"0": {"axes": "tp", "split": "chunk"}, "1": {"axes": "gtp", "split": "balanced"}}},
            {"match": "mlp", "shard": {"0": {"axes": ["tp", "gtp"], "pad_to": 4}}}]})  # 6 rows of a tp rank, padded to 12
        self.both_formats(plan, source, 12, 4)

    def test_groups_views_owners_and_local_numbering(self):
        source = self.full({f"layers.{i}.experts.{e}.{suffix}": value for i in range(4) for e in range(4) for suffix, value in
                            (("weight", noise(f"w{i}{e}", 8, 6)), ("scale", noise(f"s{i}{e}", 4, 2)))})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["pp=2", "tp=4"], "views": {"expert": ["pp=2", "ep=2", "etp=2"]}},
                          "tensors": [{"match": "layers.*.experts.*", "view": "expert", "members": {"weight": "out in", "scale": "out/2 in/3"},
                                       "target": {"owner": {"pp": {"index": "$1", "count": 4, "numbering": "local"}, "ep": "$2/4"}},
                                       "shard": {"out": "etp"}}]})
        self.both_formats(plan, source, 8, 32)

    def test_sequence_layouts_and_packed_sequences(self):
        source = self.full({"h": noise("h", 16, 3), "s": noise("s", 16, 2), "p": noise("p", 14, 2), "cu": tensor("I32", (4,), (0, 5, 6, 14))})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["cp=2", "tp=2"]}, "tensors": [
            {"match": "h", "target": {"shard": {"0": {"axes": ["cp", "tp"], "layout": "zigzag"}}}},
            {"match": "s", "target": {"shard": {"0": {"axes": "cp", "layout": "striped", "block": 2}}}},
            {"match": "p", "target": {"shard": {"0": {"axes": ["cp", "tp"], "layout": "zigzag", "packed": {"cu_seqlens": "cu"}, "pad_value": 7}}}},
            {"match": "cu"}]})
        self.both_formats(plan, source, 4, 4)

    def test_a_template_folders_permuted_ranks_and_files_that_replicas_share(self):
        source = self.full({"w": noise("w", 8, 4)})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=2", "dp=2"], "ranks": [3, 1, 2, 0], "files": "mp_{tp:02}/model.h5", "format": "hdf5"},
                          "tensors": [{"match": "w", "shard": {"0": "tp"}}]})
        self.assert_clean(self.convert(plan, source, "--verify"), 2, 1)

    def test_a_numbered_set_and_side_files(self):
        source = self.full({"a": noise("a", 300), "b": noise("b", 300), "c": noise("c", 300)})
        (source / "config.json").write_text("{}")
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "2KiB"}, "tensors": [{"match": "*"}]})
        self.assert_clean(self.convert(plan, source, "--verify", "--copy-side-files"), 5, 3)

    def test_a_target_larger_than_a_piece_is_read(self):
        w = noise("large", 3, 1_500_000, dtype="U8")
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["tp=4"]}, "tensors": [{"match": "w", "shard": {"1": "tp"}}]})
        target = self.convert(plan, self.full({"w": w}), "--verify", "--memory", "300KiB")
        self.assert_clean(target, 4, 1)
        flip(target / "rank-00003.safetensors", place_of(target / "rank-00003.safetensors", "w") + 1_100_000)
        for np in (1, 3):
            self.assertEqual(self.verify(target, np=np), [("E_DIGEST", "rank-00003.safetensors", ""), ("E_DIGEST", "rank-00003.safetensors", "w")])


class Changed(VerifyCase):
    """One change to a target of dp=2, tp=2 with padding: what is found, at every number of processes."""

    def make_target(self, file_format="safetensors"):
        source = self.full({"w": noise("w", 8, 4), "v": noise("v", 10, 2), "n": noise("n", 3)})
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["dp=2", "tp=2"]}, "tensors": [
            {"match": "w", "shard": {"1": "tp"}}, {"match": "v", "shard": {"0": "tp"}, "target": {"shard": {"0": {"pad_total": 8}}}}, {"match": "n"}]})
        return self.convert(plan, source, "--target-format", file_format)

    def assert_problems(self, target, expected):
        for np in (1, 3):
            self.assertEqual(self.verify(target, np=np), expected, f"{np} processes")

    def in_both_formats(self, rank, change, *expected):
        """`change` is called with the path of a rank's file; `expected`: (code, tensor) in that file."""
        for name, template in FORMATS:
            with self.subTest(format=name):
                target = self.make_target(name)
                path = target / template.format(rank)
                change(path)
                self.assert_problems(target, [(code, path.name, found) for code, found in expected])

    @needs_h5py
    def test_a_bit_of_a_sharded_tensor_that_replicas_hold_too(self):
        for rank in (0, 3):
            self.in_both_formats(rank, lambda path: flip(path, place_of(path, "w") + 9), ("E_DIGEST", ""), ("E_DIGEST", "w"))

    @needs_h5py
    def test_a_bit_of_a_tensor_that_every_rank_holds(self):
        for rank in (0, 2):
            self.in_both_formats(rank, lambda path: flip(path, place_of(path, "n")), ("E_DIGEST", ""), ("E_DIGEST", "n"))

    @needs_h5py
    def test_a_bit_of_padding_is_the_files_alone(self):
        # 16 stored rows of v, of which rank 1 (and 3) holds the last 8: rows 8 and 9, then padding.
        self.in_both_formats(1, lambda path: flip(path, place_of(path, "v") + 2 * 2 * 4), ("E_DIGEST", ""))
        self.in_both_formats(1, lambda path: flip(path, place_of(path, "v") + 2 * 2 * 4 - 1), ("E_DIGEST", ""), ("E_DIGEST", "v"))

    def test_digests_of_file_and_tensor_are_told(self):
        target = self.make_target()
        path = target / "rank-00000.safetensors"
        listed = json.loads((target / "reshard.json").read_text())["file_list"][path.name]["digest"]
        flip(path, place_of(path, "w"))
        self.verify(target)
        self.assertEqual((self.problems[0]["expected"], self.problems[0]["found"]), (listed, crc64(path.read_bytes())))
        text = self.reshard("verify", target)
        self.assert_exit(text, 1)
        self.assertIn(f"E_DIGEST: {path.name}: expected {listed}, found {crc64(path.read_bytes())}", text.out)
        self.assertIn("2 problems", text.out)

    def test_a_tensor_on_one_rank_alone_has_its_digest_told(self):
        w = noise("w", 8, 4)
        target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": w}))
        flip(target / "rank-00001.safetensors", place_of(target / "rank-00001.safetensors", "w"))
        self.verify(target)
        changed = b"".join(read_safetensors(target / f"rank-0000{rank}.safetensors")["w"].data for rank in (0, 1))
        self.assertEqual(self.problems[1], {"code": "E_DIGEST", "file": "rank-00001.safetensors", "tensor": "w", "expected": crc64(w.data), "found": crc64(changed)})

    def test_a_bit_of_a_header(self):
        target = self.make_target()
        path = target / "rank-00002.safetensors"
        flip(path, path.read_bytes().index(b'"pt"') + 1)
        self.assert_problems(target, [("E_DIGEST", path.name, "")])

    def test_a_header_that_is_none(self):
        target = self.make_target()
        path = target / "rank-00002.safetensors"
        flip(path, 8)
        # Its tensors cannot be found; their other copies are right.
        self.assert_problems(target, [("E_FORMAT", path.name, ""), ("E_DIGEST", path.name, "")])

    @needs_h5py
    def test_a_renamed_tensor(self):
        def rename(path):
            if path.suffix == ".h5":
                import h5py
                with h5py.File(path, "r+") as file:
                    file.move("n", "m")
            else:
                path.write_bytes(path.read_bytes().replace(b'"n":', b'"m":'))
        target = self.make_target()
        path = target / "rank-00003.safetensors"
        rename(path)
        self.assert_problems(target, [("E_DIGEST", path.name, ""), ("E_DIFFERENT", path.name, "m"), ("E_MISSING", path.name, "n")])
        target = self.make_target("hdf5")
        path = target / "rank-00003.h5"
        rename(path)
        self.change_manifest(target, lambda manifest: manifest["file_list"][path.name].update(bytes=path.stat().st_size))
        self.assert_problems(target, [("E_DIGEST", path.name, ""), ("E_DIFFERENT", path.name, "m"), ("E_MISSING", path.name, "n")])

    def test_another_dtype_and_shape_of_the_same_size(self):
        target = self.make_target()
        path = target / "rank-00001.safetensors"
        content = path.read_bytes()
        self.assertEqual(content.count(b'"F32","shape":[3]'), 1)
        path.write_bytes(content.replace(b'"F32","shape":[3]', b'"I32","shape":[3]'))
        self.assert_problems(target, [("E_DIGEST", path.name, ""), ("E_DTYPE", path.name, "n")])
        path.write_bytes(content.replace(b'[8,2]', b'[2,8]', 1))
        self.assertEqual({(code, file) for code, file, _ in self.verify(target)}, {("E_DIGEST", path.name), ("E_SHAPE", path.name)})

    @needs_h5py
    def test_a_truncated_and_a_longer_file(self):
        self.in_both_formats(1, lambda path: os.truncate(path, path.stat().st_size - 5), ("E_DIGEST", ""))
        self.in_both_formats(1, lambda path: os.truncate(path, path.stat().st_size + 1), ("E_DIGEST", ""))
        self.in_both_formats(1, lambda path: os.truncate(path, 0), ("E_DIGEST", ""))

    def test_a_missing_file(self):
        self.in_both_formats(2, lambda path: path.unlink(), ("E_MISSING", ""))

    def test_a_directory_in_place_of_a_file(self):
        def replace(path):
            path.unlink()
            path.mkdir()
        self.in_both_formats(2, replace, ("E_FORMAT", ""))

    def test_two_files_that_changed_places(self):
        target = self.make_target()
        one, other = target / "rank-00000.safetensors", target / "rank-00001.safetensors"
        one.rename(target / "x")
        other.rename(one)
        (target / "x").rename(other)
        found = self.verify(target)
        self.assertEqual([problem for problem in found if not problem[2]], [("E_DIGEST", one.name, ""), ("E_DIGEST", other.name, "")])
        self.assertEqual({problem[2] for problem in found if problem[2]}, {"w", "v"})

    def test_files_that_the_manifest_does_not_list(self):
        target = self.make_target()
        (target / "rank-00004.safetensors").write_bytes((target / "rank-00003.safetensors").read_bytes())
        (target / "notes").mkdir()
        (target / "notes" / "note.txt").write_text("later")
        self.assert_problems(target, [("E_DIFFERENT", "notes/note.txt", ""), ("E_DIFFERENT", "rank-00004.safetensors", "")])

    def test_nothing_is_written(self):
        target = self.make_target()
        flip(target / "rank-00001.safetensors", 200)
        before = snapshot(self.dir)
        self.verify(target, np=2)
        self.assertEqual(snapshot(self.dir), before)

    def test_two_wrong_copies_are_both_named(self):
        target = self.make_target()
        for rank in (0, 3):
            path = target / f"rank-0000{rank}.safetensors"
            flip(path, place_of(path, "n"))
        self.assert_problems(target, [(code, f"rank-0000{rank}.safetensors", name) for rank in (0, 3) for code, name in (("E_DIGEST", ""), ("E_DIGEST", "n"))])

    def test_a_repeated_head_that_differs_in_one_copy(self):
        # Segments [4, 2] over four ranks: rows 4 and 5 are repeated, on ranks 0 and 1, 2 and 3.
        source = self.full({"q": noise("q", 6, 2)})
        plan = self.tp_plan(0, 4, ("q", {"0": {"axes": "tp", "segments": [4, {"size": 2, "unit": 1, "fallback": "repeat"}]}}))
        target = self.convert(plan, source)
        path = target / "rank-00003.safetensors"
        flip(path, place_of(path, "q") + 8)
        self.assert_problems(target, [("E_DIGEST", path.name, ""), ("E_DIGEST", path.name, "q")])

    @needs_h5py
    def test_data_that_another_program_stored_anew(self):
        # The same values, chunked: not the file that was written, but the tensors are.
        import h5py
        target = self.make_target("hdf5")
        path = target / "rank-00001.h5"
        with h5py.File(path) as file:
            tensors = {name: (dataset[...], dict(dataset.attrs)) for name, dataset in file.items()}
        with h5py.File(path, "w") as file:
            for name, (value, attributes) in tensors.items():
                dataset = file.create_dataset(name, data=value, chunks=True, compression="gzip")
                dataset.attrs.update(attributes)
        listed = {"bytes": path.stat().st_size}
        self.change_manifest(target, lambda manifest: manifest["file_list"][path.name].update(listed))
        self.assert_problems(target, [("E_DIGEST", path.name, "")])


class ChangedManifest(VerifyCase):
    def setUp(self):
        super().setUp()
        self.target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"}), ("n", None)), self.full({"w": noise("w", 8, 4), "n": noise("n", 3)}))

    def changed(self, change):
        copy = self.copy(self.target)
        self.change_manifest(copy, change)
        return copy

    def test_a_tensors_digest(self):
        for np in (1, 2, 3):
            target = self.changed(lambda manifest: manifest["tensors"]["w"].update(digest="0123456789abcdef"))
            # Which of the two files is to blame cannot be told: both are as listed.
            self.assertEqual(self.verify(target, np=np), [("E_DIGEST", "", "w")])

    def test_a_files_digest(self):
        target = self.changed(lambda manifest: manifest["file_list"]["rank-00001.safetensors"].update(digest="0123456789abcdef"))
        self.assertEqual(self.verify(target), [("E_DIGEST", "rank-00001.safetensors", "")])

    def test_a_files_size(self):
        target = self.changed(lambda manifest: manifest["file_list"]["rank-00001.safetensors"].update(bytes=5))
        self.assertEqual(self.verify(target), [("E_DIGEST", "rank-00001.safetensors", "")])
        self.assertEqual(self.problems[0]["expected"], "5 bytes")

    def test_a_tensor_more_and_a_tensor_less(self):
        more = self.changed(lambda manifest: manifest["tensors"].update(x=manifest["tensors"]["n"]))
        self.assertEqual(self.verify(more), [("E_MISSING", f"rank-0000{rank}.safetensors", "x") for rank in (0, 1)])
        less = self.changed(lambda manifest: manifest["tensors"].pop("n"))
        self.assertEqual(self.verify(less), [("E_DIFFERENT", f"rank-0000{rank}.safetensors", "n") for rank in (0, 1)])

    def test_a_placement(self):
        # Rows 0, 1, 4, 5 and 2, 3, 6, 7 in place of 0 to 3 and 4 to 7: the shapes are the same.
        def change(manifest):
            manifest["placements"][manifest["tensors"]["w"]["placement"]]["shard"] = {"0": {"axes": ["tp"], "segments": [4, 4]}}
        self.assertEqual(self.verify(self.changed(change)), [("E_DIGEST", "", "w")])

    def test_a_manifest_that_is_wrong_on_its_own_is_exit_4(self):
        for change in (lambda manifest: manifest["file_list"].pop("rank-00001.safetensors"),
                       lambda manifest: manifest["tensors"]["w"].update(shape=[7, 4]),
                       lambda manifest: manifest["tensors"]["w"].update(digest="no digest"),
                       lambda manifest: manifest.update(version=2)):
            result = self.reshard("verify", self.changed(change), np=2)
            self.assert_exit(result, 4)
            self.assert_error_lines(result, "E_FORMAT")
            self.assertIn("reshard.json", result.err)

    def test_no_finished_target_is_exit_4(self):
        plain = self.full({"w": iota(2)}, name="plain")
        for path, code in ((plain, "E_MISSING"), (self.dir / "nowhere", "E_MISSING"), (plain / "model.safetensors", "E_FORMAT")):
            for np in (1, 2):
                result = self.reshard("verify", path, np=np)
                self.assert_exit(result, 4)
                self.assert_error_lines(result, code)
                self.assertIn(str(path), result.err)
        result = self.reshard("verify", plain, "--report", "json")
        self.assertEqual(result.json()["schema"], "reshard.error")


class NumberedSet(VerifyCase):
    FILES = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    INDEX = "model.safetensors.index.json"

    def setUp(self):
        super().setUp()
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": "2KiB"}, "tensors": [{"match": "*"}]})
        self.target = self.convert(plan, self.full({name: noise(name, 300) for name in "abc"}))

    def test_a_bit_names_file_and_tensor(self):
        flip(self.target / self.FILES[1], place_of(self.target / self.FILES[1], "b"))
        for np in (1, 2, 3):
            self.assertEqual(self.verify(self.target, np=np), [("E_DIGEST", self.FILES[1], ""), ("E_DIGEST", self.FILES[1], "b")])

    def test_a_missing_file(self):
        (self.target / self.FILES[2]).unlink()
        self.assertEqual(self.verify(self.target), [("E_MISSING", self.FILES[2], "")])
        listed = json.loads((self.target / "reshard.json").read_text())["file_list"]
        self.assertEqual(self.reshard("verify", self.target, "--report", "json").json()["files"], len(listed) - 1)

    def test_the_index(self):
        path = self.target / self.INDEX
        text = path.read_text()
        path.write_text(text.replace('"b": "model-00002', '"b": "model-00003'))
        self.assertEqual(self.verify(self.target), [("E_DIGEST", self.INDEX, ""), ("E_DIFFERENT", self.INDEX, "b")])
        path.write_text(text.replace('"total_size": 3600', '"total_size": 3601'))
        self.assertEqual(sorted(self.verify(self.target)), [("E_DIFFERENT", self.INDEX, ""), ("E_DIGEST", self.INDEX, "")])
        path.write_text("x" + text[1:])
        self.assertEqual(sorted(self.verify(self.target)), [("E_DIGEST", self.INDEX, ""), ("E_FORMAT", self.INDEX, "")])
        path.unlink()
        self.assertEqual(self.verify(self.target), [("E_MISSING", self.INDEX, "")])

    def test_a_tensor_in_another_file_than_the_index_says(self):
        # The manifest lists the files as they are now: only the index tells.
        a, b = (self.target / name for name in self.FILES[:2])
        a.rename(self.target / "x")
        b.rename(a)
        (self.target / "x").rename(b)
        names = self.FILES[:2]
        self.change_manifest(self.target, lambda manifest: manifest["file_list"].update({names[0]: manifest["file_list"][names[1]], names[1]: manifest["file_list"][names[0]]}))
        self.assertEqual(self.verify(self.target), [("E_DIFFERENT", self.INDEX, "a"), ("E_DIFFERENT", self.INDEX, "b")])


class RunWithVerify(VerifyCase):
    def test_a_bit_that_changes_on_disk_ends_the_run_and_nothing_is_published(self):
        source = self.full({"w": noise("w", 8, 4), "n": noise("n", 3)})
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}), ("n", None))
        for file_format, np, spoilt, number in (("safetensors", 1, "w", 0), ("safetensors", 1, "w", 1), ("safetensors", 1, "n", 1), ("hdf5", 1, "w", 1),
                                                ("safetensors", 2, "w", 0), ("hdf5", 2, "n", 0)):
            with self.subTest(format=file_format, processes=np, tensor=spoilt, number=number):
                result = self.run_plan(plan, source, "--target-format", file_format, "--verify", np=np,
                                       env=environment(RESHARD_TEST_FLIP=f"readback:{spoilt}:{number}:0"))
                self.assert_exit(result, 70)
                self.assert_error_lines(result, "E_DIGEST")
                self.assertIn(f"'{spoilt}'", result.err)
                self.assertFalse(self.target.exists())
                self.assertFalse((pathlib.Path(f"{self.target}.partial") / "reshard.json").exists())

    def test_without_verify_the_files_are_not_read_again(self):
        source = self.full({"w": noise("w", 8, 4)})
        result = self.run_plan(self.tp_plan(0, 2, ("w", {"0": "tp"})), source, env=environment(RESHARD_TEST_FLIP="readback:w:0:0"))
        self.assert_exit(result, 0)

    def test_the_bytes_are_the_same_with_and_without(self):
        source = self.full({"w": noise("w", 8, 4)})
        plan = self.tp_plan(0, 2, ("w", {"0": "tp"}))
        self.assertEqual(snapshot(self.convert(plan, source, "--verify", np=2)), snapshot(self.convert(plan, source)))


class Script(VerifyCase):
    """scripts/crc64.py, with NumPy where there is one and without."""

    def setUp(self):
        super().setUp()
        self.script = REPOSITORY / "scripts" / "crc64.py"
        specification = importlib.util.spec_from_file_location("crc64", self.script)
        self.module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(self.module)

    def run_script(self, *words):
        return execute([sys.executable, "-B", self.script, *words])

    def test_the_published_check_value(self):
        self.assertEqual(self.module.digest(b"123456789"), "995dc9bbdf1939fa")
        path = self.dir / "check"
        path.write_bytes(b"123456789")
        result = self.run_script(path)
        self.assert_exit(result, 0)
        self.assertEqual(result.out, f"995dc9bbdf1939fa  {path}\n")

    def test_with_and_without_numpy_the_digests_are_those_of_the_table(self):
        for size in (0, 1, 7, 8, 32767, 32768, 32776, 100_003):
            data = noise("data", size, dtype="U8").data
            expected = crc64(data)
            self.assertEqual(self.module.digest(data), expected)
            with_numpy, self.module.numpy = self.module.numpy, None
            self.assertEqual(self.module.digest(data), expected)
            self.module.numpy = with_numpy

    def test_full_targets_and_sets(self):
        source = self.full({"a": noise("a", 50, 600), "b": iota(0, 3), "c": iota(dtype="I64")})
        for limit in ("1GiB", "64KiB"):
            plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "max_file_size": limit}, "tensors": [{"match": "*"}]})
            target = self.convert(plan, source)
            self.assert_exit(self.run_script(target), 0)
            path = next(path for path in target.glob("*.safetensors") if "a" in read_safetensors(path))
            flip(path, place_of(path, "a") + 77)
            result = self.run_script(target)
            self.assert_exit(result, 1)
            self.assertIn(f"{path.name}: expected", result.out)
            self.assertIn("tensor a: expected", result.out)

    def test_the_tool_and_the_script_agree_on_tensors_in_any_layout(self):
        tensors = {"w": noise("w", 12, 10), "v": noise("v", 101, 3, dtype="BF16"), "n": noise("n", 3, dtype="U8")}
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": ["gtp=3", "tp=2"]}, "tensors": [
            {"match": "w", "shard": {"1": "tp", "0": {"axes": "gtp", "layout": "striped"}}}, {"match": "v", "shard": {"0": "tp"}, "target": {"shard": {"0": {"pad_total": 8}}}}, {"match": "n"}]})
        manifest = json.loads((self.convert(plan, self.full(tensors)) / "reshard.json").read_text())
        self.assertEqual({name: entry["digest"] for name, entry in manifest["tensors"].items()}, {name: self.module.digest(value.data) for name, value in tensors.items()})

    def test_what_it_cannot_check(self):
        target = self.convert(self.tp_plan(0, 2, ("w", {"0": "tp"})), self.full({"w": iota(4)}))
        for path in (target, self.dir, self.dir / "nowhere"):
            result = self.run_script(path)
            self.assert_exit(result, 2)
            self.assertIn(str(path), result.err)

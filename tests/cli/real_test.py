"""Checkpoints that other software wrote (tests/data/real/README.md): what must come out of each."""

import ast
import json
import struct
import zipfile

from support import DATA, Case, read_safetensors, snapshot
from tensors import Tensor, count, even

REAL = DATA / "real"


def read_set(folder):
    """All tensors of the safetensors files of a folder."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors.update(read_safetensors(path))
    return tensors


def read_ranks(folder):
    return [read_safetensors(path) for path in sorted(folder.glob("rank-*.safetensors"))]


def read_npy(content):
    """(dtype string, shape, little-endian bytes) of an array in NumPy's format, version 1."""
    length, = struct.unpack("<H", content[8:10])
    header = ast.literal_eval(content[10:10 + length].decode())
    assert not header["fortran_order"]
    dtype, data = header["descr"], content[10 + length:]
    size = int(dtype[2:])
    if dtype[0] == ">":
        data = b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))
    return dtype[1:], header["shape"], data


class RealCase(Case):
    def plan_of(self, path, *replacements):
        text = (REAL / path).read_text()
        for old, new in replacements:
            self.assertIn(old, text)
            text = text.replace(old, new)
        return self.plan(text)

    def to_full(self, source, **target):
        """A finished target of ours back to a full checkpoint: the manifest knows the source."""
        return self.convert(self.plan({"reshard": 1, "target": {"axes": [], **target}, "tensors": [{"match": "**"}]}, "back.json"), source)


class Checkpoints(RealCase):
    def check(self, name, plan, expected):
        """The plan gives the expected rank files, and the way back gives the full checkpoint."""
        target = self.convert_everywhere(plan, REAL / name / "full")
        self.assertEqual(read_ranks(target), read_ranks(REAL / name / expected))
        self.assertEqual(read_set(self.to_full(target)), read_set(REAL / name / "full"))

    def test_llama_of_transformers_tensor_parallel(self):
        self.check("llama", self.plan_of("llama/full-to-tp2.yaml"), "tp2-transformers")

    def test_llama_with_repeated_heads(self):
        self.check("llama", self.plan_of("llama/full-to-tp2.yaml", ("[tp=2]", "[tp=4]")), "tp4-expected")

    def test_llama_of_transformers_fsdp_and_tensor_parallel(self):
        self.check("llama", self.plan_of("llama/full-to-fsdp2tp2.yaml"), "fsdp2tp2-transformers")

    def test_llama_back_to_a_numbered_set(self):
        target = self.convert(self.plan_of("llama/full-to-tp2.yaml"), REAL / "llama" / "full", "--copy-side-files")
        back = self.to_full(target, max_file_size="100KiB")
        names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
        self.assertEqual(sorted(path.name for path in back.glob("*.safetensors")), names)
        self.assertEqual(read_set(back), read_set(REAL / "llama" / "full"))
        index = json.loads((back / "model.safetensors.index.json").read_text())
        theirs = json.loads((REAL / "llama" / "full" / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], theirs["metadata"]["total_size"])
        self.assertEqual(set(index["weight_map"]), set(theirs["weight_map"]))
        self.assertEqual((target / "config.json").read_bytes(), (REAL / "llama" / "full" / "config.json").read_bytes())

    def test_ragged_llama_of_transformers(self):
        self.check("llama_ragged", self.plan_of("llama_ragged/full-to-tp2.yaml", ("[tp=2]", "[tp=4]")), "tp4-transformers")

    def test_mixtral_with_fused_experts(self):
        self.check("mixtral_fused", self.plan_of("mixtral_fused/full-to-tp2.yaml"), "tp2-transformers")

    def test_phi3_with_fused_projections(self):
        self.check("phi3", self.plan_of("phi3/full-to-tp2.yaml", ("[tp=2]", "[tp=4]")), "tp4-expected")

    def test_mamba2(self):
        self.check("mamba2", self.plan_of("mamba2/full-to-tp2.yaml"), "tp2-expected")

    def test_megatron_core(self):
        target = self.convert_everywhere(self.plan_of("megatron_tp2/tp2-to-full.yaml"), REAL / "megatron_tp2" / "tp2")
        theirs = read_safetensors(REAL / "megatron_tp2" / "megatron-global" / "full.safetensors")
        renamed = {"self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight", "mlp.linear_fc1.layer_norm_weight": "pre_mlp_layernorm.weight"}
        expected = {}
        for name, value in theirs.items():
            if name.startswith("decoder.layers."):
                suffix = name[len("decoder.layers."):]
                for layer, part in enumerate(even(value, 0, value.shape[0])):
                    expected[f"decoder.layers.{layer}.{renamed.get(suffix, suffix)}"] = Tensor(value.dtype, value.shape[1:], part.data)
            elif value.shape[:1] == (112,):
                row = len(value.data) // 112
                expected[name] = Tensor(value.dtype, (104, *value.shape[1:]), value.data[:101 * row] + bytes(3 * row))
            else:
                expected[name] = value
        self.assert_full(target, expected)

    def test_compressed_tensors(self):
        for name in ("compressed_int4", "compressed_fp8"):
            with self.subTest(name=name):
                full = read_safetensors(REAL / name / "model.safetensors")
                target = self.convert_everywhere(self.plan_of(f"{name}/full-to-tp2.yaml"), REAL / name / "model.safetensors")
                for rank, file in enumerate(read_ranks(target)):
                    self.assertEqual(set(file), set(full))
                    for tensor, value in file.items():
                        whole = full[tensor]
                        cut = [dim for dim, (part, length) in enumerate(zip(value.shape, whole.shape)) if part != length]
                        self.assertLessEqual(len(cut), 1)
                        self.assertEqual(value, even(whole, cut[0], 2)[rank] if cut else whole, tensor)
                self.assertEqual(read_set(self.to_full(target)), full)


class DTensors(RealCase):
    def test_placements_of_torch(self):
        full = read_safetensors(REAL / "dtensor" / "full.safetensors")
        theirs = read_ranks(REAL / "dtensor")
        for plan in ("dtensor_ab.yaml", "dtensor_t.yaml"):
            with self.subTest(plan=plan):
                target = self.convert_everywhere(self.plan_of(f"dtensor/{plan}"), REAL / "dtensor" / "full.safetensors")
                ours = read_ranks(target)
                self.assertEqual(ours, [{name: file[name] for name in ours[0]} for file in theirs])
                self.assertGreaterEqual(len(ours[0]), 9)
                self.assertEqual(read_set(self.to_full(target)), {name: full[name] for name in ours[0]})

    def test_a_distributed_checkpoint_directory_is_refused_by_name(self):
        plan = self.plan({"reshard": 1, "source": {"axes": ["tp=2"], "files": "shard-{rank:05}-model-00001-of-00001.safetensors"}, "target": {"axes": []},
                          "tensors": [{"match": "**"}]})
        for source_plan in (plan, self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": []}, "tensors": [{"match": "**"}]}, "full.json")):
            result = self.run_plan(source_plan, REAL / "dtensor" / "dcp_tp2")
            self.assert_exit(result, 4)
            self.assertFalse(self.target.exists())
        # A set without an index, seen as it is: named for what it is.
        result = self.reshard("inspect", REAL / "dtensor" / "dcp_tp2")
        self.assert_refused(result, 4, "E_UNSUPPORTED")
        self.assertIn("DCP", result.err)


class Hdf5(RealCase):
    NAMES = {"f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64", "u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64", "b1": "BOOL"}

    def expected(self, case):
        """The tensors of values.npz by name; bf16 files come with numbers in f32."""
        names = json.loads((REAL / "h5" / case / "case.json").read_text())["tensors"]
        tensors = {}
        with zipfile.ZipFile(REAL / "h5" / case / "values.npz") as archive:
            for i, name in enumerate(names):
                dtype, shape, data = read_npy(archive.read(f"t{i}.npy"))
                if case == "keras_bf16":
                    tensors[name] = Tensor("BF16", shape, b"".join(data[j + 2:j + 4] for j in range(0, len(data), 4)))
                else:
                    tensors[name] = Tensor(self.NAMES[dtype], shape, data)
                self.assertEqual(len(data), count(shape) * int(dtype[1:]))
        return tensors

    def test_files_of_other_writers(self):
        plan = self.plan({"reshard": 1, "source": {"axes": []}, "target": {"axes": [], "format": "safetensors"}, "tensors": [{"match": "**"}]})
        cases = sorted(path.parent.name for path in (REAL / "h5").glob("*/case.json"))
        self.assertEqual(len(cases), 16)
        for case in cases:
            outcome = json.loads((REAL / "h5" / case / "case.json").read_text())["outcome"]
            with self.subTest(case=case, outcome=outcome):
                before = snapshot(REAL / "h5" / case)
                if outcome == "ok":
                    target = self.convert(plan, REAL / "h5" / case, np=2)
                    self.assert_full(target, self.expected(case))
                else:
                    self.assertEqual(outcome, "refuse")
                    for np in (1, 2):
                        result = self.run_plan(plan, REAL / "h5" / case, np=np)
                        self.assertIn(result.code, (4, 5), str(result))
                        self.assertIn("model.h5", result.err)
                        self.assertFalse(self.target.exists())
                        self.assertNotIn("Sanitizer", result.err)
                self.assertEqual(snapshot(REAL / "h5" / case), before)

    def test_keras_weights(self):
        model = self.expected("keras_weights")
        plan = self.plan_of("h5/keras_weights/full-to-tp2.yaml")
        target = self.convert_everywhere(plan, REAL / "h5" / "keras_weights", "--target-format", "safetensors")
        columns = {name: 1 if name == "layers/dense/vars/0" else 0 for name in model if name != "layers/dense_1/vars/1"}
        self.assert_files(target, [{name: even(value, columns[name], 2)[rank] if name in columns else value for name, value in model.items()} for rank in (0, 1)])

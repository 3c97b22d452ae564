"""What is measured: for each case a source, a plan, and the same job as a list of slices for the incumbents."""

import dataclasses
import json
import math

from benchmarks import models

GIB = 1 << 30
PAD_TO = 64  # rows, times GTP: 9728 rows of gate on TP 8 are 1216, padded to 1280


@dataclasses.dataclass(frozen=True)
class Side:
    """`tp` ranks that cut tensors, times `gtp` that cut dimension 0 of what those have once more, padded; or `ep` ranks over which
    whole experts are dealt. A side of one rank is a full checkpoint."""
    tp: int = 1
    gtp: int = 1
    ep: int = 1

    @property
    def ranks(self):
        return self.tp * self.gtp * self.ep

    def file(self, rank, suffix="safetensors"):
        return f"model.{suffix}" if self.ranks == 1 else f"rank-{rank:05}.{suffix}"

    def axes(self):
        return f"[gtp={self.gtp}, tp={self.tp}, ep={self.ep}]"

    def shape(self, tensor):
        """Of what a rank stores; sides with gtp are targets only."""
        return tuple(n // self.tp if dim == tensor.dim else n for dim, n in enumerate(tensor.shape))

    def has(self, tensor, rank, experts):
        return tensor.expert is None or tensor.expert * self.ep // experts == rank


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    tensors: list
    source: Side
    target: Side
    rules: str
    dtype: str = "F16"
    convert: str = None        # the target's dtype, where it is another
    source_format: str = "safetensors"
    on_disk: bool = False
    incumbents: tuple = ("numpy", "torch")
    repeats_divisor: int = 1

    def plan(self):
        return (f"reshard: 1\nsource: {{axes: {self.source.axes()}}}\n"
                f"target: {{axes: {self.target.axes()}, format: safetensors}}\ntensors:\n{self.rules}")

    @property
    def experts(self):
        return 1 + max((tensor.expert for tensor in self.tensors if tensor.expert is not None), default=0)

    def write_source(self, folder, checkpoint, noise):
        folder.mkdir(parents=True)
        for rank in range(self.source.ranks):
            held = {}
            for tensor in self.tensors:
                if self.source.has(tensor, rank, self.experts):
                    seed = tensor.name if tensor.dim is None else f"{tensor.name} {rank}"
                    held[tensor.name] = (self.source.shape(tensor), seed)
            checkpoint.write(folder / self.source.file(rank), held, self.dtype, noise)

    def job(self, source_folder):
        """For incumbent.py."""
        files = {}
        for rank in range(self.target.ranks):
            recipes = {tensor.name: self.recipe(tensor, rank) for tensor in self.tensors
                       if self.target.has(tensor, rank, self.experts)}
            files[self.target.file(rank)] = recipes
        return json.dumps({"source": str(source_folder), "dtype": self.convert, "files": files})

    def recipe(self, tensor, rank):
        """What a target rank has of a tensor, as slices of source shards."""
        suffix = "safetensors" if self.source_format == "safetensors" else "h5"
        whole = [[0, n] for n in self.source.shape(tensor)]
        if tensor.dim is None:
            holder = 0 if tensor.expert is None else tensor.expert * self.source.ep // self.experts
            return {"pieces": [[self.source.file(holder, suffix), whole]], "dim": 0, "rows": None}
        tp = rank % self.target.tp
        ranges = [[0, n] for n in tensor.shape]
        length = tensor.shape[tensor.dim] // self.target.tp
        ranges[tensor.dim] = [tp * length, (tp + 1) * length]
        rows = None
        if self.target.gtp > 1:
            first, end = ranges[0]
            multiple = PAD_TO * self.target.gtp
            rows = math.ceil((end - first) / multiple) * multiple // self.target.gtp
            gtp = rank // self.target.tp
            begin, end = min(end, first + gtp * rows), min(end, first + (gtp + 1) * rows)
            ranges[0] = [begin, end] if begin < end else [0, 0]  # padding alone
        held = tensor.shape[tensor.dim] // self.source.tp
        begin, end = ranges[tensor.dim]
        pieces = []
        for holder in range(begin // held, max(1, math.ceil(end / held))):
            local = [list(r) for r in ranges]
            local[tensor.dim] = [max(begin, holder * held) - holder * held, min(end, (holder + 1) * held) - holder * held]
            pieces.append([self.source.file(holder, suffix), local])
        return {"pieces": pieces, "dim": tensor.dim, "rows": rows}


def dense_rules(model):
    return f"""\
  - {{match: "**.q_proj.weight", shard: {{0: {{axes: tp, unit: {model.head_dim}}}}}}}
  - {{match: "**.{{k,v}}_proj.weight", shard: {{0: {{axes: tp, unit: {model.head_dim}}}}}}}
  - {{match: "**.o_proj.weight", shard: {{1: {{axes: tp, unit: {model.head_dim}}}}}}}
  - {{match: "**.{{gate,up}}_proj.weight", shard: {{0: tp}}}}
  - {{match: "**.down_proj.weight", shard: {{1: tp}}}}
  - {{match: "model.embed_tokens.weight", shard: {{0: tp}}}}
  - {{match: "**norm.weight"}}
"""


def gtp_rules(model):
    def rows(size):
        return f"{{axes: [tp, gtp], size: {size}, pad_to: {PAD_TO}}}"
    across = f"{{1: tp, 0: {{axes: gtp, size: {model.hidden}, pad_to: {PAD_TO}}}}}"
    return f"""\
  - {{match: "**.q_proj.weight", shard: {{0: {rows(model.heads * model.head_dim)}}}}}
  - {{match: "**.{{k,v}}_proj.weight", shard: {{0: {rows(model.kv_heads * model.head_dim)}}}}}
  - {{match: "**.{{gate,up}}_proj.weight", shard: {{0: {rows(model.ffn)}}}}}
  - {{match: "**.{{o,down}}_proj.weight", shard: {across}}}
  - {{match: "model.embed_tokens.weight", shard: {{0: {rows(model.vocabulary)}}}}}
  - {{match: "**norm.weight"}}
"""


def all_cases(size, tiny):
    """`size`: most bytes of a source, as far as whole layers allow. `tiny`: everything in kilobytes, the structure the same."""
    llama_model, qwen_model, mixture_model = (
        (models.TINY_LLAMA, models.TINY_QWEN, models.TINY_MIXTURE) if tiny else (models.LLAMA, models.QWEN, models.MIXTURE))
    llama = models.fitting(llama_model, 2, size)
    qwen = models.fitting(qwen_model, 2, size)
    mixture = models.fitting(mixture_model, 2, size)  # twice as large in the target
    small = [models.Tensor(f"layers.{i // 100}.adapters.{i % 100}.weight", (32, 64), 0) for i in range(300 if tiny else 30000)]
    large = [models.Tensor("embedding.weight", ((8 << 20 if tiny else 5 * GIB) // 2 // 4096, 4096), 0)]
    tp = dense_rules(llama_model)
    return [
        Case("tp8-tp2", "Llama-3.2-1B, TP 8 to TP 2", llama, Side(tp=8), Side(tp=2), tp),
        Case("full-tp8", "Qwen3-4B, full to TP 8", qwen, Side(), Side(tp=8), dense_rules(qwen_model)),
        Case("tp4-full", "Llama-3.2-1B, TP 4 to full", llama, Side(tp=4), Side(), tp),
        Case("gtp", "Qwen3-4B, TP 2 to TP 8 x GTP 2, padded", qwen, Side(tp=2), Side(tp=8, gtp=2), gtp_rules(qwen_model)),
        Case("hdf5", "Llama-3.2-1B, HDF5 of TP 8 to safetensors of TP 2", llama, Side(tp=8), Side(tp=2), tp, source_format="hdf5",
             incumbents=("h5py",)),
        Case("small", f"{len(small):,} tensors of 4 KiB, TP 2 to full", small, Side(tp=2), Side(), '  - {match: "**", shard: {0: tp}}\n'),
        Case("large", "one tensor of 5 GiB, TP 2 to TP 4", large, Side(tp=2), Side(tp=4), '  - {match: "**", shard: {0: tp}}\n',
             incumbents=(), repeats_divisor=5),  # a third copy is more than common machines have memory for
        Case("bf16-f32", "experts of Qwen3-30B-A3B, EP 8 to EP 2, bf16 to f32", mixture, Side(ep=8), Side(ep=2),
             f'  - {{match: "**.experts.*.**", owner: {{ep: "$2/{mixture_model.experts}"}}, dtype: f32}}\n', dtype="BF16", convert="F32",
             incumbents=("torch",)),
        Case("disk", "Llama-3.2-1B, TP 8 to TP 2, on disk, flushed", llama, Side(tp=8), Side(tp=2), tp, on_disk=True, incumbents=(),
             repeats_divisor=3),
    ]

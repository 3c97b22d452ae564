"""Every plan in configs/, run on a small checkpoint with the model's own tensor names: from a full checkpoint to shards, to other
shards, and back to the full checkpoint. What each rank must hold is written here from the model's rule, index by index."""

import itertools
import json
import re

from support import DATA, REPOSITORY, Case, read_safetensors, snapshot
from tensors import ELEMENT_BYTES, PAD, Tensor, count, iota, noise, take, tensor

CONFIGS = REPOSITORY / "configs"


# Index lists

def part(items, c, n):
    """Piece c of n equal consecutive pieces."""
    items = list(items)
    assert len(items) % n == 0, (len(items), n)
    width = len(items) // n
    return items[c * width:(c + 1) * width]


def flat(lists):
    return [index for one in lists for index in one]


def blocks(length, width):
    """The indices below `length` in blocks of `width`, the last one possibly short."""
    return [list(range(first, min(first + width, length))) for first in range(0, length, width)]


def whole_heads(length, head_dim, c, n):
    """Heads that rank c of n holds; with fewer heads than ranks each head lies on n / heads neighbours."""
    heads = blocks(length, head_dim)
    return flat(part(heads, c, n)) if len(heads) >= n else heads[c // (n // len(heads))]


def joined(*parts):
    """Parts of one dim, each given as (length, chosen indices inside it)."""
    chosen, first = [], 0
    for length, indices in parts:
        chosen += [first + index for index in indices]
        first += length
    return chosen


def scale_rows(rows, block):
    """The rows of a scale tensor that belong to whole blocks of rows."""
    return [row // block for row in rows if row % block == 0]


def padded(value, rows):
    """`value` with rows of zeros behind it."""
    return Tensor(value.dtype, (rows, *value.shape[1:]), take(value, [*range(value.shape[0]), *([PAD] * (rows - value.shape[0]))]).data)


def round_up(number, multiple):
    return -(-number // multiple) * multiple


class Config(Case):
    """One plan of configs/. `degrees`: the variables source_X and target_X by X; `sizes`: the model's variables, made small."""
    config = None
    degrees = ("tp",)
    sizes = {}

    def layout(self, *sizes):
        return dict(zip(self.degrees, sizes))

    def ones(self):
        return {name: 1 for name in self.degrees}

    def options(self, before, after):
        settings = {**self.sizes, **{f"source_{name}": size for name, size in before.items()}, **{f"target_{name}": size for name, size in after.items()}}
        return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    def reshape(self, source, before, after, np=1, config=None):
        return self.convert(CONFIGS / (config or self.config), source, *self.options(before, after), np=np)

    def content(self, folder, ranks):
        if ranks == 1:
            return [read_safetensors(folder / "model.safetensors")]
        found = self.files(folder)
        self.assertEqual(len(found), ranks)
        return found

    def check(self, full, ranks_of, *layouts):
        """full -> the first layout -> the second ... -> full. `ranks_of(layout)` says what every rank must hold."""
        self.check_path([(None, self.ones()), *((None, layout) for layout in layouts), (None, self.ones())], self.full(full), ranks_of)

    def check_path(self, steps, folder, ranks_of):
        (_, before), *steps = steps
        for config, after in steps:
            with self.subTest(before=before, after=after):
                expected = ranks_of(after)
                source = folder
                folder = self.reshape(source, before, after, config=config)
                actual = self.content(folder, len(expected))
                for rank, (one, other) in enumerate(zip(actual, expected)):
                    self.assertEqual(set(one), set(other), f"rank {rank}")
                    for name, value in other.items():
                        self.assertEqual(one[name], value, f"rank {rank}: {name}")
                self.assertEqual(snapshot(self.reshape(source, before, after, np=2, config=config)), snapshot(folder))
            before = after


# Attention as Hugging Face names it

def attention_shapes(prefix, hidden, q_heads, kv_heads, head_dim, bias=()):
    shapes = {f"{prefix}.q_proj.weight": (q_heads * head_dim, hidden), f"{prefix}.k_proj.weight": (kv_heads * head_dim, hidden),
              f"{prefix}.v_proj.weight": (kv_heads * head_dim, hidden), f"{prefix}.o_proj.weight": (hidden, q_heads * head_dim)}
    for letter in bias:
        shapes[f"{prefix}.{letter}_proj.bias"] = shapes[f"{prefix}.{letter}_proj.weight"][:1]
    return shapes


def cut_dense(name, value, head_dim, tp, size):
    """Rank tp of size, by the last parts of the name: attention, a gated MLP, embedding and head; everything else is whole."""
    module, kind = name.split(".")[-2:]
    if module in ("q_proj", "k_proj", "v_proj"):
        return take(value, whole_heads(value.shape[0], head_dim, tp, size))
    if module == "o_proj" and kind == "weight":
        return take(value, None, whole_heads(value.shape[1], head_dim, tp, size))
    if module in ("gate_proj", "up_proj", "embed_tokens", "lm_head"):
        return take(value, part(range(value.shape[0]), tp, size))
    if module == "down_proj":
        return take(value, None, part(range(value.shape[1]), tp, size))
    return value


def model(shapes, dtype="BF16", others=()):
    """Noise of these shapes. `others`: (what names end in, dtype)."""
    return {name: noise(name, *shape, dtype=next((other for end, other in others if name.endswith(end)), dtype)) for name, shape in shapes.items()}


class Llama3(Config):
    config = "llama3-tp.yaml"
    sizes = {"head_dim": 4, "kv_heads": 8}

    def full_model(self, tied=False):
        shapes = {"model.embed_tokens.weight": (48, 12), "model.norm.weight": (12,)}
        for layer in range(2):
            prefix = f"model.layers.{layer}"
            shapes |= attention_shapes(f"{prefix}.self_attn", 12, 32, 8, 4)
            shapes |= {f"{prefix}.mlp.gate_proj.weight": (64, 12), f"{prefix}.mlp.up_proj.weight": (64, 12), f"{prefix}.mlp.down_proj.weight": (12, 64),
                       f"{prefix}.input_layernorm.weight": (12,), f"{prefix}.post_attention_layernorm.weight": (12,)}
        return model(shapes if tied else {**shapes, "lm_head.weight": (48, 12)})

    def ranks_of(self, full):
        return lambda layout: [{name: cut_dense(name, value, 4, tp, layout["tp"]) for name, value in full.items()} for tp in range(layout["tp"])]

    def test_to_16_ranks_with_repeated_heads_and_back(self):
        full = self.full_model()
        self.check(full, self.ranks_of(full), self.layout(2), self.layout(16), self.layout(4))

    def test_tied_head(self):
        full = self.full_model(tied=True)
        self.check(full, self.ranks_of(full), self.layout(8))


class Qwen3(Config):
    config = "qwen3.yaml"
    sizes = {"head_dim": 8, "kv_heads": 2}

    def check_model(self, shapes, bias):
        for layer in range(2):
            prefix = f"model.layers.{layer}"
            shapes = {**shapes, **attention_shapes(f"{prefix}.self_attn", 12, 8, 2, 8, bias)}
            if not bias:
                shapes |= {f"{prefix}.self_attn.q_norm.weight": (8,), f"{prefix}.self_attn.k_norm.weight": (8,)}
            shapes |= {f"{prefix}.mlp.gate_proj.weight": (24, 12), f"{prefix}.mlp.up_proj.weight": (24, 12), f"{prefix}.mlp.down_proj.weight": (12, 24),
                       f"{prefix}.input_layernorm.weight": (12,), f"{prefix}.post_attention_layernorm.weight": (12,)}
        full = model(shapes)
        self.check(full, lambda layout: [{name: cut_dense(name, value, 8, tp, layout["tp"]) for name, value in full.items()} for tp in range(layout["tp"])],
                   self.layout(4), self.layout(2))

    def test_qwen3_with_a_tied_head(self):
        self.check_model({"model.embed_tokens.weight": (32, 12), "model.norm.weight": (12,)}, bias="")

    def test_qwen2_with_biases(self):
        self.check_model({"model.embed_tokens.weight": (32, 12), "model.norm.weight": (12,), "lm_head.weight": (32, 12)}, bias="qkv")


class Experts(Config):
    """Ranks seen as dp x tp and as ep x etp."""
    degrees = ("tp", "ep", "etp")

    def coordinates(self, layout):
        for rank in range(layout["ep"] * layout["etp"]):
            yield rank % layout["tp"], rank // layout["etp"], rank % layout["etp"]

    def one_by_one(self, full, experts, head_dim, columns, rows, cut=cut_dense):
        """`columns`, `rows`: modules of an expert whose weight is cut along dim 0, dim 1."""
        def ranks_of(layout):
            ranks = []
            for tp, ep, etp in self.coordinates(layout):
                held = {}
                for name, value in full.items():
                    parts = name.split(".")
                    if "experts" not in parts:
                        held[name] = cut(name, value, head_dim, tp, layout["tp"])
                    elif int(parts[parts.index("experts") + 1]) in part(range(experts), ep, layout["ep"]):
                        dim = 0 if parts[-2] in columns else 1
                        self.assertIn(parts[-2], columns + rows)
                        held[name] = take(value, *([None] * dim), part(range(value.shape[dim]), etp, layout["etp"]))
                ranks.append(held)
            return ranks
        return ranks_of


class Qwen3Moe(Experts):
    config = "qwen3-moe.yaml"
    sizes = {"experts": 8, "head_dim": 4, "kv_heads": 2}

    def test_experts_and_attention(self):
        shapes = {"model.embed_tokens.weight": (32, 12), "model.norm.weight": (12,), "lm_head.weight": (32, 12)}
        for layer in range(2):
            prefix = f"model.layers.{layer}"
            shapes |= attention_shapes(f"{prefix}.self_attn", 12, 8, 2, 4)
            shapes |= {f"{prefix}.self_attn.q_norm.weight": (4,), f"{prefix}.self_attn.k_norm.weight": (4,), f"{prefix}.mlp.gate.weight": (8, 12),
                       f"{prefix}.input_layernorm.weight": (12,), f"{prefix}.post_attention_layernorm.weight": (12,)}
            for expert in range(8):
                shapes |= {f"{prefix}.mlp.experts.{expert}.gate_proj.weight": (6, 12), f"{prefix}.mlp.experts.{expert}.up_proj.weight": (6, 12),
                           f"{prefix}.mlp.experts.{expert}.down_proj.weight": (12, 6)}
        full = model(shapes)
        ranks_of = self.one_by_one(full, 8, 4, ("gate_proj", "up_proj"), ("down_proj",))
        self.check(full, ranks_of, self.layout(2, 8, 1), self.layout(4, 2, 2))


class Mixtral(Experts):
    config = "mixtral.yaml"
    sizes = {"head_dim": 4, "kv_heads": 2}

    def test_experts_and_attention(self):
        shapes = {"model.embed_tokens.weight": (32, 12), "model.norm.weight": (12,), "lm_head.weight": (32, 12)}
        for layer in range(2):
            prefix = f"model.layers.{layer}"
            shapes |= attention_shapes(f"{prefix}.self_attn", 12, 8, 2, 4)
            shapes |= {f"{prefix}.block_sparse_moe.gate.weight": (8, 12), f"{prefix}.input_layernorm.weight": (12,), f"{prefix}.post_attention_layernorm.weight": (12,)}
            for expert in range(8):
                moe = f"{prefix}.block_sparse_moe.experts.{expert}"
                shapes |= {f"{moe}.w1.weight": (20, 12), f"{moe}.w2.weight": (12, 20), f"{moe}.w3.weight": (20, 12)}
        full = model(shapes)
        ranks_of = self.one_by_one(full, 8, 4, ("w1", "w3"), ("w2",))
        self.check(full, ranks_of, self.layout(2, 4, 2), self.layout(4, 2, 4), self.layout(1, 4, 1))


class DeepSeek(Experts):
    config = "deepseek-v3.yaml"
    block, experts = 4, 8
    sizes = {"experts": 8, "qk_head": 6, "kv_head": 8, "v_head": 4, "block": 4}

    def add(self, full, name, out, columns, scales=True):
        full[f"{name}.weight"] = noise(name, out, columns, dtype="F8_E4M3" if scales else "BF16")
        if scales:
            full[f"{name}.weight_scale_inv"] = noise(f"{name}.scale", -(-out // self.block), -(-columns // self.block), dtype="F32")

    def full_model(self, scales, q_lora):
        hidden, heads = 12, 8
        full = model({"model.embed_tokens.weight": (32, hidden), "lm_head.weight": (32, hidden), "model.norm.weight": (hidden,)})
        for layer in range(3 if q_lora else 2):
            prefix = f"model.layers.{layer}"
            attention = f"{prefix}.self_attn"
            if q_lora:
                self.add(full, f"{attention}.q_a_proj", 8, hidden, scales)
                self.add(full, f"{attention}.q_b_proj", heads * 6, 8, scales)
                full |= model({f"{attention}.q_a_layernorm.weight": (8,)})
            else:
                self.add(full, f"{attention}.q_proj", heads * 6, hidden, scales)
            self.add(full, f"{attention}.kv_a_proj_with_mqa", 10, hidden, scales)  # two and a half blocks of rows
            self.add(full, f"{attention}.kv_b_proj", heads * 8, 8, scales)
            self.add(full, f"{attention}.o_proj", hidden, heads * 4, scales)
            full |= model({f"{attention}.kv_a_layernorm.weight": (8,), f"{prefix}.input_layernorm.weight": (hidden,),
                           f"{prefix}.post_attention_layernorm.weight": (hidden,)})
            mlps = {f"{prefix}.mlp": 32} if layer == 0 else {f"{prefix}.mlp.shared_experts": 16, **{f"{prefix}.mlp.experts.{e}": 8 for e in range(8)}}
            for mlp, ffn in mlps.items():
                self.add(full, f"{mlp}.gate_proj", ffn, hidden, scales)
                self.add(full, f"{mlp}.up_proj", ffn, hidden, scales)
                self.add(full, f"{mlp}.down_proj", hidden, ffn, scales)
            if layer > 0:
                full |= model({f"{prefix}.mlp.gate.weight": (8, hidden), f"{prefix}.mlp.gate.e_score_correction_bias": (8,)}, others=[("bias", "F32")])
            if layer == 2:  # multi-token prediction
                full |= model({f"{prefix}.embed_tokens.weight": (32, hidden), f"{prefix}.shared_head.head.weight": (32, hidden),
                               f"{prefix}.shared_head.norm.weight": (hidden,), f"{prefix}.enorm.weight": (hidden,), f"{prefix}.hnorm.weight": (hidden,),
                               f"{prefix}.eh_proj.weight": (hidden, 2 * hidden)})
        return full

    def held(self, full, name, tp, tp_size, ep, ep_size, etp, etp_size):
        """What a rank holds of a tensor, or None."""
        value, (*_, module, kind) = full[name], name.split(".")
        c, n = tp, tp_size
        if ".experts." in name:
            if int(name.split(".experts.")[1].split(".")[0]) not in part(range(self.experts), ep, ep_size):
                return None
            c, n = etp, etp_size
        if module in ("embed_tokens", "lm_head", "head"):
            return take(value, part(range(value.shape[0]), c, n))
        width = {"q_proj": 6, "q_b_proj": 6, "kv_b_proj": 8, "gate_proj": 1, "up_proj": 1, "o_proj": 4, "down_proj": 1}.get(module)
        if width is None:
            return value
        dim = 1 if module in ("o_proj", "down_proj") else 0
        length = full[name.replace("weight_scale_inv", "weight")].shape[dim]
        chosen = flat(part(blocks(length, width), c, n))
        if kind == "weight_scale_inv":
            self.assertEqual(chosen[0] % self.block, 0)
            self.assertEqual(len(chosen) % self.block, 0)
            chosen = scale_rows(chosen, self.block)
        return take(value, *([None] * dim), chosen)

    def ranks_of(self, full):
        def ranks(layout):
            result = []
            for tp, ep, etp in self.coordinates(layout):
                parts = {name: self.held(full, name, tp, layout["tp"], ep, layout["ep"], etp, layout["etp"]) for name in full}
                result.append({name: value for name, value in parts.items() if value is not None})
            return result
        return ranks

    def test_fp8_blocks(self):
        full = self.full_model(scales=True, q_lora=True)
        self.check(full, self.ranks_of(full), self.layout(2, 2, 2), self.layout(4, 8, 1), self.layout(4, 4, 1))

    def test_bf16_without_q_lora(self):
        full = self.full_model(scales=False, q_lora=False)
        full = {name: value for name, value in full.items() if "e_score_correction" not in name}
        self.check(full, self.ranks_of(full), self.layout(4, 4, 2), self.layout(2, 2, 1))

    def test_a_cut_inside_a_block_is_refused(self):
        source = self.full(self.full_model(scales=True, q_lora=True))
        result = self.run_plan(CONFIGS / self.config, source, *self.options(self.ones(), self.layout(1, 1, 4)))  # 8 rows of an expert over 4: half a block
        self.assert_exit(result, 4)
        self.assertIn("experts", result.err)


class GptOss(Experts):
    config = "gpt-oss.yaml"
    sizes = {"head_dim": 4, "kv_heads": 2}
    experts, ffn, hidden = 4, 12, 8

    def common(self, layer):
        attention = f"model.layers.{layer}.self_attn"
        return {**attention_shapes(attention, self.hidden, 8, 2, 4, "qkv"), f"{attention}.o_proj.bias": (self.hidden,), f"{attention}.sinks": (8,),
                f"model.layers.{layer}.mlp.router.weight": (self.experts, self.hidden), f"model.layers.{layer}.mlp.router.bias": (self.experts,),
                f"model.layers.{layer}.input_layernorm.weight": (self.hidden,), f"model.layers.{layer}.post_attention_layernorm.weight": (self.hidden,)}

    def full_model(self):
        shapes = {"model.embed_tokens.weight": (32, self.hidden), "lm_head.weight": (32, self.hidden), "model.norm.weight": (self.hidden,)}
        for layer in range(2):
            shapes |= self.common(layer) | {f"model.layers.{layer}.mlp.experts.{name}": shape for name, shape in self.expert_shapes().items()}
        return model(shapes, others=[("_blocks", "U8"), ("_scales", "U8")])

    def expert_shapes(self):
        return {"gate_up_proj": (self.experts, self.hidden, 2 * self.ffn), "gate_up_proj_bias": (self.experts, 2 * self.ffn),
                "down_proj": (self.experts, self.ffn, self.hidden), "down_proj_bias": (self.experts, self.hidden)}

    def ffn_rows(self, c, n):
        return part(range(self.ffn), c, n)

    def cut_expert(self, tensor_name, value, experts, c, n):
        rows = self.ffn_rows(c, n)
        gate_and_up = flat([2 * row, 2 * row + 1] for row in rows)
        chosen = {"gate_up_proj": (None, gate_and_up), "gate_up_proj_bias": (gate_and_up,), "down_proj": (rows,), "down_proj_bias": ()}[tensor_name]
        return take(value, experts, *chosen)

    def ranks_of(self, full):
        def ranks(layout):
            result = []
            for tp, ep, etp in self.coordinates(layout):
                held = {}
                for name, value in full.items():
                    if ".mlp.experts." in name:
                        held[name] = self.cut_expert(name.split(".")[-1], value, part(range(self.experts), ep, layout["ep"]), etp, layout["etp"])
                    elif name.endswith("sinks"):
                        held[name] = take(value, part(range(8), tp, layout["tp"]))
                    else:
                        held[name] = cut_dense(name, value, 4, tp, layout["tp"])
                result.append(held)
            return result
        return ranks

    def test_fused_experts(self):
        full = self.full_model()
        self.check(full, self.ranks_of(full), self.layout(4, 2, 2), self.layout(2, 1, 4), self.layout(2, 2, 3))


class GptOssMxfp4(GptOss):
    config = "gpt-oss-mxfp4.yaml"
    ffn, hidden = 5 * 32, 64

    def expert_shapes(self):
        return {"gate_up_proj_blocks": (self.experts, 2 * self.ffn, self.hidden // 32, 16), "gate_up_proj_scales": (self.experts, 2 * self.ffn, self.hidden // 32),
                "gate_up_proj_bias": (self.experts, 2 * self.ffn), "down_proj_blocks": (self.experts, self.hidden, self.ffn // 32, 16),
                "down_proj_scales": (self.experts, self.hidden, self.ffn // 32), "down_proj_bias": (self.experts, self.hidden)}

    def ffn_blocks(self, c, n):
        """Five blocks of 32 rows: over 2 they are 3 and 2, over 4 they are 2, 1, 1, 1."""
        counts = {1: [5], 2: [3, 2], 4: [2, 1, 1, 1]}[n]
        first = sum(counts[:c])
        return list(range(first, first + counts[c]))

    def cut_expert(self, tensor_name, value, experts, c, n):
        of_ffn = self.ffn_blocks(c, n)
        gate_and_up = flat([2 * row, 2 * row + 1] for block in of_ffn for row in range(32 * block, 32 * block + 32))
        if tensor_name == "down_proj_bias":
            return take(value, experts)
        return take(value, experts, gate_and_up) if tensor_name.startswith("gate_up_proj") else take(value, experts, None, of_ffn)

    def test_fused_experts(self):
        full = self.full_model()
        self.check(full, self.ranks_of(full), self.layout(4, 1, 4), self.layout(2, 4, 1), self.layout(4, 2, 2))


class Phi3(Config):
    config = "phi3.yaml"
    sizes = {"q_heads": 8, "kv_heads": 2, "head_dim": 4, "ffn": 24}

    def test_fused_projections(self):
        shapes = {"model.embed_tokens.weight": (32, 12), "lm_head.weight": (32, 12), "model.norm.weight": (12,)}
        for layer in range(2):
            prefix = f"model.layers.{layer}"
            shapes |= {f"{prefix}.self_attn.qkv_proj.weight": (48, 12), f"{prefix}.self_attn.o_proj.weight": (12, 32), f"{prefix}.mlp.gate_up_proj.weight": (48, 12),
                       f"{prefix}.mlp.down_proj.weight": (12, 24), f"{prefix}.input_layernorm.weight": (12,), f"{prefix}.post_attention_layernorm.weight": (12,)}
        full = model(shapes)

        def held(name, value, tp, size):
            if "qkv_proj" in name:
                kv = whole_heads(8, 4, tp, size)
                return take(value, joined((32, whole_heads(32, 4, tp, size)), (8, kv), (8, kv)))
            if "gate_up_proj" in name:
                half = part(range(24), tp, size)
                return take(value, joined((24, half), (24, half)))
            return cut_dense(name, value, 4, tp, size)

        self.check(full, lambda layout: [{name: held(name, value, tp, layout["tp"]) for name, value in full.items()} for tp in range(layout["tp"])],
                   self.layout(2), self.layout(8), self.layout(4))


class Mamba2(Config):
    config = "mamba2.yaml"

    def check_groups(self, groups, *layouts):
        heads, head_dim, state, hidden = 8, 2, 3, 10
        self.sizes = {"heads": heads, "head_dim": head_dim, "groups": groups, "state": state}
        inner, bc = heads * head_dim, groups * state
        shapes = {"backbone.embeddings.weight": (32, hidden), "lm_head.weight": (32, hidden), "backbone.norm_f.weight": (hidden,)}
        for layer in range(2):
            mixer = f"backbone.layers.{layer}.mixer"
            shapes |= {f"{mixer}.in_proj.weight": (2 * inner + 2 * bc + heads, hidden), f"{mixer}.conv1d.weight": (inner + 2 * bc, 1, 4),
                       f"{mixer}.conv1d.bias": (inner + 2 * bc,), f"{mixer}.A_log": (heads,), f"{mixer}.D": (heads,), f"{mixer}.dt_bias": (heads,),
                       f"{mixer}.norm.weight": (inner,), f"{mixer}.out_proj.weight": (hidden, inner), f"backbone.layers.{layer}.norm.weight": (hidden,)}
        full = model(shapes, dtype="F32")

        def held(name, value, tp, size):
            x = (inner, whole_heads(inner, head_dim, tp, size))
            b = (bc, whole_heads(bc, state, tp, size))
            of_heads = part(range(heads), tp, size)
            kind = name.split(".mixer.")[-1]
            if kind == "in_proj.weight":
                return take(value, joined(x, x, b, b, (heads, of_heads)))
            if kind.startswith("conv1d"):
                return take(value, joined(x, b, b))
            if kind in ("A_log", "D", "dt_bias"):
                return take(value, of_heads)
            if kind == "norm.weight":
                return take(value, x[1])
            if kind == "out_proj.weight":
                return take(value, None, x[1])
            return take(value, part(range(32), tp, size)) if value.shape[0] == 32 else value

        self.check(full, lambda layout: [{name: held(name, value, tp, layout["tp"]) for name, value in full.items()} for tp in range(layout["tp"])], *layouts)

    def test_groups_are_divided(self):
        self.check_groups(4, self.layout(4), self.layout(2))

    def test_groups_fewer_than_ranks_repeat(self):
        self.check_groups(2, self.layout(8), self.layout(2))

    def test_one_group(self):
        self.check_groups(1, self.layout(2), self.layout(4))


class MiniLm(Config):
    config = "minilm.yaml"
    sizes = {"head_dim": 4}

    def test_encoder(self):
        hidden, ffn, vocabulary = 16, 24, 10
        shapes = {"embeddings.word_embeddings.weight": (vocabulary, hidden), "embeddings.position_embeddings.weight": (6, hidden),
                  "embeddings.token_type_embeddings.weight": (2, hidden), "embeddings.LayerNorm.weight": (hidden,), "embeddings.LayerNorm.bias": (hidden,),
                  "pooler.dense.weight": (hidden, hidden), "pooler.dense.bias": (hidden,)}
        for layer in range(2):
            prefix = f"encoder.layer.{layer}"
            for name in ("query", "key", "value"):
                shapes |= {f"{prefix}.attention.self.{name}.weight": (hidden, hidden), f"{prefix}.attention.self.{name}.bias": (hidden,)}
            shapes |= {f"{prefix}.attention.output.dense.weight": (hidden, hidden), f"{prefix}.attention.output.dense.bias": (hidden,),
                       f"{prefix}.intermediate.dense.weight": (ffn, hidden), f"{prefix}.intermediate.dense.bias": (ffn,),
                       f"{prefix}.output.dense.weight": (hidden, ffn), f"{prefix}.output.dense.bias": (hidden,)}
            for place in ("attention.output", "output"):
                shapes |= {f"{prefix}.{place}.LayerNorm.weight": (hidden,), f"{prefix}.{place}.LayerNorm.bias": (hidden,)}
        full = model(shapes, dtype="F32")
        words = {1: [10], 2: [5, 5], 4: [3, 3, 2, 2]}

        def held(name, value, tp, size):
            if "word_embeddings" in name:
                first = sum(words[size][:tp])
                return take(value, range(first, first + words[size][tp]))
            if "attention.self" in name or "intermediate" in name:
                return take(value, part(range(value.shape[0]), tp, size))
            return take(value, None, part(range(value.shape[1]), tp, size)) if name.endswith("output.dense.weight") else value

        self.check(full, lambda layout: [{name: held(name, value, tp, layout["tp"]) for name, value in full.items()} for tp in range(layout["tp"])],
                   self.layout(2), self.layout(4))


class Megatron(Config):
    """Weights in Megatron's names with the sizes below; `vocabulary` is the true one."""
    hidden, ffn, groups, group, vocabulary, divisible = 20, 28, 4, 6, 13, 3

    def vocabulary_rows(self, value, tp, size):
        """The rows of the padded table that a rank holds."""
        return take(padded(value, round_up(self.vocabulary, self.divisible * size)), part(range(round_up(self.vocabulary, self.divisible * size)), tp, size))

    def layer_shapes(self, layer):
        prefix = f"decoder.layers.{layer}"
        qkv = self.groups * self.group
        return {f"{prefix}.self_attention.linear_qkv.layer_norm_weight": (self.hidden,), f"{prefix}.self_attention.linear_qkv.weight": (qkv, self.hidden),
                f"{prefix}.self_attention.linear_qkv.bias": (qkv,), f"{prefix}.self_attention.linear_proj.weight": (self.hidden, 16),
                f"{prefix}.self_attention.linear_proj.bias": (self.hidden,), f"{prefix}.mlp.linear_fc1.layer_norm_weight": (self.hidden,),
                f"{prefix}.mlp.linear_fc1.weight": (2 * self.ffn, self.hidden), f"{prefix}.mlp.linear_fc1.bias": (2 * self.ffn,),
                f"{prefix}.mlp.linear_fc2.weight": (self.hidden, self.ffn), f"{prefix}.mlp.linear_fc2.bias": (self.hidden,)}

    def tensor_parallel(self, name, value, tp, size):
        if name.startswith(("embedding.", "output_layer.")):
            return self.vocabulary_rows(value, tp, size)
        if name.endswith(("linear_qkv.weight", "linear_qkv.bias")):
            return take(value, whole_heads(value.shape[0], self.group, tp, size))
        if name.endswith(("linear_fc1.weight", "linear_fc1.bias")):
            half = part(range(self.ffn), tp, size)
            return take(value, joined((self.ffn, half), (self.ffn, half)))
        if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
            return take(value, None, part(range(value.shape[1]), tp, size))
        return value

    def model_of_layers(self, layers):
        shapes = {"embedding.word_embeddings.weight": (self.vocabulary, self.hidden), "decoder.final_layernorm.weight": (self.hidden,),
                  "output_layer.weight": (self.vocabulary, self.hidden)}
        for layer in range(layers):
            shapes |= self.layer_shapes(layer)
        return model(shapes)

    def stored(self, full):
        """The full checkpoint as it lies in one file: with the padding of the vocabulary."""
        return {name: self.vocabulary_rows(value, 0, 1) if value.shape[0] == self.vocabulary else value for name, value in full.items()}


class MegatronGpt(Megatron):
    config = "megatron-gpt.yaml"
    degrees = ("tp", "pp")
    sizes = {"layers": 4, "ffn": 28, "qkv_unit": 6, "vocab": 13, "vocab_divisible_by": 3}

    def ranks_of(self, full):
        def ranks(layout):
            result = []
            for pp, tp in itertools.product(range(layout["pp"]), range(layout["tp"])):
                per_stage, held = 4 // layout["pp"], {}
                for name, value in full.items():
                    stored_name = name
                    if name.startswith("decoder.layers."):
                        _, _, layer, rest = name.split(".", 3)
                        if int(layer) // per_stage != pp:
                            continue
                        stored_name = f"decoder.layers.{int(layer) % per_stage}.{rest}"
                    elif pp != (0 if name.startswith("embedding.") else layout["pp"] - 1):
                        continue
                    held[stored_name] = self.tensor_parallel(name, value, tp, layout["tp"])
                result.append(held)
            return result
        return ranks

    def test_stages_and_tensor_parallel(self):
        full = self.model_of_layers(4)
        self.check(self.stored(full), self.ranks_of(full), self.layout(2, 2), self.layout(4, 1), self.layout(1, 4))

    def test_more_ranks_than_groups(self):
        self.sizes = {**self.sizes, "qkv_unit": 1}
        self.group = 1
        self.groups = 24
        self.ffn = 32
        self.sizes["ffn"] = 32
        full = self.model_of_layers(4)
        self.check(self.stored(full), self.ranks_of(full), self.layout(8, 1))

    def test_extra_state_is_left_out(self):
        full = self.model_of_layers(4)
        source = self.full({**self.stored(full), "decoder.layers.0.mlp.linear_fc1._extra_state": iota(7, dtype="U8")})
        self.check_path([(None, self.ones()), (None, self.layout(2, 1))], source, self.ranks_of(full))


class MegatronGtp(Megatron):
    config = "megatron-gtp.yaml"
    degrees = ("tp", "gtp")
    align = 2
    sizes = {"hidden": 20, "ffn": 28, "qkv": 24, "qkv_unit": 6, "vocab": 13, "vocab_divisible_by": 3, "align": 2}

    def ranks_of(self, full):
        def held(name, value, tp, gtp, layout):
            local = self.tensor_parallel(name, value, tp, layout["tp"])
            if layout["gtp"] == 1 or len(local.shape) < 2:
                return local
            rows = round_up(local.shape[0], self.align * layout["gtp"])
            return take(padded(local, rows), part(range(rows), gtp, layout["gtp"]))

        return lambda layout: [{name: held(name, value, tp, gtp, layout) for name, value in full.items()}
                               for gtp, tp in itertools.product(range(layout["gtp"]), range(layout["tp"]))]

    def test_second_cut_and_padding(self):
        full = self.model_of_layers(2)
        self.check(self.stored(full), self.ranks_of(full), self.layout(2, 3), self.layout(4, 1), self.layout(1, 4), self.layout(2, 2))


# Context parallel

def zigzag(length, cp, c):
    chunks = part_list(range(length), 2 * cp)
    return list(range(length)) if cp == 1 else chunks[c] + chunks[2 * cp - 1 - c]


def part_list(items, n):
    return [part(items, c, n) for c in range(n)]


def packed_zigzag(offsets, cp, c, inner):
    """Token numbers that coordinate c holds of sequences that end at `offsets`; PAD is temporary padding. The last sequence grows
    until the piece divides by lcm(2, inner)."""
    lengths = [end - first for first, end in zip(offsets, offsets[1:])]
    if cp == 1:
        return list(range(offsets[-1]))
    stretched = [round_up(length, 2 * cp) for length in lengths]
    while (sum(stretched) // cp) % (inner if inner % 2 == 0 else 2 * inner):
        stretched[-1] += cp
    held = []
    for first, length, full_length in zip(offsets, lengths, stretched):
        tokens = [first + i if i < length else PAD for i in range(full_length)]
        chunks = part_list(tokens, 2 * cp)
        held += chunks[c] + chunks[2 * cp - 1 - c]
    return held


class ContextParallel(Config):
    degrees = ("cp", "tp")
    offsets = [0, 3, 3, 10, 16]

    def full_set(self):
        batch = {name: iota(2, 16, dtype="I64", first=1) for name in ("tokens", "labels", "position_ids")}
        return {"hidden_states.0": noise("h0", 16, 2, 3), "hidden_states.1": noise("h1", 16, 2, 3, dtype="BF16"), **batch,
                "loss_mask": noise("mask", 2, 16), "attention_mask": noise("attention", 2, 1, 16, 16, dtype="BOOL"),
                "packed.hidden_states.0": noise("p", 16, 5), "packed.tokens": iota(16, dtype="I64", first=100), "packed.labels": iota(16, dtype="I64", first=101),
                "packed.loss_mask": noise("pm", 16), "packed.position_ids": iota(16, dtype="I64"),
                "cu_seqlens": tensor("I32", [len(self.offsets)], self.offsets)}

    def ranks_of(self, full):
        def held(name, value, c, t, layout):
            cp, tp, is_zigzag = layout["cp"], layout["tp"], layout["zigzag"]
            if name == "cu_seqlens":
                return value
            inner = tp if "hidden_states" in name else 1
            if name.startswith("packed."):
                tokens = packed_zigzag(self.offsets, cp, c, inner) if is_zigzag else part(range(16), c, cp)
            else:
                tokens = zigzag(16, cp, c) if is_zigzag else part(range(16), c, cp)
            if inner > 1:
                tokens = part(tokens, t, tp)
            dim = 0 if inner > 1 or "hidden_states" in name or name.startswith("packed.") else 2 if name == "attention_mask" else 1
            return take(value, *([None] * dim), tokens)

        return lambda layout: [{name: held(name, value, c, t, layout) for name, value in full.items()}
                               for c, t in itertools.product(range(layout["cp"]), range(layout["tp"]))]

    def options(self, before, after):
        return super().options({key: before[key] for key in self.degrees}, {key: after[key] for key in self.degrees})

    def there_and_back(self, *steps):
        """Steps are (cp, tp, zigzag); which of the two plans a step takes follows from where it goes."""
        full = self.full_set()
        written = [({True: "cp-zigzag.yaml", False: "cp-contiguous.yaml"}[is_zigzag], {"cp": cp, "tp": tp, "zigzag": is_zigzag}) for cp, tp, is_zigzag in steps]
        self.check_path([(None, {"cp": 1, "tp": 1, "zigzag": False}), *written], self.full(full), self.ranks_of(full))


class CpZigzag(ContextParallel):
    config = "cp-zigzag.yaml"

    def test_from_one_file_and_back(self):
        self.there_and_back((2, 2, True), (2, 2, False), (4, 1, True), (1, 1, False))

    def test_dense_alone(self):
        full = {name: value for name, value in self.full_set().items() if name.startswith("hidden_states")}
        source = self.full(full)
        target = self.convert(CONFIGS / self.config, source, "--allow-missing", *self.options({"cp": 1, "tp": 1}, {"cp": 2, "tp": 1}))
        self.assert_files(target, self.ranks_of(full)({"cp": 2, "tp": 1, "zigzag": True}))


class CpContiguous(ContextParallel):
    config = "cp-contiguous.yaml"

    def test_to_other_sizes(self):
        self.there_and_back((4, 2, True), (2, 4, False), (2, 4, True), (1, 4, False), (2, 1, True), (1, 1, False))


class RealSizes(Case):
    """The plans with their defaults on the headers of a real model (the data is a hole in the file)."""

    def headers(self, shapes):
        """A full checkpoint: shapes by name, BF16 or (dtype, shape)."""
        entries, end = {}, 0
        for name, shape in shapes.items():
            dtype, shape = shape if isinstance(shape[0], str) else ("BF16", shape)
            size = count(shape) * ELEMENT_BYTES[dtype]
            entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
            end += size
        header = json.dumps(entries).encode()
        path = self.dir / "model.safetensors"
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + end)
        return path

    def check(self, config, shapes, settings, expected):
        """`expected`: the stored shapes of target rank 0."""
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        result = self.reshard("plan", CONFIGS / config, "--source", self.headers(shapes), "--report", "json", *options)
        self.assert_exit(result, 0)
        found = {value["name"]: value for value in result.json()["tensors"]}
        self.assertEqual(set(found), set(shapes))
        self.assertEqual({name: found[name]["target_shard_shape"] for name in expected}, expected)

    def layer_0(self, hidden, vocabulary, attention, **more):
        return {"model.embed_tokens.weight": (vocabulary, hidden), "lm_head.weight": (vocabulary, hidden), "model.norm.weight": (hidden,),
                **attention_shapes("model.layers.0.self_attn", hidden, *attention), **{f"model.layers.0.{name}": shape for name, shape in more.items()}}

    def test_llama_3_8b_on_16_ranks(self):
        shapes = self.layer_0(4096, 128256, (32, 8, 128), **{"mlp.gate_proj.weight": (14336, 4096), "mlp.up_proj.weight": (14336, 4096), "mlp.down_proj.weight": (4096, 14336)})
        self.check("llama3-tp.yaml", shapes, {"source_tp": 1, "target_tp": 16}, {
            "model.layers.0.self_attn.q_proj.weight": [256, 4096], "model.layers.0.self_attn.k_proj.weight": [128, 4096],
            "model.layers.0.self_attn.o_proj.weight": [4096, 256], "model.layers.0.mlp.down_proj.weight": [4096, 896]})

    def test_qwen3_30b_a3b(self):
        experts = {f"mlp.experts.{expert}.{name}.weight": shape for expert in range(128)
                   for name, shape in (("gate_proj", (768, 2048)), ("up_proj", (768, 2048)), ("down_proj", (2048, 768)))}
        shapes = self.layer_0(2048, 151936, (32, 4, 128), **{"mlp.gate.weight": (128, 2048), "self_attn.q_norm.weight": (128,)}, **experts)
        self.check("qwen3-moe.yaml", shapes, {}, {"model.layers.0.self_attn.k_proj.weight": [256, 2048], "model.layers.0.mlp.experts.15.up_proj.weight": [768, 2048]})

    def test_deepseek_v3(self):
        shapes = {"model.embed_tokens.weight": (129280, 7168), "lm_head.weight": (129280, 7168), "model.norm.weight": (7168,)}

        def add(name, out, columns):
            shapes[f"{name}.weight"] = ("F8_E4M3", (out, columns))
            shapes[f"{name}.weight_scale_inv"] = ("F32", (-(-out // 128), -(-columns // 128)))

        for layer in (0, 3):
            attention, mlp = f"model.layers.{layer}.self_attn", f"model.layers.{layer}.mlp"
            for name, out, columns in (("q_a_proj", 1536, 7168), ("q_b_proj", 24576, 1536), ("kv_a_proj_with_mqa", 576, 7168), ("kv_b_proj", 32768, 512), ("o_proj", 7168, 16384)):
                add(f"{attention}.{name}", out, columns)
            for prefix, ffn in ([(mlp, 18432)] if layer == 0 else [(f"{mlp}.shared_experts", 2048), *((f"{mlp}.experts.{expert}", 2048) for expert in range(256))]):
                add(f"{prefix}.gate_proj", ffn, 7168)
                add(f"{prefix}.up_proj", ffn, 7168)
                add(f"{prefix}.down_proj", 7168, ffn)
        shapes |= {"model.layers.3.mlp.gate.weight": (256, 7168), "model.layers.3.mlp.gate.e_score_correction_bias": ("F32", (256,))}
        attention = "model.layers.0.self_attn"
        self.check("deepseek-v3.yaml", shapes, {"target_tp": 16, "target_ep": 32}, {
            f"{attention}.q_b_proj.weight": [1536, 1536], f"{attention}.q_b_proj.weight_scale_inv": [12, 12], f"{attention}.kv_b_proj.weight_scale_inv": [16, 4],
            f"{attention}.kv_a_proj_with_mqa.weight_scale_inv": [5, 56], f"{attention}.o_proj.weight_scale_inv": [56, 8],
            "model.layers.0.mlp.gate_proj.weight_scale_inv": [9, 56], "model.layers.3.mlp.shared_experts.down_proj.weight": [7168, 128],
            "model.layers.3.mlp.experts.7.down_proj.weight": [7168, 2048]})

    def test_gpt_oss_20b(self):
        attention = {"self_attn.q_proj.bias": (4096,), "self_attn.k_proj.bias": (512,), "self_attn.v_proj.bias": (512,), "self_attn.o_proj.bias": (2880,),
                     "self_attn.sinks": (64,), "mlp.router.weight": (32, 2880), "mlp.router.bias": (32,),
                     "mlp.experts.gate_up_proj_bias": (32, 5760), "mlp.experts.down_proj_bias": (32, 2880)}
        fp4 = {"mlp.experts.gate_up_proj_blocks": ("U8", (32, 5760, 90, 16)), "mlp.experts.gate_up_proj_scales": ("U8", (32, 5760, 90)),
               "mlp.experts.down_proj_blocks": ("U8", (32, 2880, 90, 16)), "mlp.experts.down_proj_scales": ("U8", (32, 2880, 90))}
        experts = "model.layers.0.mlp.experts"
        self.check("gpt-oss-mxfp4.yaml", self.layer_0(2880, 201088, (64, 8, 64), **attention, **fp4), {}, {
            f"{experts}.gate_up_proj_blocks": [32, 1472, 90, 16], f"{experts}.gate_up_proj_bias": [32, 1472], f"{experts}.down_proj_blocks": [32, 2880, 23, 16],
            f"{experts}.down_proj_bias": [32, 2880], "model.layers.0.self_attn.sinks": [16]})
        bf16 = {"mlp.experts.gate_up_proj": (32, 2880, 5760), "mlp.experts.down_proj": (32, 2880, 2880)}
        self.check("gpt-oss.yaml", self.layer_0(2880, 201088, (64, 8, 64), **attention, **bf16), {}, {
            f"{experts}.gate_up_proj": [16, 2880, 2880], f"{experts}.down_proj": [16, 1440, 2880], f"{experts}.down_proj_bias": [16, 2880]})

    def test_llama_2_7b_with_a_second_cut(self):
        shapes = {"embedding.word_embeddings.weight": (32000, 4096), "output_layer.weight": (32000, 4096), "decoder.final_layernorm.weight": (4096,)}
        for name, shape in (("self_attention.linear_qkv", (12288, 4096)), ("self_attention.linear_proj", (4096, 4096)), ("mlp.linear_fc1", (22016, 4096)), ("mlp.linear_fc2", (4096, 11008))):
            shapes[f"decoder.layers.0.{name}.weight"] = shape
        self.check("megatron-gtp.yaml", shapes, {"source_tp": 1, "source_gtp": 1, "target_tp": 2, "target_gtp": 3}, {
            "decoder.layers.0.mlp.linear_fc1.weight": [3680, 4096], "decoder.layers.0.mlp.linear_fc2.weight": [1376, 5504],
            "decoder.layers.0.self_attention.linear_qkv.weight": [2048, 4096], "embedding.word_embeddings.weight": [5344, 4096]})


class RealCheckpoints(Case):
    """The plans give what other software holds on each rank (tests/data/real/README.md)."""

    def check(self, config, checkpoint, expected, **settings):
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        target = self.convert(CONFIGS / config, DATA / "real" / checkpoint / "full", *options)
        theirs = sorted((DATA / "real" / checkpoint / expected).glob("rank-*.safetensors"))
        self.assertEqual(len(theirs), settings["target_tp"])
        self.assert_files(target, [read_safetensors(path) for path in theirs])

    def test_llama_of_transformers(self):
        self.check("llama3-tp.yaml", "llama", "tp2-transformers", source_tp=1, target_tp=2, head_dim=8, kv_heads=2)
        self.check("llama3-tp.yaml", "llama", "tp4-expected", source_tp=1, target_tp=4, head_dim=8, kv_heads=2)

    def test_phi3_of_transformers(self):
        self.check("phi3.yaml", "phi3", "tp4-expected", target_tp=4, q_heads=8, kv_heads=2, head_dim=8, ffn=96)

    def test_mamba2_of_transformers(self):
        self.check("mamba2.yaml", "mamba2", "tp2-expected", target_tp=2, heads=8, head_dim=16, groups=2, state=16)


class ReadmeTable(Case):
    def test_every_rule_of_the_table_of_layouts(self):
        section = (REPOSITORY / "README.md").read_text(encoding="utf-8").split("\n## Layouts\n")[1].split("\n## ")[0]
        rules = re.findall(r"`(\{match: .*?\})`(?=[ ,|])", section)
        self.assertGreaterEqual(len(rules), 30)
        side = "{axes: [pp=2, dp=2, cp=2, gtp=2, tp=4], views: {expert: [pp=2, ep=8, etp=4]}}"
        for rule in rules:
            with self.subTest(rule=rule):
                plan = self.plan(f"reshard: 1\nsource: {side}\ntarget: {side}\ntensors:\n  - {rule}\n")
                self.assert_exit(self.reshard("plan", plan, "--check"), 0)


class Coverage(Case):
    def test_every_plan_of_the_directory_has_a_case(self):
        def below(one):
            return [one, *(further for child in one.__subclasses__() for further in below(child))]
        covered = {one.config for one in below(Config) if any(name.startswith("test_") for name in dir(one))}
        self.assertEqual({path.name for path in CONFIGS.iterdir() if path.suffix in (".yaml", ".yml")}, covered)

"""Shapes of published models, as lists of tensors. The bytes are made up (checkpoint.py), the shapes are not."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Tensor:
    """`dim`: the dimension that tensor parallelism cuts, None for a tensor that every rank has whole. `expert`: its number where one
    rank of an expert parallel group has it."""
    name: str
    shape: tuple
    dim: int = None
    expert: int = None

    @property
    def elements(self):
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Dense:
    """A Llama-like model with tied embeddings."""
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    layers: int

    def tensors(self, layers):
        yield Tensor("model.embed_tokens.weight", (self.vocabulary, self.hidden), 0)
        for layer in range(layers):
            prefix = f"model.layers.{layer}."
            yield Tensor(prefix + "input_layernorm.weight", (self.hidden,))
            yield Tensor(prefix + "mlp.down_proj.weight", (self.hidden, self.ffn), 1)
            yield Tensor(prefix + "mlp.gate_proj.weight", (self.ffn, self.hidden), 0)
            yield Tensor(prefix + "mlp.up_proj.weight", (self.ffn, self.hidden), 0)
            yield Tensor(prefix + "post_attention_layernorm.weight", (self.hidden,))
            yield Tensor(prefix + "self_attn.k_proj.weight", (self.kv_heads * self.head_dim, self.hidden), 0)
            yield Tensor(prefix + "self_attn.o_proj.weight", (self.hidden, self.heads * self.head_dim), 1)
            yield Tensor(prefix + "self_attn.q_proj.weight", (self.heads * self.head_dim, self.hidden), 0)
            yield Tensor(prefix + "self_attn.v_proj.weight", (self.kv_heads * self.head_dim, self.hidden), 0)
        yield Tensor("model.norm.weight", (self.hidden,))


@dataclasses.dataclass(frozen=True)
class Experts:
    """The experts of a mixture, one tensor per expert and projection."""
    hidden: int
    ffn: int
    experts: int
    layers: int

    def tensors(self, layers):
        for layer in range(layers):
            for expert in range(self.experts):
                prefix = f"model.layers.{layer}.mlp.experts.{expert}."
                yield Tensor(prefix + "down_proj.weight", (self.hidden, self.ffn), expert=expert)
                yield Tensor(prefix + "gate_proj.weight", (self.ffn, self.hidden), expert=expert)
                yield Tensor(prefix + "up_proj.weight", (self.ffn, self.hidden), expert=expert)


LLAMA = Dense(hidden=2048, heads=32, kv_heads=8, head_dim=64, ffn=8192, vocabulary=128256, layers=16)  # Llama-3.2-1B
QWEN = Dense(hidden=2560, heads=32, kv_heads=8, head_dim=128, ffn=9728, vocabulary=151936, layers=36)  # Qwen3-4B
MIXTURE = Experts(hidden=2048, ffn=768, experts=64, layers=48)  # Qwen3-30B-A3B, every second of its 128 experts

# The same structure in kilobytes, to try the cases out.
TINY_LLAMA = Dense(hidden=128, heads=16, kv_heads=8, head_dim=16, ffn=256, vocabulary=1024, layers=16)
TINY_QWEN = Dense(hidden=128, heads=16, kv_heads=8, head_dim=16, ffn=272, vocabulary=1016, layers=36)
TINY_MIXTURE = Experts(hidden=32, ffn=16, experts=16, layers=48)


def fitting(model, element_bytes, limit_bytes):
    """The tensors of the model with as many of its layers as make at most `limit_bytes`, at least one."""
    def size(layers):
        return element_bytes * sum(tensor.elements for tensor in model.tensors(layers))
    one, two = size(1), size(2)
    layers = 1 + (limit_bytes - one) // (two - one)
    return list(model.tensors(max(1, min(model.layers, layers))))

#!/usr/bin/env python3
"""Writes a small Llama-like checkpoint as tensor parallel rank files: about 20 MB of pseudo-random bf16 weights, the same on every
machine. Heads and KV heads are those of Llama-3-8B (128 wide, 8 KV heads), so that configs/llama3-tp.yaml fits; everything else is
smaller. Python's standard library only.
"""

import argparse
import json
import pathlib
import random
import struct

HEAD_DIM, HEADS, KV_HEADS = 128, 16, 8
HIDDEN, MLP, VOCABULARY, LAYERS = 512, 1024, 1024, 2


def model():
    """(name, rows, columns, dim that tensor parallelism cuts): columns is 0 for a vector, dim None for a whole tensor."""
    yield "model.embed_tokens.weight", VOCABULARY, HIDDEN, 0
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", HIDDEN, 0, None
        yield prefix + "self_attn.q_proj.weight", HEADS * HEAD_DIM, HIDDEN, 0
        yield prefix + "self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN, 0
        yield prefix + "self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN, 0
        yield prefix + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM, 1
        yield prefix + "post_attention_layernorm.weight", HIDDEN, 0, None
        yield prefix + "mlp.gate_proj.weight", MLP, HIDDEN, 0
        yield prefix + "mlp.up_proj.weight", MLP, HIDDEN, 0
        yield prefix + "mlp.down_proj.weight", HIDDEN, MLP, 1
    yield "model.norm.weight", HIDDEN, 0, None
    yield "lm_head.weight", VOCABULARY, HIDDEN, 0


def weights(name, elements):
    """bf16 numbers between 2^-7 and 2^-3 in size, of either sign, that follow from the name."""
    data = bytearray(random.Random(name).randbytes(2 * elements))
    high = bytes((byte & 0x80) | (0x3C if byte & 1 else 0x3D) for byte in range(256))
    data[1::2] = data[1::2].translate(high)
    return bytes(data)


def rank_slice(data, rows, columns, dim, rank, ranks):
    """The part of a row-major bf16 matrix or vector that a rank stores, and its shape."""
    if dim is None:
        return data, [rows, columns] if columns else [rows]
    if dim == 0:
        part = rows // ranks
        return data[2 * columns * part * rank:2 * columns * part * (rank + 1)], [part, columns]
    part = columns // ranks
    return b"".join(data[2 * (row * columns + part * rank):2 * (row * columns + part * (rank + 1))] for row in range(rows)), [rows, part]


def write_safetensors(path, tensors):
    """One file: 8 bytes of header length, the header in JSON, the tensors one after the other."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (data, shape) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for data, _ in tensors.values():
            file.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(": about")[0])
    parser.add_argument("folder", type=pathlib.Path, help="written to; made if it is not there")
    parser.add_argument("--tp", type=int, default=2, choices=(1, 2, 4, 8), help="tensor parallel ranks (default 2)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tensors = [(name, rows, columns, dim, weights(name, rows * (columns or 1))) for name, rows, columns, dim in model()]
    for rank in range(arguments.tp):
        file = "model.safetensors" if arguments.tp == 1 else f"rank-{rank:05}.safetensors"
        write_safetensors(arguments.folder / file, {name: rank_slice(data, rows, columns, dim, rank, arguments.tp)
                                                    for name, rows, columns, dim, data in tensors})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": MLP,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "num_hidden_layers": LAYERS,
              "vocab_size": VOCABULARY, "torch_dtype": "bfloat16"}
    (arguments.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    size = sum(len(data) for *_, data in tensors)
    print(f"{arguments.folder}: {len(tensors)} tensors, {size / 1e6:.1f} MB, {arguments.tp} rank file{'s' if arguments.tp > 1 else ''}")


if __name__ == "__main__":
    main()

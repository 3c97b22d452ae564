#!/usr/bin/env python3
"""Puts the tensors of two demonstration checkpoints together, each from its own rank files, and compares them. It reads safetensors
itself and shares no code with reshard; Python's standard library only.
"""

import argparse
import json
import pathlib
import struct
import sys


def read(path):
    """{name: (rows of bytes, shape)}: a matrix as the list of its rows, a vector as one row."""
    content = path.read_bytes()
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            rows = entry["shape"][0] if len(entry["shape"]) == 2 else 1
            width = (end - begin) // rows
            tensors[name] = [content[begin + row * width:begin + (row + 1) * width] for row in range(rows)]
    return tensors


def assemble(folder):
    """The whole tensors of a tensor parallel checkpoint by Megatron's rules: column-parallel weights one under the other,
    row-parallel ones side by side, norms once."""
    ranks = [read(path) for path in sorted(folder.glob("*.safetensors"))]
    whole = {}
    for name in ranks[0]:
        parts = [rank[name] for rank in ranks]
        if name.endswith("norm.weight"):
            assert all(part == parts[0] for part in parts), f"{folder}: the copies of {name} differ"
            whole[name] = parts[0]
        elif "o_proj" in name or "down_proj" in name:
            whole[name] = [b"".join(row) for row in zip(*parts)]
        else:
            whole[name] = [row for part in parts for row in part]
    return len(ranks), whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(". It")[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    arguments = parser.parse_args()
    source_ranks, source = assemble(arguments.source)
    target_ranks, target = assemble(arguments.target)
    if source.keys() != target.keys():
        sys.exit(f"tensors on one side only: {sorted(source.keys() ^ target.keys())}")
    different = [name for name in source if source[name] != target[name]]
    if different:
        sys.exit(f"different: {different}")
    size = sum(len(row) for rows in source.values() for row in rows)
    print(f"equal: {len(source)} tensors, {size} bytes, from {source_ranks} and from {target_ranks} files")


if __name__ == "__main__":
    main()

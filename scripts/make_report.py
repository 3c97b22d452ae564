#!/usr/bin/env python3
"""Writes the inspect report of a mixture-of-experts checkpoint that nobody has to own, and the plan that takes it to another mesh:
a dry run of any size on one core.

  scripts/make_report.py build/moe                                          31,283 tensors on 1,024 ranks, to 2,048
  scripts/make_report.py build/large --layers 336 --experts 1024            1,034,547 tensors
  reshard plan build/moe/plan.yaml --source build/moe/report.json --processes 64

A stage of the pipeline has ranks dp x tp; its experts are dealt over all of them (axis ep). Python's standard library only.
"""

import argparse
import json
import pathlib

RULES = """\
  - match: "{model.embed_tokens,lm_head}.weight"
    shard: {0: tp}
  - match: "model.norm.weight"
  - match: "model.layers.*.self_attn.{q,k,v}_proj.weight"
    owner: {pp: "$1/${layers}"}
    shard: {0: {axes: tp, unit: 128}}
  - match: "model.layers.*.self_attn.o_proj.weight"
    owner: {pp: "$1/${layers}"}
    shard: {1: {axes: tp, unit: 128}}
  - match: "model.layers.*.mlp.experts.*.{gate,up,down}_proj.weight"
    view: expert
    owner: {pp: "$1/${layers}", ep: "$2/${experts}"}
  - match: "model.layers.*.{mlp.gate,input_layernorm,post_attention_layernorm}.weight"
    owner: {pp: "$1/${layers}"}
"""


def sides(mesh, experts):
    """The axes of a side as a plan writes them; experts over as many ranks of a stage as divide their number."""
    ranks = mesh["dp"] * mesh["tp"]
    ep = max(n for n in range(1, ranks + 1) if ranks % n == 0 and experts % n == 0)
    axes = ", ".join(f"{axis}={size}" for axis, size in mesh.items())
    return f"{{axes: [{axes}], views: {{expert: [pp={mesh['pp']}, copy={ranks // ep}, ep={ep}]}}, format: safetensors}}"


def tensors(arguments, mesh):
    """Name, stored shape and the runs of ranks that have it."""
    hidden, layers, experts = arguments.hidden, arguments.layers, arguments.experts
    per_stage = mesh["dp"] * mesh["tp"]
    everywhere = [(0, mesh["pp"] * per_stage - 1)]
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        yield name, [arguments.vocabulary // mesh["tp"], hidden], everywhere
    yield "model.norm.weight", [hidden], everywhere
    ep = max(n for n in range(1, per_stage + 1) if per_stage % n == 0 and experts % n == 0)
    for layer in range(layers):
        first = layer * mesh["pp"] // layers * per_stage
        stage = [(first, first + per_stage - 1)]
        prefix = f"model.layers.{layer}."
        for part in "qkv":
            yield f"{prefix}self_attn.{part}_proj.weight", [hidden // mesh["tp"], hidden], stage
        yield f"{prefix}self_attn.o_proj.weight", [hidden, hidden // mesh["tp"]], stage
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{norm}.weight", [hidden], stage
        yield f"{prefix}mlp.gate.weight", [experts, hidden], stage
        for expert in range(experts):
            ranks = [(first + copy * ep + expert * ep // experts,) * 2 for copy in range(per_stage // ep)]
            for part, shape in (("gate", [arguments.ffn, hidden]), ("up", [arguments.ffn, hidden]), ("down", [hidden, arguments.ffn])):
                yield f"{prefix}mlp.experts.{expert}.{part}_proj.weight", shape, ranks


def mesh_of(text):
    mesh = {axis: int(size) for axis, size in (part.split("=") for part in text.split(","))}
    if list(mesh) != ["pp", "dp", "tp"]:
        raise argparse.ArgumentTypeError("expected pp=A,dp=B,tp=C")
    return mesh


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="gets report.json and plan.yaml")
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--experts", type=int, default=128, help="per layer")
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--ffn", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=131072)
    parser.add_argument("--source", type=mesh_of, default="pp=8,dp=16,tp=8", help="pp=A,dp=B,tp=C (default: %(default)s)")
    parser.add_argument("--target", type=mesh_of, default="pp=16,dp=32,tp=4", help="(default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.layers < 1 or any(arguments.layers % mesh["pp"] for mesh in (arguments.source, arguments.target)):
        parser.error("the layers are not a multiple of both sides' pp")

    arguments.folder.mkdir(parents=True, exist_ok=True)
    ranks = arguments.source["pp"] * arguments.source["dp"] * arguments.source["tp"]
    total = count = 0
    with open(arguments.folder / "report.json", "w") as out:
        entries = []
        for name, shape, runs in tensors(arguments, arguments.source):
            elements = 1
            for extent in shape:
                elements *= extent
            total += 2 * elements * sum(last - first + 1 for first, last in runs)
            count += 1
            entries.append(json.dumps({"name": name, "dtype": "bf16", "stored": [[shape, run] for run in runs], "global_shape": None}))
        out.write(f'{{"schema": "reshard.inspect", "version": 1, "format": "safetensors", "ranks": {ranks}, "axes": null, "files": null, '
                  f'"bytes": {total}, "tensors": [{", ".join(entries)}], "warnings": []}}\n')
    (arguments.folder / "plan.yaml").write_text(
        f"reshard: 1\nvars: {{layers: {arguments.layers}, experts: {arguments.experts}}}\n"
        f"source: {sides(arguments.source, arguments.experts)}\ntarget: {sides(arguments.target, arguments.experts)}\ntensors:\n{RULES}")
    print(f"{arguments.folder}: {count} tensors, {total} bytes on {ranks} ranks")


if __name__ == "__main__":
    main()

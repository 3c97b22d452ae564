"""What people do without reshard: for every file of the target, slice and join the tensors of the source, and save.

usage: incumbent.py VARIANT JOB TARGET      VARIANT: numpy, torch or h5py

JOB is JSON: {"source": folder, "dtype": null or "F32", "files": {file name: {tensor: recipe}}}; a recipe has "pieces", a list of
[source file, [[begin, end] per dimension]], that are joined along "dim", and "rows", to which zeros are added, or null. The last
line of the output is JSON: the peak of resident memory.
"""

import json
import pathlib
import re
import sys


def numpy_library():
    import numpy
    from safetensors import safe_open
    from safetensors.numpy import save_file

    def pad(tensor, rows):
        return numpy.concatenate([tensor, numpy.zeros((rows - tensor.shape[0], *tensor.shape[1:]), tensor.dtype)])

    return {"open": lambda path: safe_open(path, framework="np"), "slice": lambda file, name: file.get_slice(name), "save": save_file,
            "join": lambda parts, dim: numpy.concatenate(parts, axis=dim), "pad": pad, "finish": numpy.ascontiguousarray}


def torch_library(dtype):
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    def pad(tensor, rows):
        return torch.cat([tensor, torch.zeros((rows - tensor.shape[0], *tensor.shape[1:]), dtype=tensor.dtype)])

    def finish(tensor):
        return (tensor.to(torch.float32) if dtype == "F32" else tensor).contiguous()

    return {"open": lambda path: safe_open(path, framework="pt"), "slice": lambda file, name: file.get_slice(name), "save": save_file,
            "join": lambda parts, dim: torch.cat(parts, dim=dim), "pad": pad, "finish": finish}


def h5py_library():
    import h5py
    return {**numpy_library(), "open": lambda path: h5py.File(path, "r"), "slice": lambda file, name: file[name]}


def main():
    variant, job, target = sys.argv[1:]
    job = json.loads(pathlib.Path(job).read_text())
    library = {"numpy": numpy_library, "torch": lambda: torch_library(job["dtype"]), "h5py": h5py_library}[variant]()
    pathlib.Path(target).mkdir()
    opened = {}
    for file, tensors in job["files"].items():
        out = {}
        for name, recipe in tensors.items():
            parts = []
            for source, ranges in recipe["pieces"]:
                if source not in opened:
                    opened[source] = library["open"](str(pathlib.Path(job["source"], source)))
                whole = library["slice"](opened[source], name)
                parts.append(whole[tuple(slice(begin, end) for begin, end in ranges)])
            tensor = parts[0] if len(parts) == 1 else library["join"](parts, recipe["dim"])
            if recipe["rows"] is not None and recipe["rows"] > tensor.shape[0]:
                tensor = library["pad"](tensor, recipe["rows"])
            out[name] = library["finish"](tensor)
        library["save"](out, str(pathlib.Path(target, file)))
    peak, = re.findall(r"VmHWM:\s*(\d+) kB", pathlib.Path("/proc/self/status").read_text())
    print(json.dumps({"peak_rss_bytes": int(peak) * 1024}))


if __name__ == "__main__":
    main()

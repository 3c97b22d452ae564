"""Makes the HDF5 files that no ordinary writer leaves behind: links and data outside the file, data never written, types
that are no tensors, broken structures. Needs h5py. The files are kept beside this script; the tests only read them.

usage: make_cases.py FOLDER
"""

import os
import pathlib
import sys

import h5py
import numpy

OUT = pathlib.Path(sys.argv[1])


def new(name, file="model.h5", **options):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    return h5py.File(folder / file, "w", **({"libver": "latest"} | options))


def iota(*shape):
    return numpy.arange(numpy.prod(shape), dtype="<f4").reshape(shape)


# Virtual dataset of two members, one of them absent in `virtual_missing`.
for name, members in (("virtual", 2), ("virtual_missing", 1), ("virtual_hole", 1), ("virtual_short", 2)):
    with new(name) as file:
        layout = h5py.VirtualLayout(shape=(4, 2), dtype="<f4")
        for i in range(1 if name == "virtual_hole" else 2):
            layout[2 * i:2 * i + 2] = h5py.VirtualSource(f"p{i}.h5", "w", shape=(2, 2))
        file.create_virtual_dataset("w", layout, fillvalue=0)
        file["plain"] = iota(3)
    for i in range(members):
        with new(name, f"p{i}.h5") as file:
            file["w"] = iota(4, 2)[2 * i:2 * i + (1 if name == "virtual_short" and i == 1 else 2)]

# A member that leaves the folder.
with new("virtual_outside") as file:
    layout = h5py.VirtualLayout(shape=(3,), dtype="<f4")
    layout[:] = h5py.VirtualSource("../external_link/other.h5", "w", shape=(3,))
    file.create_virtual_dataset("w", layout)

# External storage, and one whose file is too short.
folder = OUT / "external_storage"
with new("external_storage") as file:
    file.create_dataset("w", shape=(2, 3), dtype="<f4", external=[("data.bin", 4, 24)])
    file.create_dataset("short", shape=(2, 3), dtype="<f4", external=[("short.bin", 0, 24)])
    file.create_dataset("outside", shape=(2,), dtype="<f4", external=[("/etc/hostname", 0, 8)])
    file.create_dataset("gone", shape=(2,), dtype="<f4", external=[("gone.bin", 0, 8)])
(folder / "data.bin").write_bytes(b"skip" + iota(2, 3).tobytes())
(folder / "short.bin").write_bytes(b"\0" * 23)

# Links to a dataset, to a group with a chunked dataset, to nothing, to the outside.
with new("external_links") as file:
    file["own"] = iota(2)
    file["dataset"] = h5py.ExternalLink("other.h5", "/group/w")
    file["group"] = h5py.ExternalLink("other.h5", "/group")
    file["absent"] = h5py.ExternalLink("other.h5", "/nothing")
    file["gone"] = h5py.ExternalLink("gone.h5", "/w")
    file["outside"] = h5py.ExternalLink("../external_link/other.h5", "/w")
    file["absolute"] = h5py.ExternalLink("/etc/passwd", "/w")
    file["soft"] = h5py.SoftLink("/group/w")
with new("external_links", "other.h5") as file:
    file["group/w"] = iota(2, 2)
    file.create_dataset("group/z", data=iota(4, 4), chunks=(2, 3), compression="gzip")

with new("links") as file:
    file["a/w"] = iota(3)
    file["tied"] = file["a/w"]
    file["soft"] = h5py.SoftLink("/a/w")
    file["soft_group"] = h5py.SoftLink("/a")
    file["dangling"] = h5py.SoftLink("/a/nothing")
    file["ring"] = h5py.SoftLink("/ring")
    file["a/up"] = file["/"]
    file["a/self"] = h5py.SoftLink(".")

# 40 groups, each in the one before under two names: 2^40 paths to one dataset.
with new("doubling") as file:
    group = file
    for _ in range(40):
        below = group.create_group("a")
        group["b"] = below
        group = below
    group["w"] = iota(1)

# Declared, never written.
with new("unwritten") as file:
    file.create_dataset("bomb", shape=(10**6, 10**6, 10**6), dtype="<f4", chunks=(100, 100, 100), compression="gzip")
    some = file.create_dataset("some_chunks", shape=(8, 8), dtype="<f4", chunks=(4, 4))
    some[:4] = 1
    file.create_dataset("contiguous", shape=(5,), dtype="<f8")
    file["w"] = iota(2)

# Filters.
with new("filters") as file:
    data = numpy.repeat(iota(20), 9).reshape(20, 9)
    file.create_dataset("checked", data=data, chunks=(7, 4), compression="gzip", shuffle=True, fletcher32=True)
    file.create_dataset("lzf", data=data, chunks=(7, 4), compression="lzf")
    file.create_dataset("scaleoffset", data=data.astype("<i4"), chunks=(7, 4), scaleoffset=0)
    file.create_dataset("zeros", data=numpy.zeros((1000, 1000), "<f4"), chunks=(1000, 1000), compression="gzip")

# Compact storage, chunks of one, growing datasets.
with new("layouts") as file:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    dataset = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32BE, h5py.h5s.create_simple((3, 5)), properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, iota(3, 5))
    file.create_dataset("chunks3", data=iota(5, 6, 7), chunks=(2, 4, 3))
    file.create_dataset("growing", data=iota(5, 3), chunks=(2, 2), maxshape=(None, 3))
    file.create_dataset("empty_chunks", shape=(0, 4), dtype="<f4", chunks=(1, 4), maxshape=(None, 4))

# Types: what Keras and others do for bfloat16, complex numbers, and what is no tensor.
BF16 = numpy.array([0x3F80, 0xC020, 0x0000, 0x4040], "<u2")  # 1.0, -2.5, 0, 3
with new("types") as file:
    file["u16_named"] = BF16
    file["u16_named"].attrs["dtype"] = "bfloat16"
    file["u16_plain"] = BF16
    file["u16_other_width"] = BF16
    file["u16_other_width"].attrs["dtype"] = "float32"
    file["u16_be"] = BF16.astype(">u2")
    file["u16_be"].attrs["dtype"] = "bf16"
    file["opaque_named"] = BF16.view("V2")
    file["opaque_named"].attrs["dtype"] = numpy.bytes_("bfloat16")
    file["opaque_plain"] = BF16.view("V2")
    float_type = h5py.h5t.IEEE_F32LE.copy()
    float_type.set_fields(15, 7, 8, 0, 7)
    float_type.set_size(2)
    float_type.set_ebias(127)
    dataset = h5py.h5d.create(file.id, b"float_bf16", float_type, h5py.h5s.create_simple((4,)))
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, BF16, mtype=float_type)
    float_type.set_order(h5py.h5t.ORDER_BE)
    dataset = h5py.h5d.create(file.id, b"float_bf16_be", float_type, h5py.h5s.create_simple((4,)))
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, BF16.byteswap(), mtype=float_type)
    float_type.set_ebias(100)
    h5py.h5d.create(file.id, b"float_unknown", float_type, h5py.h5s.create_simple((4,))).write(
        h5py.h5s.ALL, h5py.h5s.ALL, BF16, mtype=float_type)
    file["fp8"] = numpy.array([1, 2], "u1")
    file["fp8"].attrs["dtype"] = "float8_e4m3fn"
    file["fp4"] = numpy.array([1, 2], "u1")
    file["fp4"].attrs["dtype"] = "float4_e2m1fn"
    file["c64"] = numpy.array([1 + 2j, 3 - 4j], "<c8")
    file["c128_be"] = numpy.array([1 + 2j, 3 - 4j], ">c16")
    file["text"] = numpy.array([b"ab", b"cd"])
    file["long_text"] = "some text"
    file["null"] = h5py.Empty("f4")
    file.create_dataset("array_type", shape=(2,), dtype=numpy.dtype(("<f4", (3,))))
    file.create_dataset("ragged", shape=(2,), dtype=h5py.vlen_dtype("<f4"))
    file.create_dataset("reference", shape=(1,), dtype=h5py.ref_dtype)
    file.create_dataset("colours", data=[0, 1], dtype=h5py.enum_dtype({"RED": 0, "BLUE": 1}, basetype="i1"))
    file["named_type"] = numpy.dtype("<f4")

# What a killed writer leaves: the file says it is open for writing.
writer = new("killed_writer", "open.h5")
writer["w"] = iota(4)
writer.flush()
(OUT / "killed_writer" / "model.h5").write_bytes((OUT / "killed_writer" / "open.h5").read_bytes())
writer.close()
os.remove(OUT / "killed_writer" / "open.h5")

"""Turns the arrays that a case must give (values.npz, named t0, t1, ... in the order of case.json) into
expected.safetensors, with a writer that shares no code with the one under test.

usage: convert.py CASE_FOLDER...   each with case.json and values.npz
"""

import json
import pathlib
import struct
import sys

import numpy

NAMES = {"b1": "BOOL", "u1": "U8", "i1": "I8", "u2": "U16", "i2": "I16", "f2": "F16", "u4": "U32", "i4": "I32",
         "f4": "F32", "u8": "U64", "i8": "I64", "f8": "F64"}


def convert(folder):
    case = json.loads((folder / "case.json").read_text())
    values = numpy.load(folder / "values.npz")
    header, data = {}, b""
    for i, name in enumerate(case["tensors"]):
        array = values[f"t{i}"]
        dtype = NAMES[array.dtype.str[1:]]
        if folder.name == "keras_bf16":
            assert dtype == "F32"
            bits = array.astype("<f4").view("<u4")
            assert not (bits & 0xFFFF).any()
            array, dtype = (bits >> 16).astype("<u2"), "BF16"
        payload = array.astype(array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header, ensure_ascii=False).encode()
    (folder / "expected.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


for argument in sys.argv[1:]:
    convert(pathlib.Path(argument))

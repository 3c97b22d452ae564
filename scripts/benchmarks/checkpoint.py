"""Writes and reads safetensors files for the benchmarks. What a shard holds follows from its name and rank: bytes that are the same
on every machine and repeat in no short pattern."""

import json
import mmap
import random
import struct
import zlib

ELEMENT_BYTES = {"F16": 2, "BF16": 2, "F32": 4}
_NOISE_BYTES = 8_388_593  # a prime: no shape is a multiple
_WRITE_BYTES = 4 << 20


class Noise:
    """16-bit floats below 2 in size, without infinities and NaNs, as float16 and as bfloat16."""

    def __init__(self):
        data = bytearray(random.Random("reshard").randbytes(2 * _NOISE_BYTES))
        data[1::2] = data[1::2].translate(bytes(byte & 0xBF for byte in range(256)))
        self._data = bytes(data) + bytes(data[:_WRITE_BYTES])

    def blocks(self, name, size):
        """`size` bytes (even) in pieces."""
        at = 2 * (zlib.crc32(name.encode()) % _NOISE_BYTES)
        while size > 0:
            piece = memoryview(self._data)[at:at + min(size, _WRITE_BYTES)]
            yield piece
            size -= len(piece)
            at = (at + len(piece)) % (2 * _NOISE_BYTES)


def write(path, tensors, dtype, noise):
    """`tensors`: {name: (shape, name of its bytes)}."""
    header, end = {}, 0
    sizes = {}
    for name, (shape, _) in tensors.items():
        size = ELEMENT_BYTES[dtype]
        for extent in shape:
            size *= extent
        sizes[name] = size
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, (_, seed) in tensors.items():
            for block in noise.blocks(seed, sizes[name]):
                file.write(block)


class Reader:
    """A safetensors file: shapes, dtypes and bytes by name."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length, = struct.unpack("<Q", self._map[:8])
        self.entries = json.loads(self._map[8:8 + length])
        self.entries.pop("__metadata__", None)
        self._start = 8 + length

    def data(self, name):
        begin, end = self.entries[name]["data_offsets"]
        return memoryview(self._map)[self._start + begin:self._start + end]


def difference(ours, theirs):
    """What two files do not have in common, as a sentence; None where they hold equal tensors."""
    ours, theirs = Reader(ours), Reader(theirs)
    if set(ours.entries) != set(theirs.entries):
        return f"names differ: {sorted(set(ours.entries) ^ set(theirs.entries))[:3]}"
    for name, entry in ours.entries.items():
        other = theirs.entries[name]
        if (entry["dtype"], entry["shape"]) != (other["dtype"], other["shape"]):
            return f"{name}: {entry['dtype']}{entry['shape']} and {other['dtype']}{other['shape']}"
        if ours.data(name) != theirs.data(name):
            return f"{name}: other bytes"
    return None

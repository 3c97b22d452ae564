#!/usr/bin/env python3
"""CRC-64/XZ, the digest of reshard's manifests, by code that shares nothing with reshard.

  scripts/crc64.py FILE...   the digest of each file
  scripts/crc64.py DIR       a full safetensors target (one rank) against its reshard.json: files and tensors

A tensor's digest is that of its elements in row-major order, little-endian, without padding: `digest(array)` of a contiguous NumPy
array. Exit code 0; 1 where something differs; 2 where a path cannot be checked. Needs Python's standard library; with NumPy it is
much faster.
"""

import argparse
import functools
import json
import pathlib
import struct
import sys

try:
    import numpy
except ImportError:
    numpy = None

# Registers are reflected: bit 63 is the coefficient of x^0. A little-endian word of the message is a polynomial in the same way,
# its first bit the highest power.
POLYNOMIAL = 0xC96C5795D7870F42  # x^64 + 42F0E1EBA9EA3693, reflected
ONE = 1 << 63
ALL = (1 << 64) - 1
LANES = 4096  # words that NumPy works on at a time
BLOCK = 64 << 20  # bytes of a file in memory


def times_x(a):
    return (a >> 1) ^ (POLYNOMIAL if a & 1 else 0)


def multiply(a, b):
    """a * b modulo the polynomial."""
    product = 0
    for bit in range(64):
        if b & (ONE >> bit):
            product ^= a
        a = times_x(a)
    return product


@functools.cache
def power(byte_count):
    """x^(8 * byte_count): what a register is multiplied by when so many zero bytes follow."""
    if byte_count == 0:
        return ONE
    half = power(byte_count // 2)
    square = multiply(half, half)
    if byte_count % 2:
        for _ in range(8):
            square = times_x(square)
    return square


@functools.cache
def table():
    """Register of every byte that is followed by nothing."""
    out = []
    for byte in range(256):
        for _ in range(8):
            byte = times_x(byte)
        out.append(byte)
    return out


@functools.cache
def multiplier(factor):
    """Products of a factor with every byte at each of the eight places of a word: eight look-ups multiply a word."""
    images = []  # factor times the word that has bit i alone
    for bit in range(64):
        images.append(multiply(factor, 1 << bit))
    tables = numpy.zeros((8, 256), dtype=numpy.uint64)
    for place in range(8):
        for bit in range(8):
            tables[place, 1 << bit:2 << bit] = tables[place, :1 << bit] ^ numpy.uint64(images[8 * place + bit])
    return tables


def multiply_words(words, factor):
    tables = multiplier(factor)
    places = numpy.ascontiguousarray(words).view(numpy.uint8).reshape(-1, 8)
    product = tables[0][places[:, 0]]
    for place in range(1, 8):
        product ^= tables[place][places[:, place]]
    return product


def raw_words(words):
    """The raw register of little-endian 64-bit words, LANES of them side by side: lane i sums up words i, i + LANES, ... by Horner's
    rule; then neighbouring lanes are joined until one is left."""
    rows = -(-len(words) // LANES)
    padded = numpy.zeros(rows * LANES, dtype=numpy.uint64)
    padded[len(padded) - len(words):] = words  # leading zeros leave a register of 0 as it is
    lanes = numpy.zeros(LANES, dtype=numpy.uint64)
    for row in padded.reshape(rows, LANES):
        lanes = multiply_words(lanes, power(8 * LANES)) ^ row
    distance = 8
    while len(lanes) > 1:
        lanes = multiply_words(lanes[0::2], power(distance)) ^ lanes[1::2]
        distance *= 2
    return multiply(int(lanes[0]), power(8))


def raw(register, data):
    """The raw register (no initial and final complement) after more bytes."""
    data = memoryview(data).cast("B")
    if numpy is not None and len(data) >= 8 * LANES:
        whole = len(data) // 8 * 8
        register = multiply(register, power(whole)) ^ raw_words(numpy.frombuffer(data[:whole], dtype="<u8"))
        data = data[whole:]
    bytewise = table()
    for byte in data:
        register = bytewise[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def finish(register, byte_count):
    """CRC-64/XZ from the raw register of so many bytes."""
    return f"{register ^ multiply(ALL, power(byte_count)) ^ ALL:016x}"


def digest(data):
    """CRC-64/XZ, 16 hex digits, of bytes or of a contiguous array."""
    view = memoryview(data)
    return finish(raw(0, view), view.nbytes)


def file_digest(path, begin=0, end=None):
    """Of bytes [begin, end) of a file."""
    with open(path, "rb") as file:
        file.seek(begin)
        register, done = 0, 0
        while end is None or begin + done < end:
            block = file.read(BLOCK if end is None else min(BLOCK, end - begin - done))
            if not block:
                break
            register, done = raw(register, block), done + len(block)
    return finish(register, done)


def stored_tensors(path):
    """Name to (begin, end) in the file, of a safetensors file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: tuple(8 + length + offset for offset in entry["data_offsets"]) for name, entry in header.items()}


def check_target(folder):
    """Prints what differs; whether nothing does."""
    manifest = json.loads((folder / "reshard.json").read_text(encoding="utf-8"))
    ranks = 1
    for axis in manifest["axes"]:
        ranks *= int(axis.split("=")[1])
    if ranks != 1 or manifest["format"] != "safetensors":
        raise ValueError(f"is {manifest['format']} of {ranks} ranks; only tensors of a full safetensors target are checked here")
    differences = []

    def compare(what, expected, found):
        if found != expected:
            differences.append(f"{what}: expected {expected}, found {found}")

    places = {}
    for name, entry in manifest["file_list"].items():
        path = folder / name
        if not path.exists():
            differences.append(f"{name}: missing")
            continue
        compare(name, entry["digest"], file_digest(path))
        if name.endswith(".safetensors"):
            places.update({tensor: (path, *place) for tensor, place in stored_tensors(path).items()})
    for name, entry in manifest["tensors"].items():
        place = places.get(entry.get("stored", name))
        if place is None:
            differences.append(f"tensor {name}: missing")
        else:
            compare(f"tensor {name}", entry["digest"], file_digest(*place))
    for line in differences:
        print(f"{folder}: {line}")
    if not differences:
        print(f"{folder}: {len(manifest['file_list'])} files and {len(manifest['tensors'])} tensors are as the manifest says")
    return not differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=pathlib.Path, nargs="+")
    same = True
    for path in parser.parse_args().path:
        try:
            if path.is_dir():
                same = check_target(path) and same
            else:
                print(f"{file_digest(path)}  {path}")
        except (OSError, ValueError, KeyError, struct.error) as error:
            print(f"{path}: {error}", file=sys.stderr)
            sys.exit(2)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()

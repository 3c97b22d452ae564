"""Tensors as the command-line tests make them: numbers, noise, and the naive slicer that expectations are cut with."""

import dataclasses
import itertools
import random
import struct

ELEMENT_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2, "U16": 2,
                 "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1}
NUMBERS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U32": "I", "I16": "h", "U16": "H",
           "BF16": "H", "I8": "b", "U8": "B", "BOOL": "B", "F8_E4M3": "B", "F8_E5M2": "B", "F8_E8M0": "B"}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """`data`: the elements, row-major, little-endian."""
    dtype: str
    shape: tuple
    data: bytes

    def __repr__(self):
        numbers = list(self.numbers()[:32])
        return f"{self.dtype}{list(self.shape)} {numbers}{'...' if len(numbers) == 32 else ''}"

    def numbers(self):
        """Elements as numbers; BF16 and 8-bit floats as raw words."""
        return struct.unpack(f"<{len(self.data) // ELEMENT_BYTES[self.dtype]}{NUMBERS[self.dtype]}", self.data)


def count(shape):
    product = 1
    for length in shape:
        product *= length
    return product


def tensor(dtype, shape, numbers):
    return Tensor(dtype, tuple(shape), struct.pack(f"<{count(shape)}{NUMBERS[dtype]}", *numbers))


def iota(*shape, dtype="F32", first=0):
    """Each element its row-major position (raw words where the dtype cannot hold numbers)."""
    return tensor(dtype, shape, range(first, first + count(shape)))


def noise(name, *shape, dtype="F32"):
    """Bytes that follow from the name and never repeat in a pattern."""
    return Tensor(dtype, tuple(shape), random.Random(name).randbytes(count(shape) * ELEMENT_BYTES[dtype]))


def labelled_rows(labels, width, dtype="F32"):
    """A matrix whose row i is `width` times a number that stands for labels[i]: 'g3' is 103, 'u3' 203."""
    base = {letter: (index + 1) * 100 for index, letter in enumerate("guqkvzxbcd")}
    numbers = [base[label[0]] + int(label[1:]) for label in labels]
    return tensor(dtype, (len(labels), width), [number for number in numbers for _ in range(width)])


PAD = object()  # in place of an index: an element of zero bytes


def take(source, *chosen):
    """The elements at the product of the chosen indices, one list per dim; None or nothing: all of a dim."""
    rank = len(source.shape)
    lists = [range(n) if c is None else list(c) for n, c in zip(source.shape, (*chosen, *([None] * (rank - len(chosen)))))]
    shape = tuple(len(indices) for indices in lists)
    strides, block = [], ELEMENT_BYTES[source.dtype]
    for length in reversed(source.shape):
        strides.insert(0, block)
        block *= length
    while lists and isinstance(lists[-1], range):  # dims taken whole at the end are one block
        lists.pop()
    if not lists:
        return source
    *outer, last = lists
    block = strides[len(outer)]
    runs = []  # (first index or PAD, length) along the last dim that is not whole
    for index in last:
        first, length = runs[-1] if runs else (None, 0)
        if runs and (index is PAD if first is PAD else index is not PAD and index == first + length):
            runs[-1] = (first, length + 1)
        else:
            runs.append((index, 1))
    data = bytearray()
    for index in itertools.product(*outer):
        base = None if PAD in index else sum(i * stride for i, stride in zip(index, strides))
        for first, length in runs:
            if base is None or first is PAD:
                data += bytes(length * block)
            else:
                data += source.data[base + first * block:base + (first + length) * block]
    return Tensor(source.dtype, shape, bytes(data))


def even(source, dim, parts):
    """`parts` equal consecutive pieces along `dim`."""
    width = source.shape[dim] // parts
    return [take(source, *([None] * dim), list(range(p * width, (p + 1) * width))) for p in range(parts)]


def pieces(source, dim, lengths):
    """Consecutive pieces of the given lengths along `dim`."""
    ends = list(itertools.accumulate(lengths))
    return [take(source, *([None] * dim), list(range(end - length, end))) for end, length in zip(ends, lengths)]


def by_segments(length_of_segments, parts):
    """Index lists, one per part, of a dim whose segments are each cut evenly."""
    starts = [0, *itertools.accumulate(length_of_segments)]
    return [[start + i for start, length in zip(starts, length_of_segments)
             for i in range(p * length // parts, (p + 1) * length // parts)] for p in range(parts)]

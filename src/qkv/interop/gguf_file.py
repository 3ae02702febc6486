"""The container of GGUF, versions 2 and 3: values by key, then names, shapes and offsets of tensors, then their bytes.

    "GGUF", version, number of tensors, number of keys;  key, type, value ...;  name, sizes, type, offset ...;  data

Everything is little-endian. A file may be malicious: each count, length, shape and offset is compared with the size of
the file before anything is allocated, and an error names the field that does not fit. Numbers are stored one by one, or
in quantized blocks with a factor for each block:

    Q8_0   32 numbers: d (f16), q (int8)               d · q
    Q4_0   32 numbers: d (f16), q (4 bits)             d · (q - 8)          the low halves of 16 bytes, then the high
    Q4_1   32 numbers: d, m (f16), q (4 bits)          d · q + m

This module reads these formats, and gives the same bits as the `gguf` package; that package reads the others (such as
K-quants).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from qkv.errors import InputError, RefusedError, require_package
from qkv.safe_json import Refusals

MAX_KEYS, MAX_TENSORS = 2**16, 2**16
MAX_ITEMS = 2**22  # of all lists of a file together; vocabularies have some hundred thousand
LARGEST_HEADER = 2**27
LONGEST_NAME, LONGEST_TEXT = 2**10, 2**24
LARGEST_ALIGNMENT = 2**20
FLOAT32, BOOLEAN, TEXT, LIST = 6, 7, 8, 9
# types of values, as struct writes them
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", FLOAT32: "f", BOOLEAN: "B", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class Stored:
    """The position, the shape and the number format of a tensor in the file."""

    shape: tuple[int, ...]  # in torch's order: the innermost size last
    layout: Layout
    place: int  # the first byte, from the start of the file
    size: int  # bytes


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file for reading, and give it with its size. Folders, pipes and unreadable files are refused."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file. Give the name of one file.")
        with path.open("rb", buffering=2**20) as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}. Check its permissions.") from None


class Cursor:
    """Reads a file forward, and refuses to read beyond its end."""

    def __init__(self, file: BinaryIO, size: int, refuse: Refusals) -> None:
        self.file, self.end, self.refuse = file, size, refuse
        self.place, self.items = 0, 0

    def take(self, count: int, field: str) -> bytes:
        if count > min(self.end, LARGEST_HEADER) - self.place:
            raise self.refuse(field, f"{count:,} bytes at byte {self.place:,}, but the file has {self.end:,}")
        data = self.file.read(count)
        if len(data) != count:
            raise self.refuse(field, f"the file ends at byte {self.place + len(data):,}")
        self.place += count
        return data

    def number(self, letter: str, field: str) -> Any:
        return struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter), field))[0]

    def count(self, field: str, largest: int, smallest: int) -> int:
        """Read the number of items that follow, of at least `smallest` bytes each; refuse more than fit into the
        file."""
        count: int = self.number("Q", field)
        if count > largest or count * smallest > self.end - self.place:
            raise self.refuse(field, f"{count:,} is more than fit into the file, or than the {largest:,} that are read")
        return count

    def text(self, field: str, longest: int = LONGEST_TEXT) -> str:
        data = self.take(self.count(f"length of {field}", longest, 1), field)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.refuse(field, f"not UTF-8 at byte {error.start}") from None

    def value(self, field: str) -> Any:
        kind = self.number("I", f"type of {field}")
        if kind == LIST:
            return self._list(field)
        if kind == TEXT:
            return self.text(field)
        value = self.number(self._letter(kind, field), field)
        if kind == BOOLEAN and value > 1:
            raise self.refuse(field, f"{value} is neither true (1) nor false (0)")
        if kind == FLOAT32:
            return float(str(np.float32(value)))  # 1e-05 and not 9.999999747378752e-06
        return bool(value) if kind == BOOLEAN else value

    def _letter(self, kind: int, field: str) -> str:
        if kind == LIST:
            raise self.refuse(field, "a list of lists; expected numbers or texts")
        if kind not in NUMBERS:
            raise self.refuse(field, f"type {kind} is not known")
        return NUMBERS[kind]

    def _list(self, field: str) -> list[Any]:
        kind = self.number("I", f"type of {field}")
        letter = "Q" if kind == TEXT else self._letter(kind, field)  # a text begins with its length
        smallest = struct.calcsize("<" + letter)
        count = self.count(f"length of {field}", MAX_ITEMS - self.items, smallest)
        self.items += count
        if kind == TEXT:
            return self._texts(count, field)
        return list(struct.unpack(f"<{count}{letter}", self.take(count * smallest, field)))

    def _texts(self, count: int, field: str) -> list[str]:
        """Read many texts. It does the same as `text`, but faster, because a vocabulary has many texts."""
        end, length_of = min(self.end, LARGEST_HEADER), struct.Struct("<Q").unpack
        values: list[str] = []
        try:
            for _ in range(count):
                (length,) = length_of(self.file.read(8))
                self.place += 8 + length
                if self.place > end:
                    raise self.refuse(
                        f"{field}[{len(values)}]", f"a text of {length:,} bytes, but the file has {self.end:,}"
                    )
                values.append(self.file.read(length).decode("utf-8"))
        except (struct.error, UnicodeDecodeError):
            raise self.refuse(f"{field}[{len(values)}]", "not a text in UTF-8, or cut short") from None
        return values


def read_header(file: BinaryIO, size: int, refuse: Refusals) -> tuple[dict[str, Any], dict[str, Stored]]:
    """Read everything before the data: the values by key, and the tensors by name."""
    cursor = Cursor(file, size, refuse)
    if size < 4 or cursor.take(4, "magic") != b"GGUF":
        raise refuse("magic", "not a GGUF file")
    version = cursor.number("I", "version")
    if version not in (2, 3):
        raise refuse("version", f"{version}, expected 2 or 3, little-endian")
    count = cursor.count("tensor_count", MAX_TENSORS, 8 + 4 + 8 + 4 + 8)
    keys = cursor.count("metadata_kv_count", MAX_KEYS, 8 + 4 + 1)
    values: dict[str, Any] = {}
    for index in range(keys):
        key = cursor.text(f"key {index}", LONGEST_NAME)
        if key in values:
            raise refuse(key, "the key is there twice")
        values[key] = cursor.value(key)
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= LARGEST_ALIGNMENT or alignment % 8:
        raise refuse("general.alignment", f"{alignment!r}, expected a multiple of 8 up to {LARGEST_ALIGNMENT:,}")
    tensors: dict[str, Stored] = {}
    for index in range(count):
        name = cursor.text(f"name of tensor {index}", LONGEST_NAME)
        if name in tensors:
            raise refuse(name, "the tensor is there twice")
        tensors[name] = _stored(cursor, name, alignment)
    return values, _placed(tensors, -(-cursor.place // alignment) * alignment, size, refuse)


def _stored(cursor: Cursor, name: str, alignment: int) -> Stored:
    """Read the entry of a tensor; its `place` is still counted from the start of the data."""
    dimensions = cursor.number("I", f"dimensions of {name}")
    if not 1 <= dimensions <= 4:
        raise cursor.refuse(name, f"{dimensions} dimensions, expected 1 to 4")
    sizes = [cursor.number("Q", f"sizes of {name}") for _ in range(dimensions)]
    kind, place = cursor.number("I", f"type of {name}"), cursor.number("Q", f"offset of {name}")
    if kind not in LAYOUTS:
        raise cursor.refuse(name, f"type {kind} is not known")
    layout, numbers = LAYOUTS[kind], math.prod(sizes)
    size = numbers // layout.numbers * layout.size
    if numbers == 0 or size > cursor.end:
        raise cursor.refuse(name, f"sizes {sizes} need {size:,} bytes, but the file has {cursor.end:,}")
    if sizes[0] % layout.numbers:
        raise cursor.refuse(name, f"rows of {sizes[0]} do not divide into {layout.name}'s blocks of {layout.numbers}")
    if place % alignment:
        raise cursor.refuse(name, f"offset {place:,} is no multiple of {alignment}")
    return Stored(tuple(reversed(sizes)), layout, place, size)


def _placed(tensors: dict[str, Stored], start: int, end: int, refuse: Refusals) -> dict[str, Stored]:
    """The tensors with places counted from the start of the file. Each must lie inside the file, and no two may
    overlap; otherwise a small file could demand much memory."""
    last = start
    for name, stored in sorted(tensors.items(), key=lambda item: item[1].place):
        place = start + stored.place
        if place < last:
            raise refuse(name, f"its bytes from {place:,} on belong to another tensor")
        last = place + stored.size
        if last > end:
            raise refuse(name, f"bytes {place:,} to {last:,}, but the file has {end:,}")
    return {name: replace(stored, place=start + stored.place) for name, stored in tensors.items()}


Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """A number format: the numbers and the bytes of a block."""

    name: str
    numbers: int
    size: int


# by the number of the format in a file
LAYOUTS = {
    0: Layout("F32", 1, 4),
    1: Layout("F16", 1, 2),
    2: Layout("Q4_0", 32, 18),
    3: Layout("Q4_1", 32, 20),
    6: Layout("Q5_0", 32, 22),
    7: Layout("Q5_1", 32, 24),
    8: Layout("Q8_0", 32, 34),
    10: Layout("Q2_K", 256, 84),
    11: Layout("Q3_K", 256, 110),
    12: Layout("Q4_K", 256, 144),
    13: Layout("Q5_K", 256, 176),
    14: Layout("Q6_K", 256, 210),
    16: Layout("IQ2_XXS", 256, 66),
    17: Layout("IQ2_XS", 256, 74),
    18: Layout("IQ3_XXS", 256, 98),
    19: Layout("IQ1_S", 256, 50),
    20: Layout("IQ4_NL", 32, 18),
    21: Layout("IQ3_S", 256, 110),
    22: Layout("IQ2_S", 256, 82),
    23: Layout("IQ4_XS", 256, 136),
    29: Layout("IQ1_M", 256, 56),
    30: Layout("BF16", 1, 2),
    34: Layout("TQ1_0", 256, 54),
    35: Layout("TQ2_0", 256, 66),
    39: Layout("MXFP4", 32, 17),
}


def _half(data: Bytes) -> Numbers:
    return data.view("<f2").astype(np.float32)


def _nibbles(data: Bytes) -> Numbers:
    """(blocks, 16) bytes -> (blocks, 32) numbers from 0 to 15."""
    return np.concatenate([data & 15, data >> 4], axis=1).astype(np.float32)


READERS: dict[str, Callable[[Bytes], Numbers]] = {
    "F32": lambda blocks: blocks.view("<f4"),
    "F16": _half,
    "BF16": lambda blocks: (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32),  # the upper half of an f32
    "Q8_0": lambda blocks: blocks[:, 2:].view(np.int8).astype(np.float32) * _half(blocks[:, :2]),
    "Q4_0": lambda blocks: (_nibbles(blocks[:, 2:]) - 8) * _half(blocks[:, :2]),
    "Q4_1": lambda blocks: _nibbles(blocks[:, 4:]) * _half(blocks[:, :2]) + _half(blocks[:, 2:4]),
}


def reader(layout: Layout) -> Callable[[Bytes], Numbers]:
    """A function that turns blocks of bytes (blocks, size) into f32 numbers (blocks, numbers)."""
    if layout.name in READERS:
        return READERS[layout.name]
    require_package("gguf", f"reading {layout.name} weights")
    import gguf
    import gguf.quants

    kind: Any = getattr(gguf.GGMLQuantizationType, layout.name, None)
    if kind is None or gguf.GGML_QUANT_SIZES.get(kind) != (layout.numbers, layout.size):
        raise RefusedError(f"the installed gguf package has another layout of {layout.name} weights. Upgrade gguf.")

    return partial(gguf.quants.dequantize, qtype=kind)

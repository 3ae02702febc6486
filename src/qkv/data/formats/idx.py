"""Pictures with labels as they stand in the files, and idx files as MNIST's.

Sizes are compared with what a header promises before anything is made of them.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.data.files.unpack import Source, read_bytes
from qkv.data.labelled.finding import Item
from qkv.data.labelled.targets import Values
from qkv.errors import DataError

MOST_BYTES = 2**32
"""What all pictures of a side may take in memory."""

Pixels = npt.NDArray[np.uint8]


@dataclass
class Pictures:
    """The pictures of one side as they stand in the files."""

    pixels: Pixels
    values: Values = field(default_factory=Values)

    @property
    def keys(self) -> array[int]:
        digests = (hashlib.blake2b(each.tobytes(), digest_size=8).digest() for each in self.pixels)
        return array("Q", [int.from_bytes(digest, "little") for digest in digests])


def holds_labels(item: Item) -> bool:
    return "labels" in _name(item.source) or "idx1" in _name(item.source)


def _name(source: Source) -> str:
    return PurePath(source.member or source.path).name


def from_idx(item: Item, items: Sequence[Item]) -> Pictures:
    where = item.source.shown
    wanted = _name(item.source).replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1")
    beside = [other.source for other in items if holds_labels(other) and _name(other.source) == wanted]
    if not beside and not item.source.member and (path := item.source.path.with_name(wanted)).is_file():
        beside = [Source(path)] if path != item.source.path else []
    if not beside:
        raise DataError(where, "pictures without labels", f"Put the labels beside it, as {wanted}.")
    pixels, labels = read_idx(item.source), read_idx(beside[0])
    if pixels.ndim not in (3, 4) or labels.ndim != 1:
        problem = f"{pixels.ndim} dimensions, and {labels.ndim} in the labels"
        raise DataError(where, problem, "Expected pictures of 3 dimensions (idx3) and labels of 1 (idx1).")
    return joined(where, pixels, labels, beside[0].shown)


def read_idx(source: Source) -> Pixels:
    """An idx file: two zero bytes, the type, the number of dimensions, each as 32 bits, then the values."""
    where = source.shown
    content = bytearray()
    for chunk in read_bytes(source):
        content += chunk
        if len(content) > MOST_BYTES:
            raise too_large(where, len(content))
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != 8:
        raise DataError(
            f"{where}:1:0", "not an idx file of bytes", "Expected the header 00 00 08, then the dimensions."
        )
    dimensions = content[3]
    begins = 4 + 4 * dimensions
    if not 1 <= dimensions <= 4 or len(content) < begins:
        raise DataError(f"{where}:1:3", f"an idx file of {dimensions} dimensions", "Expected 1 to 4; copy it again.")
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, begins, 4))
    if math.prod(shape) != len(content) - begins:
        problem = f"{len(content) - begins:,} values where its header promises {' x '.join(map(str, shape))}"
        raise DataError(f"{where}:1:{begins}", problem, "It is cut short or damaged: copy or download it again.")
    return np.frombuffer(content, dtype=np.uint8, offset=begins).reshape(shape)


def joined(where: str, pixels: Pixels, labels: npt.NDArray[Any], labels_where: str) -> Pictures:
    if len(pixels) != len(labels):
        problem = f"{len(pixels):,} pictures and {len(labels):,} labels ({labels_where})"
        raise DataError(where, problem, "Give files that belong together.")
    if not pixels.size:
        raise DataError(where, "there are no pictures in it", "Give a file with pictures.")
    found = Pictures(pixels)
    for label in labels.tolist():
        found.values.append(str(label), labels_where, 0)
    return found


def too_large(where: str, size: int) -> DataError:
    return DataError(where, f"pictures of {size:,} bytes; {MOST_BYTES:,} at most", "Make them fewer or smaller.")

"""Pictures with labels as they stand in the files, and idx files as MNIST's.

Sizes are compared with what a header promises before anything is made of them.

Pictures and labels in one npz archive of numpy's, read without ever opening a pickle.
"""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.data.files.unpack import ZIP_FAILURES, Source, read_bytes, unreadable
from qkv.data.labelled.gathering import Item, Side, Sides
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


PICTURES = ("images", "image", "x", "data", "pixels")
LABELS = ("labels", "label", "y", "target", "targets")


class Npz:
    """The arrays of an npz, looked at one by one; one that would need a pickle is refused."""

    def __init__(self, source: Source) -> None:
        self.source, self.where = source, source.shown
        if source.member or source.packing != "plain":
            raise DataError(self.where, "an npz inside an archive", "Unpack it and give the .npz file.")
        with self._opened() as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise self._damaged(f"the array {twice!r} is there twice")

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.source.path)
        except OSError as error:
            raise unreadable(self.where, error) from None
        except ZIP_FAILURES as error:
            raise self._damaged(error) from None

    def _damaged(self, error: object) -> DataError:
        return DataError(self.where, f"not a sound npz file ({error})", "Make it anew with numpy.savez.")

    def read(self, name: str) -> npt.NDArray[Any]:
        try:
            with self._opened() as archive, archive.open(f"{name}.npy") as file:
                version = np.lib.format.read_magic(file)
                header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, fortran, dtype = header[version](file)
                if dtype.hasobject:
                    remedy = "Save numbers; qkv never opens pickles."
                    raise DataError(self.where, f"{name!r} holds Python objects", remedy)
                size = math.prod(shape) * dtype.itemsize
                if size > MOST_BYTES:
                    raise too_large(self.where, size)
                content = file.read(size + 1)
        except DataError:
            raise
        except OSError as error:
            raise unreadable(self.where, error) from None
        except (*ZIP_FAILURES, KeyError, SyntaxError, TypeError) as error:
            raise self._damaged(error) from None
        if len(content) != size or not dtype.itemsize:
            raise self._damaged(f"{name!r} has {len(content):,} bytes, expected {size:,}")
        return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def _pair(names: Sequence[str], side: Side | None) -> tuple[str, str] | None:
    """The names of pictures and labels, of one side where the archive has several."""
    spellings = {"train": ("train",), "valid": ("valid", "val", "validation", "dev"), "test": ("test",), None: ("",)}
    plain = {re.sub(r"[^a-z]+", "_", name.lower()).strip("_"): name for name in names}
    for word in spellings[side]:
        for pictures, labels in zip(PICTURES, LABELS, strict=True):
            for order in ("{0}_{1}", "{1}_{0}"):
                wanted = [order.format(each, word).strip("_") for each in (pictures, labels)]
                if all(each in plain for each in wanted):
                    return plain[wanted[0]], plain[wanted[1]]
    if side is None:
        pictures_here = [plain[each] for each in PICTURES if each in plain]
        labels_here = [plain[each] for each in LABELS if each in plain]
        if pictures_here and labels_here:
            return pictures_here[0], labels_here[0]
    return None


def from_npz(item: Item) -> Pictures:
    archive = Npz(item.source)
    pair = _pair(archive.names, item.side) or _pair(archive.names, None)
    where = archive.where
    if pair is None:
        problem = f"which arrays are pictures and labels? There are: {', '.join(archive.names[:20]) or 'none'}"
        raise DataError(where, problem, "Call them images and labels, or x_train and y_train.")
    pixels, labels = archive.read(pair[0]), archive.read(pair[1])
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if pixels.ndim not in (3, 4) or labels.ndim != 1:
        problem = f"{pair[0]} has the shape {pixels.shape}, {pair[1]} {labels.shape}"
        raise DataError(where, problem, "Expected pictures x rows x columns (x channels), and one label each.")
    return joined(where, _as_bytes(where, pair[0], pixels), labels, where)


def _as_bytes(where: str, name: str, pixels: npt.NDArray[Any]) -> Pixels:
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind not in "uif" or not pixels.size:
        raise DataError(
            where, f"{name!r} holds {pixels.dtype}", "Expected bytes from 0 to 255, or numbers from 0 to 1."
        )
    low, high = float(pixels.min()), float(pixels.max())
    if not (math.isfinite(low) and math.isfinite(high)) or low < 0 or high > 255:
        raise DataError(where, f"{name!r} has values from {low:g} to {high:g}", "Expected 0 to 255, or 0 to 1.")
    scale = 255 if pixels.dtype.kind == "f" and high <= 1 else 1
    return np.rint(pixels * scale).astype(np.uint8)


def with_own_sides(sides: Sides) -> Sides:
    """An npz with x_train and x_test holds its sides itself: it is named once for each."""
    if len(sides.all()) != 1 or sides.train[0].kind != "npz":
        return sides
    item = sides.train[0]
    names = Npz(item.source).names
    found: list[Side] = ["train", "valid", "test"]
    here = {side: [Item(item.source, "npz", side)] for side in found if _pair(names, side) is not None}
    if "train" not in here:
        return sides
    return Sides(**{side: here.get(side, []) for side in found})

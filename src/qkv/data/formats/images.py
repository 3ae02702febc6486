"""Pictures with labels, whatever they come in: idx files as MNIST's, npz archives of numpy's, folders of files.

Sizes are compared with what a header promises before anything is made of them, and no pickle is ever opened.
"""

from __future__ import annotations

import math
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qkv.data.examples import ImageExamples
from qkv.data.files.unpack import ZIP_FAILURES, Source, read_bytes, unreadable
from qkv.data.findings import Caution, Findings, OnRead
from qkv.data.formats.rows import BadRows
from qkv.data.identity import hash64
from qkv.data.labels import RawLabels, RawSplit
from qkv.data.split_files import SPLIT_WORDS, ExampleFile, Split, SplitFiles
from qkv.errors import DataError, require_package

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MOST_BYTES = 2**32
"""What all pictures of a split may take in memory."""

Pixels = npt.NDArray[np.uint8]
LabelledPixels = tuple[Pixels, RawLabels]


def holds_labels(source: Source) -> bool:
    return "labels" in source.file_name or "idx1" in source.file_name


def from_idx(file: ExampleFile, files: Sequence[ExampleFile]) -> LabelledPixels:
    where = file.display_name
    wanted = file.source.file_name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1")
    labels_files = [other.source for other in files if holds_labels(other.source) and other.source.file_name == wanted]
    if not labels_files and not file.source.member and (path := file.source.path.with_name(wanted)).is_file():
        labels_files = [Source(path)] if path != file.source.path else []
    if not labels_files:
        raise DataError(where, "pictures without labels", f"Put the labels next to it, as {wanted}.")
    pixels, labels = read_idx(file.source), read_idx(labels_files[0])
    if pixels.ndim not in (3, 4) or labels.ndim != 1:
        problem = f"{pixels.ndim} dimensions, and {labels.ndim} in the labels"
        raise DataError(where, problem, "Expected pictures of 3 dimensions (idx3) and labels of 1 (idx1).")
    return joined(where, pixels, labels, labels_files[0].display_name)


def read_idx(source: Source) -> Pixels:
    """An idx file: two zero bytes, the type, the number of dimensions, each as 32 bits, then the values."""
    where = source.display_name
    content = bytearray()
    for chunk in read_bytes(source):
        content += chunk
        if len(content) > MOST_BYTES:
            raise too_large(where, len(content))
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != 8:
        remedy = "Expected the header 00 00 08, then the dimensions."
        raise DataError(f"{where}:1:0", "not an idx file of bytes", remedy)
    dimensions = content[3]
    begins = 4 + 4 * dimensions
    if not 1 <= dimensions <= 4 or len(content) < begins:
        raise DataError(f"{where}:1:3", f"an idx file of {dimensions} dimensions", "Expected 1 to 4; copy it again.")
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, begins, 4))
    if math.prod(shape) != len(content) - begins:
        problem = f"{len(content) - begins:,} values where its header promises {' x '.join(map(str, shape))}"
        raise DataError(f"{where}:1:{begins}", problem, "It is cut short or damaged: copy or download it again.")
    return np.frombuffer(content, dtype=np.uint8, offset=begins).reshape(shape)


def joined(where: str, pixels: Pixels, labels: npt.NDArray[Any], labels_where: str) -> LabelledPixels:
    if len(pixels) != len(labels):
        problem = f"{len(pixels):,} pictures and {len(labels):,} labels ({labels_where})"
        raise DataError(where, problem, "Give files that belong together.")
    if not pixels.size:
        raise DataError(where, "there are no pictures in it", "Give a file with pictures.")
    values = RawLabels()
    for label in labels.tolist():
        values.append(str(label), labels_where, 0)
    return pixels, values


def too_large(where: str, size: int) -> DataError:
    return DataError(where, f"pictures of {size:,} bytes; {MOST_BYTES:,} at most", "Make them fewer or smaller.")


PIXEL_ARRAYS = ("images", "image", "x", "data", "pixels")
LABEL_ARRAYS = ("labels", "label", "y", "target", "targets")


class Npz:
    """The arrays of an npz, read one by one; one that would need a pickle is refused."""

    def __init__(self, source: Source) -> None:
        self.source, self.where = source, source.display_name
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


def _arrays(names: Sequence[str], split: Split | None) -> tuple[str, str] | None:
    """The names of pictures and labels, of one split where the archive has several."""
    words = [word for word, meant in SPLIT_WORDS.items() if meant == split] if split else [""]
    plain = {re.sub(r"[^a-z]+", "_", name.lower()).strip("_"): name for name in names}
    for word in words:
        for pictures, labels in zip(PIXEL_ARRAYS, LABEL_ARRAYS, strict=True):
            for order in ("{0}_{1}", "{1}_{0}"):
                wanted = [order.format(each, word).strip("_") for each in (pictures, labels)]
                if all(each in plain for each in wanted):
                    return plain[wanted[0]], plain[wanted[1]]
    known = [[plain[name] for name in wanted if name in plain] for wanted in (PIXEL_ARRAYS, LABEL_ARRAYS)]
    return (known[0][0], known[1][0]) if split is None and all(known) else None


def from_npz(file: ExampleFile) -> LabelledPixels:
    archive = Npz(file.source)
    pair = _arrays(archive.names, file.split) or _arrays(archive.names, None)
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
        remedy = "Expected bytes from 0 to 255, or numbers from 0 to 1."
        raise DataError(where, f"{name!r} holds {pixels.dtype}", remedy)
    low, high = float(pixels.min()), float(pixels.max())
    if not (math.isfinite(low) and math.isfinite(high)) or low < 0 or high > 255:
        raise DataError(where, f"{name!r} has values from {low:g} to {high:g}", "Expected 0 to 255, or 0 to 1.")
    scale = 255 if pixels.dtype.kind == "f" and high <= 1 else 1
    return np.rint(pixels * scale).astype(np.uint8)


def with_own_splits(files: SplitFiles[ExampleFile]) -> SplitFiles[ExampleFile]:
    """An npz with x_train and x_test holds its splits itself: it is named once for each."""
    if len(files.all()) != 1 or files.train[0].kind != "npz":
        return files
    source = files.train[0].source
    names = Npz(source).names
    splits: tuple[Split, ...] = ("train", "valid", "test")
    own = [[ExampleFile(source, "npz", split)] if _arrays(names, split) else [] for split in splits]
    return SplitFiles(*own) if own[0] else files


LARGEST_FILE = 2**26
_GREY = ("1", "L", "I", "F", "I;16", "LA")


def gather(files: Sequence[ExampleFile], findings: Findings, on_read: OnRead) -> RawSplit:
    parts = [from_idx(file, files) for file in files if file.kind == "idx" and not holds_labels(file.source)]
    parts += [from_npz(file) for file in files if file.kind == "npz"]
    if pictures := [file for file in files if file.kind == "picture"]:
        parts.append(_from_files(pictures, findings, on_read))
    if not parts:
        raise DataError(files[0].display_name, "labels without pictures", "Give the file of pictures too.")
    shapes = {pixels.shape[1:] for pixels, _ in parts}
    if len(shapes) > 1:
        raise DataError(files[0].display_name, f"pictures of unlike sizes: {sorted(shapes)}", "Give files of one size.")
    pixels, values = parts[0]
    for more, labels in parts[1:]:
        pixels = np.concatenate([pixels, more])
        for code in labels.codes:
            values.append(labels.names[code], *labels.places[code])
    keys = np.array([hash64(image.tobytes()) for image in pixels], dtype=np.uint64)
    return RawSplit(ImageExamples(all_values=pixels, all_keys=keys), values)


def _from_files(files: Sequence[ExampleFile], findings: Findings, on_read: OnRead) -> LabelledPixels:
    """All pictures, made the size that most of them have; grey when all are, else in colour."""
    for file in files:
        if file.label is None:
            raise DataError(file.display_name, "a picture without a label", "Put it into a folder named for its label.")
    known: list[tuple[ExampleFile, tuple[int, int]]] = []
    rows = BadRows(f"{files[0].display_name} and {len(files) - 1:,} more", findings)
    grey = True
    for number, file in enumerate(files, 1):
        rows.rows += 1
        opened = _opened(file, on_read)
        if isinstance(opened, str):
            rows.reject(number, f"{file.display_name} {opened}")
            continue
        known.append((file, opened.size))
        grey = grey and opened.mode in _GREY
    rows.finish()
    size, usual = Counter(size for _, size in known).most_common(1)[0]
    if usual < len(known):
        resized = f"{len(known) - usual:,} of {len(known):,} pictures"
        findings.add_note(Caution(f"{resized} were made {size[0]} x {size[1]}, as the others are."))
    shape = (len(known), size[1], size[0], *(() if grey else (3,)))
    if (total := int(np.prod(shape, dtype=object))) > MOST_BYTES:
        raise too_large(files[0].display_name, total)
    pixels, values = np.zeros(shape, dtype=np.uint8), RawLabels()
    for row, (file, _) in enumerate(known):
        opened = _opened(file, None)
        if isinstance(opened, str):
            raise DataError(file.display_name, "changed while it was being read", "Start again when it rests.")
        converted = opened.convert("L" if grey else "RGB")
        pixels[row] = np.asarray(converted if converted.size == size else converted.resize(size))
        values.append(file.label or "", file.display_name, 0)
    return pixels, values


def _opened(file: ExampleFile, on_read: OnRead | None) -> Picture | str:
    """The picture, decoded; or words for what is wrong with it."""
    require_package("PIL", f"{file.display_name}: reading pictures")
    import io

    from PIL import Image, UnidentifiedImageError

    content = b""
    for chunk in read_bytes(file.source):
        content += chunk
        if len(content) > LARGEST_FILE:
            return f"is larger than {LARGEST_FILE:,} bytes"
    if on_read is not None:
        on_read(len(content))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(content))
            picture.load()
    except UnidentifiedImageError:
        return "is no picture that Pillow knows"
    except Exception as error:  # Pillow's readers fail in as many ways as there are formats
        return f"cannot be read: {' '.join(str(error).split())[:100]}"
    return picture

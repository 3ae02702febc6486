"""Images with labels: idx files (the format of MNIST), npz archives of numpy, and folders of image files.

The size of an array is checked against its header before the array is made, and no pickle is ever opened.
"""

from __future__ import annotations

import io
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
from qkv.data.files.unpack import ZIP_ERRORS, Source, changed_error, read_bytes, unreadable_error
from qkv.data.findings import Caution, Findings, OnRead
from qkv.data.formats.column_names import SPLIT_WORDS, SPLITS, Split
from qkv.data.formats.rows import BadRows
from qkv.data.identity import hash64
from qkv.data.labels import RawLabels, RawSplit
from qkv.data.split_files import ExampleFile, SplitFiles
from qkv.errors import DataError, require_package

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

MAX_BYTES = 2**32
"""How much memory an idx file, an array of an npz archive, or the images of a folder may take."""
MAX_IMAGE_FILE_BYTES = 2**26
PIXEL_ARRAYS = ("images", "image", "x", "data", "pixels")
LABEL_ARRAYS = ("labels", "label", "y", "target", "targets")
_GREY_MODES = ("1", "L", "I", "F", "I;16", "LA")

Pixels = npt.NDArray[np.uint8]
LabelledPixels = tuple[Pixels, RawLabels]


def read_split(files: Sequence[ExampleFile], findings: Findings, on_read: OnRead) -> RawSplit:
    """Read the images of one split, which must all have the same size, except for those of a folder."""
    parts = [_read_idx_pair(file, files) for file in files if file.kind == "idx" and not _is_idx_labels(file.source)]
    parts += [_read_npz(file) for file in files if file.kind == "npz"]
    if image_files := [file for file in files if file.kind == "image"]:
        parts.append(_read_image_files(image_files, findings, on_read))
    if not parts:
        raise DataError(files[0].display_name, "labels without images", "Give the file of the images too.")
    shapes = {pixels.shape[1:] for pixels, _ in parts}
    if len(shapes) > 1:
        problem = f"images of different sizes: {sorted(shapes)}"
        raise DataError(files[0].display_name, problem, "Give files of one size.")
    pixels, labels = parts[0]
    for more_pixels, more_labels in parts[1:]:
        pixels = np.concatenate([pixels, more_pixels])
        names = more_labels.names
        for code in more_labels.codes:
            labels.append(names[code], *more_labels.first_places[code])
    keys = np.array([hash64(image.tobytes()) for image in pixels], dtype=np.uint64)
    return RawSplit(ImageExamples(all_values=pixels, all_keys=keys), labels)


def _is_idx_labels(source: Source) -> bool:
    return "labels" in source.file_name or "idx1" in source.file_name


def _read_idx_pair(file: ExampleFile, files: Sequence[ExampleFile]) -> LabelledPixels:
    """Read an idx file of images and the file of its labels: one of `files`, or the file next to it."""
    where = file.display_name
    labels_name = file.source.file_name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1")
    sources = [
        other.source for other in files if _is_idx_labels(other.source) and other.source.file_name == labels_name
    ]
    if not sources and not file.source.member and (path := file.source.path.with_name(labels_name)).is_file():
        sources = [Source(path)] if path != file.source.path else []
    if not sources:
        raise DataError(where, "images without labels", f"Put the labels next to it, as {labels_name}.")
    pixels, labels = _read_idx(file.source), _read_idx(sources[0])
    if pixels.ndim not in (3, 4) or labels.ndim != 1:
        problem = f"{pixels.ndim} dimensions, and {labels.ndim} in the labels"
        raise DataError(where, problem, "Expected images of 3 dimensions (idx3) and labels of 1 (idx1).")
    return _with_labels(where, pixels, labels, sources[0].display_name)


def _read_idx(source: Source) -> Pixels:
    """Read an idx file: two zero bytes, the type, the number of dimensions, each dimension in 32 bits, the values."""
    where = source.display_name
    content = bytearray()
    for chunk in read_bytes(source):
        content += chunk
        if len(content) > MAX_BYTES:
            raise _too_large_error(where, len(content))
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != 8:
        remedy = "Expected the header 00 00 08, then the dimensions."
        raise DataError(f"{where}:1:0", "not an idx file of bytes", remedy)
    dimensions = content[3]
    header_size = 4 + 4 * dimensions
    if not 1 <= dimensions <= 4 or len(content) < header_size:
        raise DataError(f"{where}:1:3", f"an idx file of {dimensions} dimensions", "Expected 1 to 4; copy it again.")
    shape = tuple(int.from_bytes(content[start : start + 4], "big") for start in range(4, header_size, 4))
    if math.prod(shape) != len(content) - header_size:
        problem = f"{len(content) - header_size:,} values, but its header announces {' x '.join(map(str, shape))}"
        remedy = "It is cut short or damaged: copy or download it again."
        raise DataError(f"{where}:1:{header_size}", problem, remedy)
    return np.frombuffer(content, dtype=np.uint8, offset=header_size).reshape(shape)


def _with_labels(where: str, pixels: Pixels, labels: npt.NDArray[Any], labels_where: str) -> LabelledPixels:
    if len(pixels) != len(labels):
        problem = f"{len(pixels):,} images and {len(labels):,} labels ({labels_where})"
        raise DataError(where, problem, "Give files that belong together.")
    if not pixels.size:
        raise DataError(where, "there are no images in it", "Give a file with images.")
    raw_labels = RawLabels()
    for label in labels.tolist():
        raw_labels.append(str(label), labels_where, 0)
    return pixels, raw_labels


def _too_large_error(where: str, size: int) -> DataError:
    return DataError(where, f"images of {size:,} bytes; {MAX_BYTES:,} at most", "Give fewer or smaller images.")


class _NpzArchive:
    """The arrays of an npz archive, read one at a time; an array that needs a pickle is refused."""

    def __init__(self, source: Source) -> None:
        self.source, self.where = source, source.display_name
        if source.member or source.compression != "plain":
            raise DataError(self.where, "an npz inside an archive", "Unpack it and give the .npz file.")
        with self._open() as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        if len(set(self.names)) < len(self.names):
            repeated = next(name for name in self.names if self.names.count(name) > 1)
            raise self._damaged_error(f"the array {repeated!r} occurs twice")

    def _open(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.source.path)
        except OSError as error:
            raise unreadable_error(self.where, error) from None
        except ZIP_ERRORS as error:
            raise self._damaged_error(error) from None

    def _damaged_error(self, problem: object) -> DataError:
        return DataError(self.where, f"not a valid npz file ({problem})", "Create it again with numpy.savez.")

    def read(self, name: str) -> npt.NDArray[Any]:
        try:
            with self._open() as archive, archive.open(f"{name}.npy") as file:
                version = np.lib.format.read_magic(file)
                readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, fortran_order, dtype = readers[version](file)
                if dtype.hasobject:
                    remedy = "Save numbers; qkv never opens pickles."
                    raise DataError(self.where, f"{name!r} holds Python objects", remedy)
                size = math.prod(shape) * dtype.itemsize
                if size > MAX_BYTES:
                    raise _too_large_error(self.where, size)
                content = file.read(size + 1)
        except DataError:
            raise
        except OSError as error:
            raise unreadable_error(self.where, error) from None
        except (*ZIP_ERRORS, KeyError, SyntaxError, TypeError) as error:
            raise self._damaged_error(error) from None
        if len(content) != size or not dtype.itemsize:
            raise self._damaged_error(f"{name!r} has {len(content):,} bytes, expected {size:,}")
        return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran_order else "C")


def _find_arrays(names: Sequence[str], split: Split | None) -> tuple[str, str] | None:
    """The names of the arrays of images and labels: those of a split, or, for None, those that name no split."""
    split_words = [word for word, its_split in SPLIT_WORDS.items() if its_split == split] if split else [""]
    by_form = {re.sub(r"[^a-z]+", "_", name.lower()).strip("_"): name for name in names}
    for word in split_words:
        for pixel_array, label_array in zip(PIXEL_ARRAYS, LABEL_ARRAYS, strict=True):
            for template in ("{0}_{1}", "{1}_{0}"):
                pixels, labels = (template.format(array, word).strip("_") for array in (pixel_array, label_array))
                if pixels in by_form and labels in by_form:
                    return by_form[pixels], by_form[labels]
    if split is not None:
        return None
    pixels, labels = (
        next((name for name in usual_names if name in by_form), "") for usual_names in (PIXEL_ARRAYS, LABEL_ARRAYS)
    )
    return (by_form[pixels], by_form[labels]) if pixels and labels else None


def _read_npz(file: ExampleFile) -> LabelledPixels:
    archive = _NpzArchive(file.source)
    where = archive.where
    names = _find_arrays(archive.names, file.split) or _find_arrays(archive.names, None)
    if names is None:
        problem = f"which arrays are images and labels? There are: {', '.join(archive.names[:20]) or 'none'}"
        raise DataError(where, problem, "Call them images and labels, or x_train and y_train.")
    pixels, labels = archive.read(names[0]), archive.read(names[1])
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if pixels.ndim not in (3, 4) or labels.ndim != 1:
        problem = f"{names[0]} has the shape {pixels.shape}, {names[1]} {labels.shape}"
        raise DataError(where, problem, "Expected images x rows x columns (x channels), and one label each.")
    return _with_labels(where, scale_to_bytes(where, names[0], pixels), labels, where)


def scale_to_bytes(where: str, name: str, pixels: npt.NDArray[Any]) -> Pixels:
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


def split_npz_archive(files: SplitFiles[ExampleFile]) -> SplitFiles[ExampleFile]:
    """Assign a single npz archive with arrays such as x_train and x_test to each split that it holds."""
    if len(files.all()) != 1 or files.train[0].kind != "npz":
        return files
    source = files.train[0].source
    names = _NpzArchive(source).names
    splits = [[ExampleFile(source, "npz", split)] if _find_arrays(names, split) else [] for split in SPLITS]
    return SplitFiles(*splits) if splits[0] else files


def _read_image_files(files: Sequence[ExampleFile], findings: Findings, on_read: OnRead) -> LabelledPixels:
    """Read all images, resized to the most frequent size; in grey if all of them are grey, else in colour.

    Every image is decoded twice, first for its size, so that only the final array is held in memory.
    """
    for file in files:
        if file.label is None:
            raise DataError(file.display_name, "an image without a label", "Put it into a folder named for its label.")
    readable: list[tuple[ExampleFile, tuple[int, int]]] = []
    bad_files = BadRows(f"{files[0].display_name} and {len(files) - 1:,} more", findings)
    grey = True
    for number, file in enumerate(files, 1):
        bad_files.row_count += 1
        image = decode_image(file, on_read)
        if isinstance(image, str):
            bad_files.reject(number, f"{file.display_name} {image}")
            continue
        readable.append((file, image.size))
        grey = grey and image.mode in _GREY_MODES
    bad_files.finish()
    size, count = Counter(size for _, size in readable).most_common(1)[0]
    if count < len(readable):
        resized = f"{len(readable) - count:,} of {len(readable):,} images"
        findings.add_note(Caution(f"{resized} were resized to {size[0]} x {size[1]}, the size of the others."))
    shape = (len(readable), size[1], size[0], *(() if grey else (3,)))
    if (total := math.prod(shape)) > MAX_BYTES:
        raise _too_large_error(files[0].display_name, total)
    pixels, labels = np.zeros(shape, dtype=np.uint8), RawLabels()
    for row, (file, _) in enumerate(readable):
        image = decode_image(file, None)
        if isinstance(image, str):
            raise changed_error(file.display_name)
        converted = image.convert("L" if grey else "RGB")
        pixels[row] = np.asarray(converted if converted.size == size else converted.resize(size))
        labels.append(file.label or "", file.display_name, 0)
    return pixels, labels


def decode_image(file: ExampleFile, on_read: OnRead | None) -> PillowImage | str:
    """The decoded image, or a message about what is wrong with the file."""
    require_package("PIL", f"{file.display_name}: reading images")
    from PIL import Image, UnidentifiedImageError

    content = b""
    for chunk in read_bytes(file.source):
        content += chunk
        if len(content) > MAX_IMAGE_FILE_BYTES:
            return f"is larger than {MAX_IMAGE_FILE_BYTES:,} bytes"
    if on_read is not None:
        on_read(len(content))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content))
            image.load()
    except UnidentifiedImageError:
        return "is not an image that Pillow can read"
    except Exception as error:  # Pillow's readers fail in as many ways as there are formats
        return f"cannot be read: {' '.join(str(error).split())[:100]}"
    return image

"""Converts images to the pixel arrays that a model reads: from arrays, tensors, files or Pillow images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from qkv.data.files.unpack import Source
from qkv.data.formats.images import Pixels, decode_image, scale_to_bytes
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError, InputError, WrongTypeError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

EXPECTED = "an array, a file, a Pillow image, or several of them"


def pixels_of(given: object, shape: tuple[int, ...]) -> tuple[Pixels, list[str]]:
    """Images as one array, (N, *shape), and notes; `shape` is that of the model's training images."""
    notes: list[str] = []
    if hasattr(given, "__array__") and not hasattr(given, "convert"):
        values = _bytes("images", np.asarray(given))
        if _fits(values, shape):
            return values.reshape(1, *shape), notes
        if len(values) and _fits(values[0], shape):
            return values.reshape(len(values), *shape), notes
        raise _shape_error("images", values, shape)
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    arrays = [_one(f"image {number}", image, shape, notes) for number, image in enumerate(several)]
    return np.stack(arrays) if arrays else np.zeros((0, *shape), dtype=np.uint8), notes


def _one(name: str, image: object, shape: tuple[int, ...], notes: list[str]) -> Pixels:
    if isinstance(image, str | Path):
        if not Path(image).is_file():
            raise InputError(f"{image}: no such file. Expected {EXPECTED}.")
        decoded = decode_image(ExampleFile(Source(Path(image)), "image"), None)
        if isinstance(decoded, str):
            raise DataError(str(image), decoded, "Give an image, such as a .png.")
        return _resized(str(image), decoded, shape, notes)
    if hasattr(image, "convert"):
        return _resized(name, cast("Picture", image), shape, notes)
    if not hasattr(image, "__array__"):
        raise WrongTypeError(f"{name}: expected {EXPECTED}; not {type(image).__name__}.")
    values = _bytes(name, np.asarray(image))
    if not _fits(values, shape):
        raise _shape_error(name, values, shape)
    return values.reshape(shape)


def _bytes(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Pixels:
    try:
        return scale_to_bytes("the images", name, values)
    except DataError as error:
        raise InputError(str(error)) from None


def _fits(values: Pixels, shape: tuple[int, ...]) -> bool:
    """Whether these are the pixels of one image; the channel axis of a grey image is optional."""
    return values.shape == shape or (len(shape) == 2 and values.shape == (*shape, 1)) or (*values.shape, 1) == shape


def _resized(name: str, picture: Picture, shape: tuple[int, ...], notes: list[str]) -> Pixels:
    converted = picture.convert("RGB" if shape[2:] == (3,) else "L")
    size = (shape[1], shape[0])
    if converted.size != size:
        notes.append(f"{name}: resized to {size[0]} x {size[1]}, the size of the training images.")
        converted = converted.resize(size)
    return np.asarray(converted, dtype=np.uint8).reshape(shape)


def _shape_error(name: str, values: Pixels, shape: tuple[int, ...]) -> InputError:
    return InputError(
        f"{name}: of shape {values.shape}; expected {shape}, as in training, or several images: "
        f"(N, {', '.join(map(str, shape))})."
    )

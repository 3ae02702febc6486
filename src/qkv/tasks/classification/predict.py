"""Rows of numbers and images in memory, as a model that was trained on such reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data import objects
from qkv.data.findings import Findings
from qkv.data.image_inputs import pixels_of
from qkv.errors import InputError, WrongTypeError
from qkv.recipe.bundle import Bundle
from qkv.tasks.classification.evaluate import parse_numbers, table_rows

EXPECTED = "rows of numbers, an array, a DataFrame, or dicts with the columns"


def images_in(bundle: Bundle, given: object) -> tuple[NDArray[np.uint8], list[str]]:
    """Images of the size that the model reads, and notes."""
    config: Any = bundle.config
    encoder = config.encoder
    shape = (encoder.height, encoder.width_pixels, *((encoder.channels,) if encoder.channels > 1 else ()))
    return pixels_of(given, shape)


def rows_in_memory(bundle: Bundle, given: object) -> list[list[float]]:
    """Rows in the order of the model's columns; of tables the columns are taken by their names."""
    config: Any = bundle.config
    if isinstance(given, str | Path):
        return [parse_numbers(bundle, str(given))]
    if hasattr(given, "columns") or isinstance(given, Mapping):
        whole = not isinstance(given, Mapping) or any(isinstance(v, Sequence | np.ndarray) for v in given.values())
        return _by_name(bundle, given if whole else [given])
    if hasattr(given, "__array__"):
        array = np.asarray(given)
        return [_row(row, config.columns) for row in (array[None] if array.ndim == 1 else array)]
    if not isinstance(given, Sequence):
        raise WrongTypeError(f"expected {EXPECTED}; not {type(given).__name__}.")
    if given and isinstance(given[0], Mapping):
        return _by_name(bundle, given)
    rows = [given] if given and isinstance(given[0], int | float) else given  # one row, or several
    return [parse_numbers(bundle, row) if isinstance(row, str) else _row(row, config.columns) for row in rows]


def _by_name(bundle: Bundle, table: object) -> list[list[float]]:
    """The rows of a table, by the names of its columns."""
    rows = table_rows(bundle, str(objects.store(table).file), Findings())
    return [] if rows is None else [list(map(float, row)) for row in rows]


def _row(row: Any, columns: Sequence[str]) -> list[float]:
    if not hasattr(row, "__len__") or isinstance(row, str):
        raise WrongTypeError(f"a row: expected {len(columns)} numbers, not {type(row).__name__}.")
    if len(row) != len(columns):
        names = f"{', '.join(columns[:8])}{' ...' if len(columns) > 8 else ''}"
        raise InputError(f"a row of {len(row)} numbers: expected {len(columns)}: {names}.")
    try:
        return [math.nan if value is None else float(value) for value in row]
    except (TypeError, ValueError):
        raise WrongTypeError(f"a row: expected {len(columns)} numbers, not {row!r:.80}.") from None

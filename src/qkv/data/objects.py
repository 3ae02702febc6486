"""Stores in-memory data as files of the cache, named by their content: lists, arrays, DataFrames and Datasets.

A DataFrame is then read, split and reported like a file, and its run can be resumed after the process has ended. Rows
are written one by one, so no second copy of them is made in memory. The package of an object has already been imported
by the caller; none is imported here.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, TypeGuard, runtime_checkable

import numpy as np

from qkv.data.cache import PART_SUFFIX, REMEDY, cache_folder
from qkv.errors import InputError, WrongTypeError
from qkv.storage import storage_errors, storage_remedy

EXPECTED = (
    "a file, a list of texts, (texts, labels), a list of (source, target), a list of dicts, a dict of columns, a numpy "
    "array, a pandas or polars DataFrame, a Hugging Face Dataset, or a torch Dataset with a length"
)
Row = dict[str, object]


@dataclass(frozen=True)
class StoredObject:
    """The file with an object's rows, and the options of a corpus that follow from the object's type."""

    file: Path
    name: str  # for the name of a run
    options: dict[str, str] = field(default_factory=dict)


@runtime_checkable
class Column(Protocol):
    """An object with a length and items: a list, an array, a Series, a tensor."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> object: ...


def store(data: object, argument: str = "data") -> StoredObject:
    """Write an object's rows to a file of the cache."""
    if _is(data, "pandas", "DataFrame"):
        columns = {str(name): data[name] for name in data.columns}  # type: ignore[index, attr-defined]
        return _table(columns, argument, "dataframe")
    if _is(data, "polars", "DataFrame"):
        return _table({name: data[name] for name in data.columns}, argument, "dataframe")  # type: ignore[index, attr-defined]
    if _is(data, "datasets", "DatasetDict"):
        splits = ", ".join(map(repr, data))  # type: ignore[call-overload]
        raise WrongTypeError(f"{argument}: a DatasetDict has several splits ({splits}). Give one of them.")
    if _is(data, "datasets", "Dataset"):
        return _jsonl(_dataset_rows(data), argument, "dataset")
    if isinstance(data, Mapping):
        return _table({str(name): column for name, column in data.items()}, argument, "table")
    if isinstance(data, tuple) and len(data) == 2 and all(map(_is_column, data)):
        return _labelled(data[0], data[1], argument)
    if _is_column(data):
        return _rows(data, argument)
    remedy = " Make it a list: list(...)." if isinstance(data, Iterable) and not isinstance(data, bytes) else ""
    raise WrongTypeError(f"{argument}: expected {EXPECTED}; not {type(data).__name__}.{remedy}")


def _is(value: object, package: str, name: str) -> bool:
    kind = getattr(sys.modules.get(package), name, None)
    return kind is not None and isinstance(value, kind)


def _is_column(value: object) -> TypeGuard[Column]:
    if isinstance(value, str | bytes | Mapping | set | frozenset) or not isinstance(value, Column):
        return False
    try:
        len(value)  # an IterableDataset has the method, but no length
    except TypeError:
        return False
    return True


def _rows(data: Column, argument: str) -> StoredObject:
    """Store texts, dicts, pairs of texts, or texts with labels, as the type of the first item shows."""
    if not len(data):
        raise InputError(f"{argument}: empty; expected at least one item.")
    if isinstance(data, np.ndarray) and data.ndim != 1:
        raise WrongTypeError(f"{argument}: an array of shape {data.shape} has no labels. Give (array, labels).")
    first = next(_items(data))
    if isinstance(first, str):
        rows: Iterator[Row] = ({"text": text} for text in _texts(data, argument))
        return _jsonl(rows, argument, "texts", text="text")
    if isinstance(first, Mapping):
        return _jsonl(_mappings(data, argument), argument, "rows")
    if isinstance(first, tuple | list) and len(first) == 2 and isinstance(first[0], str):
        if isinstance(_plain(first[1]), str):
            rows = ({"source": a, "target": b} for a, b in _tuples(data, argument, both=True))
            return _jsonl(rows, argument, "pairs", source="source", target="target")
        rows = ({"text": text, "label": label} for text, label in _tuples(data, argument))
        return _jsonl(rows, argument, "texts", text="text", label="label")
    raise WrongTypeError(f"{argument}: item 0 is of type {type(first).__name__}; expected {EXPECTED}.")


def _labelled(inputs: Column, labels: Column, argument: str) -> StoredObject:
    """Store (texts, labels), (pairs of texts, labels), (word lists, tags), (numbers, labels) or (images, labels)."""
    if not len(inputs) or len(inputs) != len(labels):
        raise InputError(f"{argument}: {len(inputs):,} inputs and {len(labels):,} labels; expected equal numbers.")
    array = inputs.numpy() if _is(inputs, "torch", "Tensor") else inputs  # type: ignore[attr-defined]
    if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
        return _numbers(array, labels, argument)
    first = next(_items(inputs))
    if isinstance(first, str):
        rows: Iterator[Row] = (
            {"text": text, "label": label} for text, label in zip(_texts(inputs, argument), _items(labels), strict=True)
        )
        return _jsonl(rows, argument, "texts", text="text", label="label")
    if isinstance(first, tuple | list) and first and all(isinstance(part, str) for part in first):
        if isinstance(next(_items(labels)), tuple | list):
            return _tagged(inputs, labels, argument)
        pairs = zip(_tuples(inputs, argument, both=True), _items(labels), strict=True)
        rows = ({"text": a, "text2": b, "label": label} for (a, b), label in pairs)
        return _jsonl(rows, argument, "pairs", text="text", text2="text2", label="label")
    raise WrongTypeError(
        f"{argument}: (inputs, labels) of which input 0 is of type {type(first).__name__}; expected texts, pairs of "
        "texts, lists of words, or an array of numbers or images."
    )


def _numbers(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], labels: Column, argument: str) -> StoredObject:
    """Store rows of numbers as .csv, and images as .npz."""
    if array.ndim == 2:
        names = [f"x{number}" for number in range(1, array.shape[1] + 1)]

        def write_table(file: IO[bytes]) -> None:
            lines = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\n")
            lines.writerow([*names, "label"])
            for values, label in zip(array, _items(labels), strict=True):
                lines.writerow([*values.tolist(), label])

        return StoredObject(_stored(write_table, ".csv"), "array", {"label": "label"})
    if array.ndim in (3, 4) and array.dtype == np.uint8:
        label_array = np.array(list(_items(labels)))

        def write_images(file: IO[bytes]) -> None:
            np.savez(file, images=array, labels=label_array)

        return StoredObject(_stored(write_images, ".npz"), "images")
    raise WrongTypeError(
        f"{argument}: an array of shape {array.shape} and type {array.dtype}; expected examples x columns of numbers, "
        "or images of uint8: images x rows x columns, or with channels at the end."
    )


def _tagged(sentences: Column, tags: Column, argument: str) -> StoredObject:
    """Store words with tags as CoNLL."""

    def write(file: IO[bytes]) -> None:
        for index, (words, labels) in enumerate(zip(_items(sentences), _items(tags), strict=True)):
            if not isinstance(words, tuple | list) or not isinstance(labels, tuple | list) or len(words) != len(labels):
                raise InputError(f"{argument}: sentence {index} has different numbers of words and tags.")
            for word in (*words, *labels):
                if not isinstance(word, str) or word.split() != [word]:
                    raise InputError(f"{argument}: sentence {index}: {word!r:.80} is not a word or tag without blanks.")
            file.write("".join(f"{word}\t{tag}\n" for word, tag in zip(words, labels, strict=True)).encode() + b"\n")

    return StoredObject(_stored(write, ".conll"), "sentences", {"task": "tagging"})


def _table(columns: Mapping[str, object], argument: str, name: str) -> StoredObject:
    checked: dict[str, Column] = {}
    for key, column in columns.items():
        if not _is_column(column):
            raise WrongTypeError(f"{argument}: column {key!r} is of type {type(column).__name__}; expected a list.")
        checked[key] = column
    lengths = {key: len(column) for key, column in checked.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key!r} {length:,}" for key, length in lengths.items())
        raise InputError(f"{argument}: columns of different lengths ({listed}).")
    values = zip(*map(_items, checked.values()), strict=True)
    return _jsonl((dict(zip(checked, row, strict=True)) for row in values), argument, name)


def _dataset_rows(data: object) -> Iterator[Row]:
    """The rows of a Hugging Face Dataset; a ClassLabel is stored by its name."""
    features: Mapping[str, object] = data.features  # type: ignore[attr-defined]
    to_names = {key: to_name for key, feature in features.items() if (to_name := _namer(feature)) is not None}
    assert isinstance(data, Iterable)
    for row in data:
        yield {key: to_names[key](value) if key in to_names else value for key, value in row.items()}


def _namer(feature: object) -> Callable[[object], object] | None:
    """A function from the numbers of a ClassLabel to their names; None for other features."""
    if (name_of := getattr(feature, "int2str", None)) is not None:
        return lambda value: None if value is None or value == -1 else name_of(value)  # on the hub, -1 means no label
    inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    one = None if inner is None else _namer(inner)
    if one is None:
        return None
    return lambda values: list(map(one, values)) if isinstance(values, list) else values


def _items(column: Column) -> Iterator[object]:
    """The items as plain Python values. A Series is iterated, because its index may not be its positions."""
    return map(_plain, column if isinstance(column, Iterable) else (column[index] for index in range(len(column))))


def _plain(value: object) -> object:
    """A scalar of numpy, pandas or torch as a plain Python value; None if it is missing."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str | int | float | bool | None | list | tuple | Mapping):
        return value
    if _is(value, "torch", "Tensor") or isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())  # type: ignore[attr-defined]
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _shown(value: object) -> str:
    return "missing" if value is None else f"of type {type(value).__name__} ({value!r:.60})"


def _texts(column: Column, argument: str) -> Iterator[str]:
    for index, text in enumerate(_items(column)):
        if not isinstance(text, str):
            raise WrongTypeError(f"{argument}: text {index} is {_shown(text)}; expected a str.")
        yield text


def _tuples(column: Column, argument: str, both: bool = False) -> Iterator[tuple[str, object]]:
    for index, item in enumerate(_items(column)):
        if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
            raise WrongTypeError(f"{argument}: item {index} is {_shown(item)}; expected two values, the first a str.")
        if both and not isinstance(item[1], str):
            raise WrongTypeError(f"{argument}: item {index} is {_shown(item)}; expected two texts.")
        yield item[0], item[1]


def _mappings(column: Column, argument: str) -> Iterator[Row]:
    for index, row in enumerate(_items(column)):
        if not isinstance(row, Mapping):
            raise WrongTypeError(f"{argument}: row {index} is {_shown(row)}; expected a dict.")
        yield {str(key): value for key, value in row.items()}


def _jsonl(rows: Iterable[Row], argument: str, name: str, **options: str) -> StoredObject:
    def write(file: IO[bytes]) -> None:
        number = -1
        for number, row in enumerate(rows):
            try:
                line = json.dumps(
                    {key: _json(value) for key, value in row.items()}, ensure_ascii=False, allow_nan=False
                )
                file.write(line.encode() + b"\n")
            except (TypeError, ValueError) as error:
                raise WrongTypeError(f"{argument}: row {number}: {error}.") from None
        if number < 0:
            raise InputError(f"{argument}: empty; expected at least one row.")

    return StoredObject(_stored(write, ".jsonl"), name, options)


def _json(value: object) -> object:
    value = _plain(value)
    if isinstance(value, tuple | list):
        return [_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    return value


def _stored(write: Callable[[IO[bytes]], None], suffix: str) -> Path:
    """Write a file of the cache, and name it by its content when it is complete."""
    folder = cache_folder("objects")
    with (
        storage_remedy(REMEDY),
        storage_errors(folder),
        tempfile.NamedTemporaryFile("wb", dir=folder, suffix=PART_SUFFIX, delete=False) as file,
    ):
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    with open(file.name, "rb") as content:
        final = folder / f"{hashlib.file_digest(content, 'sha256').hexdigest()[:32]}{suffix}"
    os.replace(file.name, final)
    return final

"""Parquet, and Arrow as the datasets library of Hugging Face stores it: rows in batches, without the whole file.

Numbers that stand for the names of a ClassLabel become these names, if the schema or the README lists them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.data.files.decompress import COPY_AGAIN
from qkv.data.files.unpack import Source, require_packages, unreadable_error
from qkv.errors import DataError

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

_BATCH_ROWS = 1024
_MAX_README = 2**20
_CLASS_LABEL = re.compile(
    r"- name: (?P<column>\S+)\n *dtype:\n +class_label:\n +names:\n(?P<names>(?: +'?\d+'?: .*\n)+)"
)
_LABEL_NAME = re.compile(r"\s+'?(?P<number>\d+)'?: (?P<name>.+)")


@dataclass(frozen=True)
class ArrowTable:
    schema: Schema
    read: Callable[[Sequence[str] | None], Iterable[RecordBatch]]
    """Batches of rows with the given columns; None: all."""
    label_names: dict[str, list[str]]
    """By column: the names that its numbers stand for."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, list[list[object]]]]:
        """The size in bytes and the cells, column by column, of each batch."""
        names = self.schema.names if columns is None else columns
        for batch in self.read(columns):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                part = batch.slice(start, _BATCH_ROWS)
                yield part.nbytes, [self._cells(part, name) for name in names]

    def _cells(self, batch: RecordBatch, name: str) -> list[object]:
        cells: list[object] = batch.column(batch.schema.get_field_index(name)).to_pylist()
        labels = self.label_names.get(name)
        return cells if labels is None else [_label(cell, labels) for cell in cells]


def _label(cell: object, names: Sequence[str]) -> object:
    """The name of a label; None for -1, which means no label."""
    if isinstance(cell, list):
        return [_label(part, names) for part in cell]
    if not isinstance(cell, int):
        return cell
    return names[cell] if 0 <= cell < len(names) else None


@contextmanager
def open_arrow(source: Source) -> Iterator[ArrowTable]:
    """Open a Parquet or Arrow file; DataError if it cannot be opened or, inside the context, cannot be read."""
    require_packages([source])
    import pyarrow

    where = source.display_name
    kind = "Parquet" if source.format == "parquet" else "Arrow"
    if source.member or source.compression != "plain":
        raise DataError(where, f"a {kind} file inside an archive", f"Unpack it and give the {source.suffix} file.")
    try:
        with source.path.open("rb") as file:
            schema, read = (_parquet if source.format == "parquet" else _arrow)(file)
            yield ArrowTable(schema, read, _label_names(schema, source.path))
    except (pyarrow.ArrowException, ValueError, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # pyarrow raises OSError without errno for damage
            raise unreadable_error(where, error) from None
        problem = " ".join(str(error).split())[:200]
        raise DataError(where, f"not a valid {kind} file ({problem})", COPY_AGAIN) from None


def _parquet(file: Any) -> tuple[Schema, Callable[[Sequence[str] | None], Iterable[RecordBatch]]]:
    from pyarrow.parquet import ParquetFile

    table = ParquetFile(file)
    return table.schema_arrow, lambda columns: table.iter_batches(batch_size=_BATCH_ROWS, columns=columns)


def _arrow(file: Any) -> tuple[Schema, Callable[[Sequence[str] | None], Iterable[RecordBatch]]]:
    """A stream of batches, as the datasets library writes it, or a file of them."""
    from pyarrow import ipc

    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    reader = ipc.open_file(file) if is_file else ipc.open_stream(file)

    def batches(columns: Sequence[str] | None) -> Iterator[RecordBatch]:
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
            batch.validate(full=True)  # the file may be damaged
            yield batch if columns is None else batch.select(columns)

    return reader.schema, batches


def _label_names(schema: Schema, path: Path) -> dict[str, list[str]]:
    """The names of each ClassLabel: from the schema's metadata, else from the README of a data set of the hub."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        found = {name: _names_of(feature) for name, feature in features.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        found = {}
    named = {name: names for name, names in found.items() if names}
    return {name: names for name, names in (named or _names_in_readme(path)).items() if name in schema.names}


def _names_of(feature: Any) -> list[str]:
    if isinstance(feature, list) and feature:
        feature = feature[0]
    if isinstance(feature, dict) and "feature" in feature:
        feature = feature["feature"]
    is_label = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    return [str(name) for name in feature.get("names") or ()] if is_label else []


def _names_in_readme(path: Path) -> dict[str, list[str]]:
    """The label names in the README of a data set, which is in the folder of the file or the folder above."""
    for folder in (path.parent, path.parent.parent):
        try:
            with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
                head = file.read(_MAX_README)
        except OSError:
            continue
        found = {}
        for match in _CLASS_LABEL.finditer(head.partition("\n---")[0] if head.startswith("---") else ""):
            numbered = [_LABEL_NAME.fullmatch(line) for line in match["names"].splitlines()]
            names = {int(line["number"]): line["name"].strip("'\" ") for line in numbered if line is not None}
            if names and sorted(names) == list(range(len(names))):
                found[match["column"].strip("'\"")] = [names[number] for number in range(len(names))]
        return found
    return {}

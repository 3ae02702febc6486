"""Any table, row by row: delimited text, .jsonl, .json, .parquet. The first rows are kept for guessing what is what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source, read_bytes, require_packages
from qkv.data.findings import Findings, Watch
from qkv.data.formats.delimited import Dialect, cells, has_header, sniff
from qkv.data.formats.rows import Buffer, Rows, unsound_parquet, whole_lines
from qkv.errors import DataError
from qkv.visible import visible

SAMPLE = 2000
SAMPLE_CHARACTERS = 2**21
MOST_COLUMNS = 1000

Header = bool | Callable[[Sequence[str]], bool] | None
"""Whether the first row names the columns, or a rule that says it of this row; None: by the looks of the first rows."""

Row = tuple[int, Sequence[Any]]
"""The number of its line, or of the row where there are no lines; and its values."""


@dataclass
class Table:
    source: Source
    columns: list[str]
    """Their names; numbers counted from 1 where the file names none."""
    sample: list[Row]
    rows: Iterator[Row]
    """All of them, those of the sample included."""
    bad: Rows
    """Counts those that cannot be used."""
    said: str = ""
    """How the cells were told apart."""

    @property
    def where(self) -> str:
        return self.source.shown


class EmptyTableError(DataError):
    """A table without a row."""


def open_table(
    source: Source,
    encoding: str,
    findings: Findings,
    header: Header = None,
    watch: Watch | None = None,
    chunks: Iterator[bytes] | None = None,
) -> Table:
    """Open a table and read its first rows; `chunks` are its bytes, where it has been opened before."""
    bad = Rows(source.shown, None, findings)
    if source.format == "parquet":
        return _parquet(source, bad, watch)
    texts = decode(watched(chunks or read_bytes(source), watch), source.shown, encoding, findings)
    if source.format in ("jsonl", "json"):
        return _objects(source, texts, bad)
    return _delimited(source, texts, bad, header)


def watched(chunks: Iterator[bytes], watch: Watch | None) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        if watch is not None:
            watch(len(chunk))


def first_lines(lines: Iterator[str]) -> list[str]:
    """Enough of the beginning to judge by."""
    found: list[str] = []
    characters = 0
    for line in islice(lines, SAMPLE):
        found.append(line)
        characters += len(line)
        if characters > SAMPLE_CHARACTERS:
            break
    return found


def suffix(source: Source) -> str:
    """The ending that says what a file holds, packing left aside."""
    name = PurePath(source.member or source.path)
    return (name.with_suffix("") if not source.member and source.packing in ("gz", "zst") else name).suffix.lower()


def _delimited(source: Source, texts: Iterable[str], bad: Rows, header: Header) -> Table:
    lines = whole_lines(texts, source.shown)
    first = first_lines(lines)
    if not any(line.strip() for line in first):
        raise empty(source)
    likely = {".csv": ",;\t|", ".tsv": "\t,;|"}.get(suffix(source), "\t")
    dialect = sniff(first, likely)
    rows = cells(chain(first, lines), source.shown, dialect)
    sample: list[Row] = list(islice(rows, SAMPLE))
    if not sample:
        raise empty(source)
    top = [value.strip() for value in sample[0][1]]
    if callable(header):
        header = header(sample[0][1])
    named = has_header([row for _, row in sample]) if header is None else header
    if named:
        sample = sample[1:]
        columns = _column_names(f"{source.shown}:1", top)
    else:
        columns = [str(number) for number in range(1, dialect.width + 1)]
    if len(columns) > MOST_COLUMNS:
        raise DataError(source.shown, f"{len(columns):,} columns", f"Keep those that matter; {MOST_COLUMNS:,} at most.")
    said = [] if named else ["no header, so the columns are numbered from 1"]
    if dialect.delimiter != likely[0] or (dialect.quotes == "none") != (dialect.delimiter == "\t"):
        said.insert(0, dialect.said)
    sample = list(_fitting(sample, len(columns), bad, dialect))
    return Table(
        source, columns, sample, chain(sample, _fitting(rows, len(columns), bad, dialect)), bad, "; ".join(said)
    )


def empty(source: Source) -> EmptyTableError:
    return EmptyTableError(source.shown, "the table is empty", "Give a file with rows of text and label.")


def _column_names(where: str, names: Sequence[str]) -> list[str]:
    while names and not names[-1]:  # a delimiter at the end of the line
        names = names[:-1]
    for name in names:
        if name and names.count(name) > 1:
            raise DataError(where, f"two columns are called {name!r}", "Rename one of them.")
    return [visible(name) or str(number) for number, name in enumerate(names, 1)]


def _fitting(rows: Iterable[Row], width: int, bad: Rows, dialect: Dialect) -> Iterator[Row]:
    """Rows with a value for every column; empty cells too many or too few at the end do no harm."""
    for line, row in rows:
        bad.rows += 1
        if len(row) != width:
            if any(row[width:]) or len(row) < width:
                bad.reject(line, f"expected {width} cells, found {len(row)} ({dialect.said})")
                continue
            row = row[:width]
        yield line, row


def _objects(source: Source, texts: Iterable[str], bad: Rows) -> Table:
    buffer = Buffer(texts, source.shown)
    first = buffer.peek()
    if not first:
        raise empty(source)
    values = enumerate(buffer.elements(), 1) if first == "[" else _json_lines(buffer, source.shown, bad)
    return _from_objects(source, values, bad)


def _json_lines(buffer: Buffer, where: str, bad: Rows) -> Iterator[tuple[int, Any]]:
    blank = buffer.line + buffer.text.count("\n", 0, buffer.place) - 1
    for number, line in enumerate(whole_lines(buffer.rest(), where), 1 + blank):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                bad.rows += 1
                bad.reject(number, f"not JSON ({error})")


def _from_objects(source: Source, values: Iterator[tuple[int, Any]], bad: Rows) -> Table:
    sample = list(islice(values, SAMPLE))
    keys = list(dict.fromkeys(key for _, value in sample if isinstance(value, dict) for key in value))
    columns = [visible(key) for key in keys]
    if len(columns) > MOST_COLUMNS:
        raise DataError(
            source.shown, f"{len(columns):,} keys", f"Expected rows of the same keys, {MOST_COLUMNS:,} at most."
        )
    if not columns:
        bad.finish()
        if not sample:
            raise empty(source)
        problem = f'expected objects as {{"text": ..., "label": ...}}, found {type(sample[0][1]).__name__}'
        raise DataError(f"{source.shown}:{sample[0][0]}", problem, "Give one object a row.")

    def fitting(rows: Iterable[tuple[int, Any]]) -> Iterator[Row]:
        for number, value in rows:
            bad.rows += 1
            if isinstance(value, dict):
                yield number, [value.get(key) for key in keys]
            else:
                bad.reject(number, f"expected an object, found {type(value).__name__}")

    sample_rows = list(fitting(sample))
    return Table(source, columns, sample_rows, chain(sample_rows, fitting(values)), bad)


def _parquet(source: Source, bad: Rows, watch: Watch | None) -> Table:
    rows = _parquet_rows(source, watch)
    columns = [visible(str(name)) for name in next(rows)[1]]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DataError(source.shown, f"two columns are called {twice!r}", "Rename one of them.")

    def counted() -> Iterator[Row]:
        for row in rows:
            bad.rows += 1
            yield row

    values = counted()
    sample = list(islice(values, SAMPLE))
    if not sample:
        raise empty(source)
    return Table(source, columns, sample, chain(sample, values), bad)


def _parquet_rows(source: Source, watch: Watch | None) -> Iterator[Row]:
    """The names of the columns, then the rows."""
    require_packages([source])
    import pyarrow
    import pyarrow.parquet

    where = source.shown
    if source.member or source.packing != "plain":
        raise DataError(where, "a Parquet file inside an archive", "Unpack it and give the .parquet file.")
    try:
        with source.path.open("rb") as file, pyarrow.parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            yield 0, names
            number = 0
            for batch in table.iter_batches(batch_size=1024):
                for row in zip(*(batch.column(index).to_pylist() for index in range(len(names))), strict=True):
                    number += 1
                    yield number, row
                if watch is not None:
                    watch(batch.nbytes)
    except (pyarrow.ArrowException, ValueError, OverflowError, OSError) as error:
        raise unsound_parquet(where, error) from None

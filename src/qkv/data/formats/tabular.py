"""A table, row by row: delimited text, .jsonl, .json, .parquet. The first rows are kept for guessing what is what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source, read_bytes
from qkv.data.findings import Findings, OnRead
from qkv.data.formats.delimited import cells, has_header, sniff
from qkv.data.formats.rows import BadRows, JsonReader, open_parquet, report_reads, whole_lines
from qkv.errors import DataError
from qkv.visible import visible

SAMPLE = 2000
SAMPLE_CHARACTERS = 2**21
MOST_COLUMNS = 1000

Header = bool | Callable[[Sequence[str]], bool] | None
"""Whether the first row names the columns, or a rule that says it of this row; None: by the looks of the first rows."""

Row = tuple[int, Sequence[object]]
"""The number of its line, or of the row where there are no lines; and its values."""


@dataclass
class Table:
    source: Source
    columns: list[str]
    """Their names; numbers counted from 1 where the file names none."""
    sample: list[Row]
    rows: Iterator[Row]
    """All of them, those of the sample included."""
    bad: BadRows
    """Counts those that cannot be used."""
    note: str = ""
    """How the cells were told apart, where it is worth a word."""

    @property
    def where(self) -> str:
        return self.source.display_name

    @property
    def numbered(self) -> bool:
        """Whether the file names no columns."""
        return all(name.isdecimal() for name in self.columns)

    def require_rows(self) -> None:
        if not self.sample:
            self.bad.finish()
            raise DataError(self.where, "the table has a header and no rows", "Give a file with rows.")

    def column(self, place: int) -> list[object]:
        """What the first rows hold in a column."""
        return [row[place] for _, row in self.sample]


def open_table(
    source: Source,
    encoding: str,
    findings: Findings,
    header: Header = None,
    on_read: OnRead | None = None,
    chunks: Iterator[bytes] | None = None,
) -> Table:
    """Open a table and read its first rows; `chunks` are its bytes, where it has been opened before."""
    bad = BadRows(source.display_name, findings)
    if source.format == "parquet":
        return _parquet(source, bad, on_read)
    texts = decode(report_reads(chunks or read_bytes(source), on_read), source.display_name, encoding, findings)
    if source.format in ("jsonl", "json"):
        return _objects(source, texts, bad)
    return _delimited(source, texts, bad, header)


def _delimited(source: Source, texts: Iterable[str], bad: BadRows, header: Header) -> Table:
    lines = whole_lines(texts, source.display_name)
    first: list[str] = []
    characters = 0
    for line in islice(lines, SAMPLE):
        first.append(line)
        characters += len(line)
        if characters > SAMPLE_CHARACTERS:
            break
    likely = {".csv": ",;\t|", ".tsv": "\t,;|"}.get(source.suffix, "\t")
    dialect = sniff(first, likely)
    rows = cells(chain(first, lines), source.display_name, dialect)
    sample = list(islice(rows, SAMPLE))
    if not sample or not any(line.strip() for line in first):
        raise empty(source)
    if callable(header):
        header = header(sample[0][1])
    named = has_header([row for _, row in sample]) if header is None else header
    if named:
        columns = _column_names(f"{source.display_name}:1", [value.strip() for value in sample[0][1]])
    else:
        columns = [str(number) for number in range(1, dialect.width + 1)]
    if len(columns) > MOST_COLUMNS:
        raise DataError(
            source.display_name, f"{len(columns):,} columns", f"Keep those that matter; {MOST_COLUMNS:,} at most."
        )
    notes = [] if named else ["no header, so the columns are numbered from 1"]
    if dialect.delimiter != likely[0] or (dialect.quotes == "none") != (dialect.delimiter == "\t"):
        notes.insert(0, dialect.said)

    def fitting(rows: Iterable[tuple[int, list[str]]]) -> Iterator[Row]:
        """Rows with a value for every column; empty cells too many or too few at the end do no harm."""
        width = len(columns)
        for line, row in rows:
            bad.rows += 1
            if any(row[width:]) or len(row) < width:
                bad.reject(line, f"expected {width} cells, found {len(row)} ({dialect.said})")
            else:
                yield line, row[:width]

    whole = list(fitting(sample[1:] if named else sample))
    return Table(source, columns, whole, chain(whole, fitting(rows)), bad, "; ".join(notes))


def empty(source: Source) -> DataError:
    return DataError(source.display_name, "the table is empty", "Give a file with rows.")


def _column_names(where: str, names: Sequence[str]) -> list[str]:
    while names and not names[-1]:  # a delimiter at the end of the line
        names = names[:-1]
    for name in names:
        if name and names.count(name) > 1:
            raise DataError(where, f"two columns are called {name!r}", "Rename one of them.")
    return [visible(name) or str(number) for number, name in enumerate(names, 1)]


def _objects(source: Source, texts: Iterable[str], bad: BadRows) -> Table:
    """JSON: a list of objects, or one a line."""
    reader = JsonReader(texts, source.display_name)
    first = reader.peek()
    if not first:
        raise empty(source)
    values = reader.elements() if first == "[" else reader.lines(bad)
    sample = list(islice(values, SAMPLE))
    keys = list(dict.fromkeys(key for _, value in sample if isinstance(value, dict) for key in value))
    if len(keys) > MOST_COLUMNS:
        remedy = f"Expected rows of the same keys, {MOST_COLUMNS:,} at most."
        raise DataError(source.display_name, f"{len(keys):,} keys", remedy)
    if not keys:
        bad.finish()
        if not sample:
            raise empty(source)
        problem = f'expected objects as {{"text": ..., "label": ...}}, found {type(sample[0][1]).__name__}'
        raise DataError(f"{source.display_name}:{sample[0][0]}", problem, "Give one object a row.")

    def fitting(values: Iterable[tuple[int, object]]) -> Iterator[Row]:
        for number, value in values:
            bad.rows += 1
            if isinstance(value, dict):
                yield number, [value.get(key) for key in keys]
            else:
                bad.reject(number, f"expected an object, found {type(value).__name__}")

    rows = list(fitting(sample))
    return Table(source, [visible(key) for key in keys], rows, chain(rows, fitting(values)), bad)


def _parquet(source: Source, bad: BadRows, on_read: OnRead | None) -> Table:
    rows = _parquet_rows(source, bad, on_read)
    columns = [visible(str(name)) for name in next(rows)[1]]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DataError(source.display_name, f"two columns are called {twice!r}", "Rename one of them.")
    sample = list(islice(rows, SAMPLE))
    if not sample:
        raise empty(source)
    return Table(source, columns, sample, chain(sample, rows), bad)


def _parquet_rows(source: Source, bad: BadRows, on_read: OnRead | None) -> Iterator[Row]:
    """The names of the columns, then the rows."""
    with open_parquet(source) as table:
        names = table.schema_arrow.names
        yield 0, names
        for batch in table.iter_batches(batch_size=1024):
            for row in zip(*(batch.column(index).to_pylist() for index in range(len(names))), strict=True):
                bad.rows += 1
                yield bad.rows, row
            if on_read is not None:
                on_read(batch.nbytes)

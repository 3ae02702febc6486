"""Tables, row by row: delimited text, .jsonl, .json, .parquet, .tmx and others. The first rows are kept for guesses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from qkv.data.files.decode import decode
from qkv.data.files.unpack import DELIMITERS, Source, read_bytes
from qkv.data.findings import Findings, OnRead
from qkv.data.formats import fasta
from qkv.data.formats.arrow_tables import open_arrow
from qkv.data.formats.column_names import SPLIT_COLUMNS, SPLITS, normalize, split_of
from qkv.data.formats.decimal_commas import columns_with_decimal_commas, with_decimal_points
from qkv.data.formats.delimited import read_rows, sniff_dialect
from qkv.data.formats.headers import Header, column_names, find_header, require_distinct_names, rows_below
from qkv.data.formats.json_rows import read_json
from qkv.data.formats.labelled_lines import (
    SNIFFED,
    SNIFFED_WITH_HEADINGS,
    LabelledLines,
    begins_with_heading,
    sniff_lines,
)
from qkv.data.formats.rows import BadRows, JsonReader, ObjectKey, report_reads, split_lines
from qkv.data.formats.translation_memory import read_memory
from qkv.data.formats.workbook import workbook_rows
from qkv.errors import DataError
from qkv.visible import visible

SAMPLE_ROWS = 2000
SAMPLE_CHARACTERS = 2**21
MAX_COLUMNS = 1000

Row = tuple[int, Sequence[object]]
"""A row's line number (in Parquet and JSON lists its own number) and its cells."""


@dataclass
class Table:
    source: Source
    columns: list[str]
    """Their names; "1", "2", ... if the file has no header."""
    sample: list[Row]
    """The first rows."""
    rows: Iterator[Row]
    """All rows, those of the sample included."""
    bad_rows: BadRows
    dialect_note: str = ""
    """How the cells are separated, if that is worth a note."""
    split_column: str | None = None
    """The column with the split of each row."""
    layout: LabelledLines | None = None
    """Where the labels are, in lines without cells."""

    @property
    def where(self) -> str:
        return self.source.display_name

    @property
    def has_numbered_columns(self) -> bool:
        """Whether the columns have numbers for names, as in a file without a header."""
        return all(name.isdecimal() for name in self.columns if name != self.split_column)

    def require_rows(self) -> None:
        if not self.sample:
            self.bad_rows.finish()
            raise DataError(self.where, "the table has a header and no rows", "Give a file with rows.")

    def holds_keys(self, column: str) -> bool:
        """Whether the cells of a column are keys of a JSON object, which has no such column."""
        return bool(self.sample) and isinstance(self.sample[0][1][self.columns.index(column)], ObjectKey)

    def sample_column(self, index: int) -> list[object]:
        """The cells of a column in the first rows."""
        return [row[index] for _, row in self.sample]


def open_table(
    source: Source,
    encoding: str | None,
    findings: Findings,
    header: Header = None,
    on_read: OnRead | None = None,
    chunks: Iterator[bytes] | None = None,
    layout: LabelledLines | None = None,
) -> Table:
    """Open a table and read its first rows. `chunks` are the bytes of the file, if it is already open; `layout` is that
    of an earlier file, for lines with labels."""
    bad_rows = BadRows(source.display_name, findings)
    if source.format in ("parquet", "arrow"):
        table = _open_arrow_table(source, bad_rows, on_read)
    elif source.format == "workbook":
        table = _open_workbook(source, bad_rows, header)
    else:
        once = findings if source.split in (None, SPLITS[0]) else Findings()  # a file is read for each of its splits
        texts = decode(report_reads(chunks or read_bytes(source), on_read), source.display_name, encoding, once)
        if source.format in ("jsonl", "json"):
            table = _open_json_table(source, texts, bad_rows)
        elif source.format == "tmx":
            table = table_of_rows(source, *read_memory(texts, bad_rows, SAMPLE_ROWS), bad_rows)
        elif source.suffix in fasta.SUFFIXES:
            lines = split_lines(texts, source.display_name)
            table = table_of_rows(source, fasta.COLUMNS, fasta.read_fasta(lines, bad_rows), bad_rows)
        else:
            table = _open_delimited_table(source, texts, bad_rows, header, layout)
    table.split_column = next((name for name in table.columns if _holds_splits(table, name)), None)
    if source.split is not None and table.split_column is not None:
        column = table.columns.index(table.split_column)
        table.rows = (row for row in table.rows if split_of(str(row[1][column])) == source.split)
    return table


def table_of_rows(source: Source, columns: list[str], rows: Iterator[Row], bad_rows: BadRows) -> Table:
    """A table with these rows; DataError if there are none."""
    sample = list(islice(rows, SAMPLE_ROWS))
    if not sample and not bad_rows.bad_count:
        raise _empty_table_error(source)
    return Table(source, columns, sample, chain(sample, rows), bad_rows)


def _holds_splits(table: Table, name: str) -> bool:
    """Whether a column has a usual name and nothing but names of splits."""
    if normalize(name) not in SPLIT_COLUMNS:
        return False
    cells = table.sample_column(table.columns.index(name))
    return bool(cells) and all(isinstance(cell, str) and split_of(cell) for cell in cells)


def _open_delimited_table(
    source: Source, texts: Iterable[str], bad_rows: BadRows, header: Header, given: LabelledLines | None
) -> Table:
    lines = split_lines(texts, source.display_name)
    first_lines: list[str] = []
    if source.suffix in DELIMITERS:
        _read_lines(lines, first_lines, SAMPLE_CHARACTERS, SAMPLE_ROWS)
        likely_delimiters = DELIMITERS[source.suffix]
        dialect = sniff_dialect(first_lines, likely_delimiters)
    else:
        _read_lines(lines, first_lines, SNIFFED)
        if begins_with_heading(first_lines):
            _read_lines(lines, first_lines, SNIFFED_WITH_HEADINGS)
        layout = given or sniff_lines(first_lines)
        if isinstance(layout, LabelledLines):
            return _labelled_lines_table(source, chain(first_lines, lines), bad_rows, layout)
        likely_delimiters = "\t"
        dialect = layout or sniff_dialect(first_lines, "\t")
    rows = read_rows(chain(first_lines, lines), source.display_name, dialect)
    sample = list(islice(rows, SAMPLE_ROWS))
    if not sample or not any(line.strip() for line in first_lines):
        raise _empty_table_error(source)
    header_row = find_header([row for _, row in sample], header)
    if header_row is not None:
        line, names = sample[header_row]
        columns = column_names(f"{source.display_name}:{line}", [cell.strip() for cell in names])
        sample = rows_below(header_row, sample, bad_rows)
    else:
        columns = [str(number) for number in range(1, dialect.width + 1)]
    if len(columns) > MAX_COLUMNS:
        raise DataError(
            source.display_name, f"{len(columns):,} columns", f"Keep those that matter; {MAX_COLUMNS:,} at most."
        )
    notes = [] if header_row is not None else ["no header, so the columns are numbered from 1"]
    if dialect.delimiter != likely_delimiters[0] or (dialect.quoting == "none") != (dialect.delimiter == "\t"):
        notes.insert(0, dialect.description)

    def valid_rows(rows: Iterable[tuple[int, list[str]]]) -> Iterator[Row]:
        """The rows with a cell for every column; additional empty cells at the end of a row are dropped."""
        width = len(columns)
        for line, row in rows:
            bad_rows.row_count += 1
            if any(row[width:]) or len(row) < width:
                bad_rows.reject(line, f"expected {width} cells, found {len(row)} ({dialect.description})")
            else:
                yield line, row[:width]

    valid_sample = list(valid_rows(sample))
    decimal_commas = columns_with_decimal_commas(valid_sample, len(columns), dialect.delimiter)
    if decimal_commas:
        notes.append("numbers have decimal commas")
        valid_sample = list(with_decimal_points(valid_sample, decimal_commas))
    all_rows = chain(valid_sample, with_decimal_points(valid_rows(rows), decimal_commas))
    return Table(source, columns, valid_sample, all_rows, bad_rows, "; ".join(notes))


def _read_lines(lines: Iterator[str], first_lines: list[str], characters: int, max_lines: int = sys.maxsize) -> None:
    """Append lines to the first ones, until these have this many characters."""
    characters -= sum(map(len, first_lines))
    for line in islice(lines, max_lines):
        first_lines.append(line)
        characters -= len(line)
        if characters < 0:
            break


def _labelled_lines_table(source: Source, lines: Iterable[str], bad_rows: BadRows, layout: LabelledLines) -> Table:
    rows = layout.rows(lines, bad_rows)
    sample: list[Row] = list(islice(rows, SAMPLE_ROWS))
    return Table(source, layout.columns, sample, chain(sample, rows), bad_rows, layout.description, layout=layout)


def _empty_table_error(source: Source) -> DataError:
    return DataError(source.display_name, "the table is empty", "Give a file with rows.")


def _open_json_table(source: Source, texts: Iterable[str], bad_rows: BadRows) -> Table:
    """Open a list of objects, or a file with one object per line; the keys of the sample are the columns."""
    reader = JsonReader(texts, source.display_name)
    if not reader.peek():
        raise _empty_table_error(source)
    values = read_json(reader, bad_rows, by_lines=source.format == "jsonl")
    sample = list(islice(values, SAMPLE_ROWS))
    keys = list(dict.fromkeys(key for _, value in sample if isinstance(value, dict) for key in value))
    if len(keys) > MAX_COLUMNS:
        remedy = f"Expected rows of the same keys, {MAX_COLUMNS:,} at most."
        raise DataError(source.display_name, f"{len(keys):,} keys", remedy)
    if not keys:
        bad_rows.finish()
        if not sample:
            raise _empty_table_error(source)
        problem = f'expected objects such as {{"text": ..., "label": ...}}, found {type(sample[0][1]).__name__}'
        raise DataError(f"{source.display_name}:{sample[0][0]}", problem, "Give one object per row.")

    def valid_rows(values: Iterable[tuple[int, object]]) -> Iterator[Row]:
        for number, value in values:
            bad_rows.row_count += 1
            if isinstance(value, dict):
                yield number, [value.get(key) for key in keys]
            else:
                bad_rows.reject(number, f"expected an object, found {type(value).__name__}")

    valid_sample = list(valid_rows(sample))
    rows = chain(valid_sample, valid_rows(values))
    numbers = [key for key in keys if key.isdecimal()]
    numbered = len(numbers) > 1 and numbers == list(map(str, range(1, len(numbers) + 1)))
    note = "columns without names are numbered from 1" if numbered else ""
    return Table(source, [visible(key) for key in keys], valid_sample, rows, bad_rows, note)


def _open_arrow_table(source: Source, bad_rows: BadRows, on_read: OnRead | None) -> Table:
    names_and_rows = _arrow_rows(source, bad_rows, on_read)
    columns = [visible(str(name)) for name in next(names_and_rows)[1]]
    require_distinct_names(source.display_name, columns)
    return table_of_rows(source, columns, names_and_rows, bad_rows)


def _arrow_rows(source: Source, bad_rows: BadRows, on_read: OnRead | None) -> Iterator[Row]:
    """The names of the columns as row 0, then the rows."""
    with open_arrow(source) as table:
        yield 0, table.schema.names
        for size, columns in table.batches():
            for row in zip(*columns, strict=True):
                bad_rows.row_count += 1
                yield bad_rows.row_count, row
            if on_read is not None:
                on_read(size)


def _open_workbook(source: Source, bad_rows: BadRows, header: Header) -> Table:
    rows = workbook_rows(source, bad_rows.findings)
    first = list(islice(rows, SAMPLE_ROWS))
    if not first:
        raise _empty_table_error(source)
    texts = [["" if cell is None else str(cell) for cell in cells] for _, cells in first]
    header_row = find_header(texts, header)
    width = max(len(cells) for _, cells in first)
    if header_row is not None:
        names = [cell.strip() for cell in texts[header_row]]
        columns = column_names(f"{source.display_name}:{first[header_row][0]}", names)
        first = rows_below(header_row, first, bad_rows)
        columns += [str(number) for number in range(len(columns) + 1, width + 1)]
    else:
        columns = [str(number) for number in range(1, width + 1)]

    def all_rows() -> Iterator[Row]:
        for number, cells in chain(first, rows):
            bad_rows.row_count += 1
            yield number, [*cells[:width], *[None] * (width - len(cells))]

    valid_rows = all_rows()
    sample = list(islice(valid_rows, SAMPLE_ROWS))
    note = "" if header_row is not None else "no header, so the columns are numbered from 1"
    return Table(source, columns, sample, chain(sample, valid_rows), bad_rows, note)

"""Delimited text (.csv, .tsv and similar): which delimiter separates the cells, and what quotes mean.

Both are guessed from the first lines. In some files, such as most of GLUE's, quotes are part of the text: a cell may
begin with a quote that is never closed. If such a quote were read as the start of a quoted cell, the cell would
swallow all following rows.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from qkv.data.formats.rows import MAX_ROW_CHARACTERS
from qkv.errors import DataError

Quoting = Literal["none", "doubled", "escaped"]
"""Quotes are part of the text; or they enclose cells, and a quote inside is doubled, or has a backslash before it."""

_QUOTED: tuple[Quoting, ...] = ("doubled", "escaped")
_DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
_QUOTING_NOTES: dict[Quoting, str] = {
    "none": "quotes are text",
    "doubled": "cells may be quoted",
    "escaped": 'cells may be quoted, with \\"',
}
_TOLERANCE = 0.05
_NEARLY_ALL = 0.9
_COMPARED_LINES = 200
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")
_QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    quoting: Quoting
    width: int
    """The most frequent number of cells in a row."""
    width_share: float
    """The share of the first rows that have this number of cells."""

    @property
    def description(self) -> str:
        return f"cells separated by {_DELIMITER_NAMES[self.delimiter]}, {_QUOTING_NOTES[self.quoting]}"


class _LineCounter:
    """Passes lines to the csv module, and knows how many were passed and whether the module asked for more."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = iter(lines)
        self.count, self.exhausted = 0, False

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.count += 1
            yield line + "\n"
        self.exhausted = True


def read_rows(lines: Iterable[str], where: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, with the number of its first line. Rows of empty cells are left out."""
    counter = _LineCounter(lines)
    reader = _csv_reader(counter, dialect.delimiter, dialect.quoting)
    while True:
        first_line = counter.count + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise _quote_error(f"{where}:{first_line}", str(error)) from None
        if row is None:
            return
        if counter.exhausted:  # the csv module returned a row because there were no more lines to close its quote
            problem = "a quote opens a cell here, and the file ends before it is closed"
            raise _quote_error(f"{where}:{first_line}", problem)
        if any(row):
            yield first_line, row


def _csv_reader(lines: Iterable[str], delimiter: str, quoting: Quoting) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_ROW_CHARACTERS)
    if quoting == "none":
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, quotechar=None)
    if quoting == "escaped":
        return csv.reader(lines, delimiter=delimiter, escapechar="\\", doublequote=False)
    return csv.reader(lines, delimiter=delimiter)


def _quote_error(where: str, problem: str) -> DataError:
    remedy = 'Close the quote, or double it ("") where it is part of the text.'
    return DataError(where, problem, remedy)


def sniff_dialect(lines: Sequence[str], delimiters: Sequence[str]) -> Dialect:
    """The dialect that fits the first lines of a file; the first of `delimiters` wins unless another fits better."""
    dialects = [_fit_dialect(lines, delimiter) for delimiter in delimiters]
    plausible = [dialect for dialect in dialects if dialect.width > 1]
    if len(plausible) < 2:
        return plausible[0] if plausible else dialects[0]
    marks = "".join(dialect.delimiter for dialect in plausible)
    return max(plausible, key=lambda dialect: _fit(dialect, lines, marks))


def _fit(dialect: Dialect, lines: Sequence[str], marks: str) -> tuple[bool, float, float]:
    """How well a dialect fits, for comparison with those of the other delimiters in `marks`: whether the first row has
    as many cells as nearly all others; how many of the rows have; and how many rows have nothing but whole cells."""
    share = round(dialect.width_share, 1)
    try:
        rows = list(_csv_reader((line + "\n" for line in lines[:_COMPARED_LINES]), dialect.delimiter, dialect.quoting))
    except csv.Error:
        return False, share, 0.0
    rows = [row for row in rows if row]
    several_cells = re.compile(rf"\S[{re.escape(marks.replace(dialect.delimiter, ''))}]\S")
    whole = sum(all(is_decimal_comma(cell) or not several_cells.search(cell) for cell in row) for row in rows)
    header_fits = bool(rows) and len(rows[0]) == dialect.width and share >= _NEARLY_ALL
    return header_fits, share, round(whole / max(1, len(rows)), 1)


def _fit_dialect(lines: Sequence[str], delimiter: str) -> Dialect:
    unquoted_rows = [line.split(delimiter) for line in lines if line.strip()]
    unquoted = Dialect(delimiter, "none", *_usual_width(unquoted_rows))
    opened_cells = [cell for row in unquoted_rows for cell in row if cell.startswith('"')]
    if not opened_cells:
        return unquoted if delimiter == "\t" else replace(unquoted, quoting="doubled")
    quoted = [Dialect(delimiter, quoting, *_quoted_width(lines, delimiter, quoting)) for quoting in _QUOTED]
    best = max(quoted, key=lambda dialect: dialect.width_share)
    if best.width_share > unquoted.width_share:
        return best
    fits_as_well = best.width_share >= unquoted.width_share - _TOLERANCE
    return best if fits_as_well and _quotes_enclose_cells(unquoted_rows, opened_cells, delimiter) else unquoted


def _quoted_width(lines: Sequence[str], delimiter: str, quoting: Quoting) -> tuple[int, float]:
    try:
        rows = list(_csv_reader((line + "\n" for line in lines), delimiter, quoting))
    except csv.Error:
        return 0, 0.0
    return _usual_width([row for row in rows if row])


def _quotes_enclose_cells(rows: Sequence[Sequence[str]], opened_cells: Sequence[str], delimiter: str) -> bool:
    """Decide between quoted and unquoted cells where both readings fit the lines.

    With tabs, quotes enclose cells only if nearly all are closed and they look necessary or systematic: there is a
    doubled quote inside, or all cells of a column are quoted.
    """
    if delimiter != "\t":
        return True
    if sum(bool(_QUOTED_CELL.fullmatch(cell)) for cell in opened_cells) < (1 - _TOLERANCE) * len(opened_cells):
        return False
    if any('""' in cell[1:-1] for cell in opened_cells):
        return True
    return any(all(cell.startswith('"') for cell in column) for column in zip(*rows[1:], strict=False))


def _usual_width(rows: Sequence[Sequence[str]]) -> tuple[int, float]:
    """The most frequent number of cells, and the share of the rows that have it."""
    if not rows:
        return 0, 0.0
    width, count = Counter(map(len, rows)).most_common(1)[0]
    return width, count / len(rows)


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value  # Python reads 1_000 as a number; files do not


def is_decimal_comma(value: str) -> bool:
    """Whether a cell is a number with a decimal comma, as in 9,5 and 1.234,50."""
    return _DECIMAL_COMMA.fullmatch(value.strip()) is not None


def is_amount(value: str) -> bool:
    """Whether a cell is a number, also one with a decimal comma."""
    return is_number(value) or is_decimal_comma(value)

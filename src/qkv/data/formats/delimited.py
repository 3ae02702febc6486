"""Delimited text (.csv, .tsv and their cousins): which mark separates the cells, and whether quotes are marks or text.

Both are found out on the first rows. A file in which quotes are plain text, as in most of GLUE's, is told by quotes
that open a cell and do not close one; read as marks they would swallow whole rows.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from qkv.data.formats.column_names import known
from qkv.data.formats.rows import LONGEST_ROW
from qkv.errors import DataError

Quotes = Literal["none", "doubled", "escaped"]
"""Quotes are text; or marks, doubled inside of a cell; or marks, with a backslash before those inside."""

NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
_LITTLE = 0.05
_LONGEST_NAME = 40
_MANY = 20
_CLOSED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    quotes: Quotes
    width: int
    """Cells in most rows."""
    share: float
    """How many of the first rows have that width."""

    @property
    def said(self) -> str:
        quotes = {
            "none": "quotes are text",
            "doubled": "cells may be quoted",
            "escaped": 'cells may be quoted, with \\"',
        }
        return f"cells separated by {NAMES[self.delimiter]}, {quotes[self.quotes]}"


class _Counted:
    """Lines as they are handed to the csv module, which knows whether the last one has been."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = iter(lines)
        self.number, self.ended = 0, False

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            yield line + "\n"
        self.ended = True


def cells(lines: Iterable[str], where: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, with the number of its first line; blank lines are left out."""
    counted = _Counted(lines)
    csv.field_size_limit(LONGEST_ROW)
    reader = _reader(counted, dialect.delimiter, dialect.quotes)
    while True:
        first = counted.number + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise _unclosed(f"{where}:{first}", str(error)) from None
        if row is None:
            return
        if counted.ended:  # the csv module came back with a row because there were no more lines to close it
            raise _unclosed(f"{where}:{first}", "a quote opens a cell here, and the file ends before it is closed")
        if row and any(row):
            yield first, row


def _reader(lines: Iterable[str], delimiter: str, quotes: Quotes) -> Iterator[list[str]]:
    if quotes == "none":
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, quotechar=None)
    if quotes == "escaped":
        return csv.reader(lines, delimiter=delimiter, escapechar="\\", doublequote=False)
    return csv.reader(lines, delimiter=delimiter)


def _unclosed(where: str, problem: str) -> DataError:
    remedy = 'Close the quote, or double it ("") where it is part of the text.'
    return DataError(where, problem, remedy)


def sniff(lines: Sequence[str], delimiters: Sequence[str]) -> Dialect:
    """The dialect of the first lines of a file; the delimiters are tried in the order in which they are likely."""
    found = [_best_quotes(lines, delimiter) for delimiter in delimiters]
    several = [each for each in found if each.width > 1]
    # the likeliest wins unless another fits clearly better
    return max(several, key=lambda each: round(each.share, 1), default=found[0])


def _best_quotes(lines: Sequence[str], delimiter: str) -> Dialect:
    plain = [line.split(delimiter) for line in lines if line.strip()]
    width, share = _widths(plain)
    opened = [cell for row in plain for cell in row if cell.startswith('"')]
    if not opened:
        return Dialect(delimiter, "none" if delimiter == "\t" else "doubled", width, share)
    tried = [Dialect(delimiter, quotes, *_quoted(lines, delimiter, quotes)) for quotes in _QUOTED]
    best = max(tried, key=lambda each: each.share)
    if best.share > share or (best.share >= share - _LITTLE and _quotes_are_marks(plain, opened, delimiter)):
        return best
    return Dialect(delimiter, "none", width, share)


_QUOTED: tuple[Quotes, ...] = ("doubled", "escaped")


def _quoted(lines: Sequence[str], delimiter: str, quotes: Quotes) -> tuple[int, float]:
    csv.field_size_limit(LONGEST_ROW)
    try:
        rows = list(_reader((line + "\n" for line in lines), delimiter, quotes))
    except csv.Error:
        return 0, 0.0
    return _widths([row for row in rows if row])


def _quotes_are_marks(plain: Sequence[Sequence[str]], opened: Sequence[str], delimiter: str) -> bool:
    """Where both readings fit: after tabs, quoted cells must be closed, nearly all, and have a reason to be quoted."""
    if delimiter != "\t":
        return True
    if sum(bool(_CLOSED.fullmatch(cell)) for cell in opened) < (1 - _LITTLE) * len(opened):
        return False
    if any('""' in cell[1:-1] for cell in opened):
        return True
    return any(all(cell.startswith('"') for cell in column) for column in zip(*plain[1:], strict=False))


def _widths(rows: Sequence[Sequence[str]]) -> tuple[int, float]:
    if not rows:
        return 0, 0.0
    width, count = Counter(map(len, rows)).most_common(1)[0]
    return width, count / len(rows)


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns, told by the names and by how it differs from the rows below."""
    first, body = [cell.strip() for cell in rows[0]], rows[1:]
    if not body or not all(len(cell) <= _LONGEST_NAME for cell in first) or not any(first):
        return not body and any(known(cell) for cell in first)
    columns = [[row[index].strip() for row in body if index < len(row)] for index in range(len(first))]
    if any(cell and cell in set(column) and _recurs(column) for cell, column in zip(first, columns, strict=True)):
        return False  # it is one of the labels
    if any(known(cell) for cell in first) and not any(is_number(cell) for cell in first):
        return True
    for cell, column in zip(first, columns, strict=True):
        filled = [value for value in column if value]
        if cell and not is_number(cell) and len(filled) > 1 and all(is_number(value) for value in filled):
            return True
        if cell and len(column) >= _MANY and len(set(column)) <= len(column) // 10:
            return True  # a few labels that recur, and it is none of them
    return False


def _recurs(column: Sequence[str]) -> bool:
    return len(set(column)) <= max(2, len(column) // 2)


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value  # Python's 1_000 is nobody's number

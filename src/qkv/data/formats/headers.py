"""Which row of a table names its columns, and which rows above it are only titles.

Names given by options decide, else the usual names of columns, else the differences to the rows below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from qkv.data.findings import Assumption
from qkv.data.formats.column_names import is_known
from qkv.data.formats.delimited import is_amount, is_number
from qkv.data.formats.rows import BadRows
from qkv.errors import DataError
from qkv.visible import visible

Rows = Sequence[Sequence[str]]
Header = bool | Callable[[Rows], int | None] | None
"""Whether the first row names the columns, titles apart; or a function that finds the row of the names in the first
rows; None: guess it from them."""

Sampled = TypeVar("Sampled", bound=tuple[int, Sequence[object]])

_MAX_NAME_LENGTH = 40
_MIN_ROWS_OF_CLASSES = 20
_MAX_TITLE_ROWS = 20
_NEARLY_ALL = 0.9


def find_header(rows: Rows, header: Header) -> int | None:
    """The index of the row that names the columns; None if there is none. The rows above it are titles."""
    if callable(header):
        return header(rows)
    if header is None:
        return guess_header(rows)
    return _title_rows(rows) if header else None


def guess_header(rows: Rows) -> int | None:
    titles = _title_rows(rows)
    return titles if titles or has_header(rows) else None


def named_header(names: Iterable[str | None]) -> Header:
    """A header that is the first row with one of these names, if there is one; columns given by number tell nothing."""
    wanted = {name for name in names if name and not name.isdecimal()}

    def find(rows: Rows) -> int | None:
        named = (number for number, row in enumerate(rows[:_MAX_TITLE_ROWS]) if wanted & set(_names(row)))
        return next(named, guess_header(rows))

    return find if wanted else None


def _names(row: Sequence[str]) -> list[str]:
    """The cells of a row as a header spells them."""
    return [visible(cell.strip()) for cell in row]


def _title_rows(rows: Rows) -> int:
    """The number of rows above the header that are titles: they have at most half as many filled cells as the header,
    which has as many as the rows below it, and is a likely header."""
    counts = [sum(bool(cell.strip()) for cell in row) for row in rows]
    number = next((number for number, count in enumerate(counts) if 2 * count > max(counts)), 0)
    below = counts[number + 1 :]
    if not 0 < number <= _MAX_TITLE_ROWS or counts[number] < 2 or not below:
        return 0
    if sum(2 * count > counts[number] for count in below) < _NEARLY_ALL * len(below) or counts[number] < max(below):
        return 0
    names = [cell.strip() for cell in rows[number] if cell.strip()]
    distinct_texts = len(set(names)) == len(names) and not any(map(is_amount, names))
    return number if distinct_texts and has_header(rows[number:]) else 0


def has_header(rows: Rows) -> bool:
    """Whether the first row names the columns: guessed from the names, and from the differences to the other rows."""
    first, others = [cell.strip() for cell in rows[0]], rows[1:]
    if not others:
        return any(is_known(cell) for cell in first)
    if not any(first):
        return False
    columns = [[row[index].strip() for row in others if index < len(row)] for index in range(len(first))]
    if any(cell and cell in column and _repeats(column) for cell, column in zip(first, columns, strict=True)):
        return False  # the cell is one of the labels
    differences = sum(_differs(cell, column) for cell, column in zip(first, columns, strict=True))
    if any(len(cell) > _MAX_NAME_LENGTH for cell in first):  # the questions of a form, or the first text
        names = len(set(first)) == len(first) > 2 and all(first) and not any(map(is_amount, first))
        return names and differences > (not any(cell.endswith("?") for cell in first))
    usual_names = any(is_known(cell) for cell in first) and not any(is_number(cell) for cell in first)
    return usual_names or differences > 0


def _differs(name: str, column: Sequence[str]) -> bool:
    """Whether a cell is unlike those below it: a word above numbers, or above a few labels, none of which it is."""
    filled = [value for value in column if value]
    if not name:
        return False
    if not is_amount(name) and len(filled) > 1 and all(map(is_amount, filled)):
        return True
    return len(column) >= _MIN_ROWS_OF_CLASSES and len(set(column)) <= len(column) // 10


def _repeats(column: Sequence[str]) -> bool:
    return len(set(column)) <= max(2, len(column) // 2)


def column_names(where: str, names: Sequence[str]) -> list[str]:
    """The names in a header, with numbers in place of empty ones; DataError for a name that occurs twice."""
    while names and not names[-1]:  # a delimiter at the end of the line
        names = names[:-1]
    require_distinct_names(where, [name for name in names if name])
    return [visible(name) or str(number) for number, name in enumerate(names, 1)]


def require_distinct_names(where: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(where, f"two columns are called {name!r}", "Rename one of them.")


def rows_below(header_row: int, rows: list[Sampled], bad_rows: BadRows) -> list[Sampled]:
    """The rows below the header; those above it are left out with a note."""
    if header_row:
        line, above = rows[header_row][0], "1 row above it is" if header_row == 1 else f"{header_row} rows above it are"
        note = f"{bad_rows.where}: the header is row {line}; {above} left out."
        bad_rows.findings.add_note(Assumption(note))
    return rows[header_row + 1 :]

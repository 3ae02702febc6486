"""Numbers with decimal commas, as spreadsheets of most of Europe write them: 9,5 becomes 9.5, and 1.234,50 1234.50.

This is decided for each column from the first rows, and changed where rows are read, so that labels, columns of numbers
and rows to answer agree. 1,234 may have a comma between thousands: it is a number here only if another cell of the
table, or the mark between its cells, shows that commas are decimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from qkv.data.formats.delimited import is_decimal_comma, is_number

Cells = tuple[int, Sequence[object]]
Text = TypeVar("Text")

_MIN_NUMBER_SHARE = 0.9
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+")
_BELOW_A_THOUSAND = re.compile(r"[+-]?\d{1,3}")


def columns_with_decimal_commas(sample: Sequence[Cells], width: int, delimiter: str = ",") -> frozenset[int]:
    """The columns of numbers in which commas are decimal, or, if there are such columns, points separate thousands."""
    columns = {index: _filled([row[index] for _, row in sample]) for index in range(width)}
    numbers = {index: texts for index, texts in columns.items() if _has_decimal_commas(texts)}
    certain = delimiter == ";" or any(
        is_decimal_comma(text) and not _MAYBE_THOUSANDS.fullmatch(text) for texts in numbers.values() for text in texts
    )
    if not numbers or not certain:
        return frozenset()
    return frozenset((*numbers, *(index for index, texts in columns.items() if _has_thousands(texts))))


def with_decimal_points(rows: Iterable[tuple[int, Sequence[Text]]], columns: frozenset[int]) -> Iterator[Cells]:
    """The rows, with the numbers of these columns spelled as everywhere else."""
    for line, row in rows:
        yield line, [_with_point(cell) if index in columns else cell for index, cell in enumerate(row)]


def _with_point(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if is_decimal_comma(text):
        return text.replace(".", "").replace(",", ".")
    return text.replace(".", "") if _THOUSANDS.fullmatch(text) else cell


def _filled(cells: Iterable[object]) -> list[str]:
    return [str(cell).strip() for cell in cells if cell is not None and str(cell).strip()]


def _has_decimal_commas(texts: Sequence[str]) -> bool:
    """Whether nearly all cells are numbers, and some of them have a decimal comma."""
    commas = sum(map(is_decimal_comma, texts))
    return commas > 0 and commas + sum(map(is_number, texts)) >= _MIN_NUMBER_SHARE * len(texts)


def _has_thousands(texts: Sequence[str]) -> bool:
    """Whether points can only separate thousands: three digits follow each, and numbers below 1,000 have none."""
    thousands = sum(_THOUSANDS.fullmatch(text) is not None for text in texts)
    below = sum(_BELOW_A_THOUSAND.fullmatch(text) is not None for text in texts)
    return thousands > 0 and thousands + below >= _MIN_NUMBER_SHARE * len(texts)

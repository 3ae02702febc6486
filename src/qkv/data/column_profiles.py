"""What the cells of each column of a table look like: text, classes, numbers, dates, addresses, identifiers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.data.formats import column_names as names
from qkv.data.formats.delimited import is_number
from qkv.data.formats.tabular import Table

MAX_CLASSES_SHARE = 0.2
"""A column with more distinct values than this share of the rows is a label only if it has a usual name of labels."""
_MAX_CLASS_LENGTH = 40
_MIN_DISTINCT_IDS = 0.95
_DATE = re.compile(
    r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?|(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{2}|\d{4}))"
    r"(?:[T ,]+\d{1,2}:\d\S*(?: [AP]M)?(?: (?:GMT|UTC)(?:[+-]\d{1,2}(?::?\d\d)?)?)?)?"
)
_CODE = re.compile(rf"{_DATE.pattern}|(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ID = re.compile(r"(?=\S*\d)[\w#:/.-]{1,64}")
_CODE_OR_ID = re.compile(rf"{_CODE.pattern}|{_ID.pattern}")
"""Addresses, dates and times; and, if nearly all cells of a column differ, words with a digit."""
_PROSE_WORDS, _PROSE_CHARACTERS = 2.5, 15
"""The cells of a column of prose have on average at least this many words, or this many characters."""


def is_date(text: str) -> bool:
    """Whether a cell is a date or a time of day."""
    return _DATE.fullmatch(text.strip()) is not None


def are_ids(texts: Sequence[str]) -> bool:
    """Whether cells are identifiers: nearly all are words with a digit, of one length or with a mark, and differ."""
    enough, length = _MIN_DISTINCT_IDS * len(texts), Counter(map(len, texts)).most_common(1)[0][1] if texts else 0
    ids = sum(_ID.fullmatch(text) is not None for text in texts)
    marked = sum(re.search(r"[#:/._-]", text) is not None for text in texts)
    return ids >= enough and len(set(texts)) >= enough and max(length, marked) >= enough


@dataclass(frozen=True)
class ColumnProfile:
    """Statistics of the cells of one column in the first rows."""

    name: str
    row_count: int
    filled_share: float
    """The share of the cells that are not empty. The values below are about these cells."""
    distinct_count: int
    mean_length: float
    mean_words: float
    number_share: float
    code_share: float
    """The share of dates, times, addresses and identifiers."""
    has_lists: bool
    date_share: float = 0.0
    """The share of dates and times."""

    @classmethod
    def of(cls, name: str, cells: Sequence[object]) -> ColumnProfile:
        texts = [cell if isinstance(cell, str) else "" if cell is None else str(cell) for cell in cells]
        filled = [text.strip() for text in texts if text.strip()]
        count, distinct_count = max(1, len(filled)), len(set(filled))
        code = _CODE if distinct_count < _MIN_DISTINCT_IDS * count else _CODE_OR_ID
        return cls(
            name,
            row_count=len(cells),
            filled_share=len(filled) / max(1, len(cells)),
            distinct_count=distinct_count,
            mean_length=sum(map(len, filled)) / count,
            mean_words=sum(len(text.split()) for text in filled) / count,
            number_share=sum(map(is_number, filled)) / count,
            code_share=sum(bool(code.fullmatch(text)) for text in filled) / count,
            has_lists=any(isinstance(cell, list) for cell in cells),
            date_share=sum(map(is_date, filled)) / count,
        )

    @property
    def is_text(self) -> bool:
        return self.holds_words and self.code_share < 0.9

    @property
    def holds_words(self) -> bool:
        others = self.number_share + self.date_share
        return others < 0.5 and self.filled_share > 0 and not self.has_lists

    @property
    def is_prose(self) -> bool:
        long = self.mean_words >= _PROSE_WORDS or self.mean_length >= _PROSE_CHARACTERS
        return self.is_text and self.filled_share > 0.5 and long

    @property
    def has_few_values(self) -> bool:
        few = self.distinct_count <= max(2, MAX_CLASSES_SHARE * self.row_count) and self.code_share < 0.9
        return self.has_lists or (few and self.mean_length <= _MAX_CLASS_LENGTH)

    @property
    def is_class(self) -> bool:
        return self.has_few_values and (self.has_lists or self.filled_share > 0.9)

    @property
    def is_id(self) -> bool:
        """Whether the name is that of an id."""
        return names.normalize(self.name) in names.ID


def column_profiles(table: Table) -> list[ColumnProfile]:
    """The profiles of all columns except the column of splits."""
    columns = [(index, name) for index, name in enumerate(table.columns) if name != table.split_column]
    return [ColumnProfile.of(name, table.sample_column(index)) for index, name in columns]

"""Which column is the text, the second text, the label, the id: by what people call them, then by what they hold."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qkv.data.corpus import ExamplesConfig
from qkv.data.formats import column_names as names
from qkv.data.formats.delimited import is_number
from qkv.data.formats.tabular import Table
from qkv.errors import DataError

MOST_CLASSES = 0.2
"""A column with more distinct values than this share of the rows is no label, unless its name says so."""
_LONGEST_LABEL = 40


@dataclass(frozen=True)
class Columns:
    """The columns by their names."""

    text: str
    label: str
    second: str | None = None
    id: str | None = None

    def named(self) -> dict[str, str]:
        roles = {"text": self.text, "second text": self.second, "label": self.label, "id": self.id}
        return {role: column for role, column in roles.items() if column is not None}

    def said(self, table: Table) -> str:
        roles = ", ".join(f"{role}: column {column!r}" for role, column in self.named().items())
        unused = [column for column in table.columns if column not in self.named().values()]
        more = f"; not used: {', '.join(map(repr, unused[:8]))}{' ...' if len(unused) > 8 else ''}" if unused else ""
        how = f" ({table.said})" if table.said else ""
        return f"{table.where}: {roles}{more}{how}."


@dataclass(frozen=True)
class _Profile:
    """What the first rows hold in one column."""

    name: str
    rows: int
    filled: float
    distinct: int
    length: float
    words: float
    numbers: float
    several: bool
    """Whether there are lists in it."""

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> _Profile:
        shown = [value if isinstance(value, str) else "" if value is None else str(value) for value in values]
        filled = [value.strip() for value in shown if value.strip()]
        count = max(1, len(filled))
        return cls(
            name,
            len(values),
            len(filled) / max(1, len(values)),
            len(set(filled)),
            sum(map(len, filled)) / count,
            sum(len(value.split()) for value in filled) / count,
            sum(map(is_number, filled)) / count,
            any(isinstance(value, list) for value in values),
        )

    @property
    def is_text(self) -> bool:
        return self.numbers < 0.5 and self.filled > 0 and not self.several

    @property
    def is_prose(self) -> bool:
        return self.is_text and self.filled > 0.5 and (self.words >= 2.5 or self.length >= 15)

    @property
    def is_class(self) -> bool:
        few = self.distinct <= max(2, MOST_CLASSES * self.rows)
        return self.several or (few and self.filled > 0.9 and self.length <= _LONGEST_LABEL)


def guess(table: Table, config: ExamplesConfig) -> Columns:
    """The columns of a table; DataError, with the columns there are, where it cannot be told."""
    text, second = guess_texts(table, config)
    given = {role: _given(table, getattr(config, role), role) for role in ("label", "id")}
    free = [each for each in _profiles(table) if each.name not in (text, second, *given.values())]
    label = given["label"] or _label(table, free)
    ids = [each.name for each in free if each.name != label and names.plain(each.name) in names.ID]
    return Columns(text, label, second, given["id"] or (ids[0] if ids else None))


def guess_texts(table: Table, config: ExamplesConfig) -> tuple[str, str | None]:
    """The column of the text, and that of the second, where there are pairs."""
    given = {role: _given(table, getattr(config, role), role) for role in ("text", "text2", "label", "id")}
    text, second = given["text"], given["text2"]
    if text is not None:
        return text, second
    free = [each for each in _profiles(table) if each.name not in given.values()]
    text, found = _texts(table, [each for each in free if each.name not in _named(free, names.ID)], second is None)
    return text, second or found


def _given(table: Table, wanted: str | None, role: str) -> str | None:
    if wanted is None or wanted in table.columns:
        return wanted
    if wanted.isdecimal() and 1 <= int(wanted) <= len(table.columns):
        return table.columns[int(wanted) - 1]
    raise missing(table, wanted, role)


def missing(table: Table, wanted: str, role: str) -> DataError:
    near = difflib.get_close_matches(wanted, table.columns, 1)
    hint = f"Did you mean --{role} {near[0]}?" if near else f"Say which with --{role} NAME, or by its number from 1."
    return DataError(f"{table.where}:1", f"no column {wanted!r}; there are: {listed(table.columns)}", hint)


def listed(columns: Iterable[str]) -> str:
    found = list(columns)
    return ", ".join(found[:20]) + (" ..." if len(found) > 20 else "") or "none"


def _named(profiles: Iterable[_Profile], wanted: Sequence[str]) -> list[str]:
    """The columns with one of the wanted names, the likeliest name first."""
    by_name = {names.plain(each.name): each.name for each in profiles}
    return [by_name[name] for name in wanted if name in by_name]


def _texts(table: Table, free: Sequence[_Profile], pairs: bool) -> tuple[str, str | None]:
    """The text and, where there are two that belong together, the second."""
    texts = [each for each in free if each.is_text]
    if pairs and (pair := _pair(texts, table)) is not None:
        return pair
    prose = [each for each in texts if each.is_prose]
    if named := _named(prose, names.TEXT) or _named(texts, names.TEXT):
        return named[0], None
    others = [each for each in texts if names.plain(each.name) not in names.LABEL] or texts
    if not others:
        problem = f"which column holds the text? There are: {listed(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Say which with --text NAME, or by its number from 1.")
    return max(others, key=lambda each: (each.is_prose, each.distinct > 1, each.length, each.distinct)).name, None


def _pair(texts: Sequence[_Profile], table: Table) -> tuple[str, str] | None:
    prose = [each for each in texts if each.is_prose]
    by_name = {names.plain(each.name): each.name for each in prose}
    for first, second in names.PAIRS:
        if first in by_name and second in by_name:
            return by_name[first], by_name[second]
    twins: dict[str, dict[str, _Profile]] = {}
    for each in prose:
        if (found := names.twin(each.name)) is not None:
            twins.setdefault(found[0], {})[found[1]] = each
    whole = [(both["1"], both["2"]) for both in twins.values() if len(both) == 2]
    if whole:
        longest = max(whole, key=lambda both: both[0].length + both[1].length)
        return longest[0].name, longest[1].name
    numbered = all(name.isdecimal() for name in table.columns)
    if (
        numbered
        and len(prose) == 2
        and max(prose[0].length, prose[1].length) < 2.5 * min(prose[0].length, prose[1].length)
    ):
        return prose[0].name, prose[1].name
    return None


def _label(table: Table, free: Sequence[_Profile]) -> str:
    filled = [each for each in free if each.filled > 0]
    if named := _named(filled, names.LABEL):
        return named[0]
    rest = [each for each in filled if names.plain(each.name) not in names.ID]
    classes = [each for each in rest if each.is_class]
    several = [each for each in classes if each.distinct > 1] or classes
    fewest = [each for each in several if each.distinct == min(other.distinct for other in several)]
    if len(fewest) == 1:
        return fewest[0].name
    if not fewest and len(rest) == 1:
        return rest[0].name
    if fewest:
        problem = f"which column is the label: {' or '.join(each.name for each in fewest)}?"
    else:
        problem = f"no column looks like a label; there are: {listed(table.columns)}"
    remedy = "Say which with --label NAME, or by its number from 1."
    if not rest:
        remedy += " Text without labels is for a language model: give it as .txt or .jsonl."
    raise DataError(f"{table.where}:1", problem, remedy)


def looks_labelled(table: Table) -> bool:
    """Whether a file that may as well be a text for a language model has a column that is plainly a label."""
    profiles = _profiles(table)
    if not any(each.is_text for each in profiles) or len(profiles) < 2:
        return False
    named = [each for each in profiles if names.plain(each.name) in names.LABEL and each.filled > 0]
    few = [
        each for each in profiles if each.is_class and each.distinct > 1 and each.distinct <= max(2, each.rows // 20)
    ]
    numbered = all(name.isdecimal() for name in table.columns)
    return any(each.is_class or each.numbers == 1 for each in named) or (numbered and bool(few))


def _profiles(table: Table) -> list[_Profile]:
    return [_Profile.of(name, [row[index] for _, row in table.sample]) for index, name in enumerate(table.columns)]

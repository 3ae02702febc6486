"""Tables of numbers: columns that hold numbers, and one column to learn (deck 001).

A column of few words becomes a column for each word, as "colour=red", which is 1 in the rows that say so and 0 in all
others. What is missing is NaN here; models read it as the mean of the training rows (blocks/norms.py).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qkv.data.columns import column_index, given_column, lacks_label, listed_columns
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import NumberExamples
from qkv.data.findings import Caution, Findings, OnRead
from qkv.data.formats import column_names as names
from qkv.data.formats.tabular import Table, open_table
from qkv.data.identity import hash64
from qkv.data.labels import RawLabels, RawSplit, label_text
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError

NO_TEXT = "none"  # said as the text's column: the table is one of numbers
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "-"))
MOST_WORDS = 20  # distinct ones of a column that becomes columns of 0 and 1
MOST_SHARE = 0.2  # of the rows: a column of more distinct words is text
NEARLY_ALL = 0.9  # of the cells of a column of numbers are such; others make bad rows
LARGEST = float(np.finfo(np.float32).max)
PROSE = names.TEXT[:8]  # names that nobody gives to a column of numbers


def parse_cell(value: object) -> float | None:
    """The number of a cell, NaN where it is missing, None where it holds something else."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    try:
        found = float(value) if isinstance(value, str | int | float) and "_" not in str(value) else None
    except (ValueError, OverflowError):
        return None
    return None if found is None or abs(found) > LARGEST else found


def _word(value: object) -> str | None:
    """The word of a cell; None where it is missing."""
    said = None if value is None else str(value).strip()
    return None if said is None or said.lower() in MISSING else said


@dataclass(frozen=True)
class _Column:
    """What the first rows hold in one column."""

    name: str
    kind: Literal["numbers", "words", "many words", "text", "nothing"]
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, values: Sequence[object]) -> _Column:
        filled = [value for value in values if _word(value) is not None]
        if not filled:
            return cls(name, "nothing")
        if any(isinstance(value, list | dict) for value in filled) or names.normalize(name) in PROSE:
            return cls(name, "text")
        if sum(parse_cell(value) is not None for value in filled) >= NEARLY_ALL * len(filled):
            return cls(name, "numbers")
        distinct = sorted({str(value).strip() for value in filled})
        if len(distinct) > max(2, MOST_SHARE * len(values)):
            return cls(name, "text")
        return cls(name, "words" if len(distinct) <= MOST_WORDS else "many words", tuple(distinct))


def _looked_at(table: Table) -> list[_Column]:
    return [_Column.of(name, table.sample_column(place)) for place, name in enumerate(table.columns)]


def holds_numbers(table: Table, config: ExamplesConfig) -> bool:
    """Whether a table is one of numbers: it has such columns besides the one to learn, and none of text."""
    if config.columns or (config.text == NO_TEXT and NO_TEXT not in table.columns):
        return True
    if config.text or config.text2 or not table.sample:
        return False
    try:
        label = _label(table, config)
    except DataError:  # it is said where it is read
        label = ""
    looked = _looked_at(table)
    if config.label is None and any(each.name == label and each.kind == "text" for each in looked):
        return False  # the last column was taken for the labels, and is text
    rest = [each for each in looked if each.name != label and not _names_rows(each.name)]
    return any(each.kind == "numbers" for each in rest) and not any(each.kind == "text" for each in rest)


def _names_rows(name: str) -> bool:
    return names.normalize(name) in names.ID


def _label(table: Table, config: ExamplesConfig) -> str:
    """The column to learn: as it is said, by its name, or the last one."""
    if (given := given_column(table, config.label, "label")) is not None:
        return given
    rest = [name for name in table.columns if not _names_rows(name) and name not in config.columns]
    by_name = {names.normalize(name): name for name in rest}
    named = [by_name[name] for name in names.LABEL if name in by_name]
    if named or rest:
        return named[0] if named else rest[-1]
    problem = f"which column is to be learned? There are: {listed_columns(table.columns)}"
    raise DataError(f"{table.where}:1", problem, "Name it with --label NAME, or by its number from 1.")


@dataclass(frozen=True)
class NumberColumns:
    """The column to learn, and those to learn from: their names, or NAME=WORD."""

    label: str
    columns: tuple[str, ...]

    def by_role(self) -> dict[str, str]:
        return {"label": self.label}

    @classmethod
    def guess(cls, table: Table, config: ExamplesConfig, findings: Findings) -> NumberColumns:
        label = _label(table, config)
        if config.columns:
            return cls(label, config.columns)
        looked = [each for each in _looked_at(table) if each.name not in (label, config.id)]
        used = [each for each in looked if each.kind in ("numbers", "words") and not _names_rows(each.name)]
        if not any(each.kind == "numbers" for each in used):
            problem = f"no column of numbers besides {label!r}; there are: {listed_columns(table.columns)}"
            raise DataError(f"{table.where}:1", problem, "Name the text column with --text NAME.")
        found: list[str] = []
        for each in used:
            found += [each.name] if each.kind == "numbers" else [f"{each.name}={value}" for value in each.words]
        spelled = [f"{each.name} ({len(each.words)})" for each in used if each.kind == "words"]
        unused = [each.name for each in looked if each not in used]
        parts = [
            f"a table of numbers; to learn: column {label!r}",
            f"from: {listed_columns(each.name for each in used if each.kind == 'numbers')}",
            *([f"as columns of 0 and 1, a word each: {listed_columns(spelled)}"] if spelled else []),
            *([f"not used: {listed_columns(unused)}"] if unused else []),
        ]
        how = f" ({table.dialect_note})" if table.dialect_note else ""
        findings.add_note(f"{table.where}: {'; '.join(parts)}{how}. --label names another column to learn.")
        return cls(label, tuple(found))


class NumberCells:
    """Takes the numbers of the wanted columns out of the rows of one table."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self.places = [_place(table, name, columns) for name in columns]
        self.names = [table.columns[index] for index, _ in self.places]
        self.known: dict[int, set[str]] = {}
        for index, said in self.places:
            if said is not None:
                self.known.setdefault(index, set()).add(said)
        self.missing: Counter[str] = Counter()
        self.strange: Counter[str] = Counter()

    def take(self, row: Sequence[object]) -> list[float] | str:
        """The numbers of a row, or what is wrong with it."""
        found: list[float] = []
        for (index, wanted), name in zip(self.places, self.names, strict=True):
            value = row[index]
            if wanted is None:
                number = parse_cell(value)
                if number is None:
                    return f"expected a number in {name!r}, found {str(value)[:30]!r}"
            else:
                said = _word(value)
                number = math.nan if said is None else float(said == wanted)
            found.append(number)
        for name, number in zip(self.names, found, strict=True):
            if number != number:
                self.missing[name] += 1
        for index, words in self.known.items():
            said = _word(row[index])
            if said is not None and said not in words:
                self.strange[said] += 1
        return found

    def note(self, where: str, findings: Findings) -> None:
        if self.missing:
            most = ", ".join(f"{name}: {count:,}" for name, count in self.missing.most_common(5))
            total = sum(self.missing.values())
            findings.add_note(
                f"{where}: {total:,} numbers are missing ({most}); read as the mean of the training rows."
            )
        if self.strange:
            words = ", ".join(repr(each) for each, _ in self.strange.most_common(3))
            total = sum(self.strange.values())
            findings.add_note(
                Caution(f"{where}: {total:,} cells have words that the first training rows lack ({words}); read as 0.")
            )


def _place(table: Table, name: str, columns: Sequence[str]) -> tuple[int, str | None]:
    """Where a column stands, and the word that is 1 in it."""
    if name in table.columns:
        return table.columns.index(name), None
    for at, letter in enumerate(name):
        if letter == "=" and name[:at] in table.columns:
            return table.columns.index(name[:at]), name[at + 1 :]
    problem = f"no column {name.partition('=')[0]!r}; there are: {listed_columns(table.columns)}"
    remedy = f"Give the columns that were learned from: {listed_columns(dict.fromkeys(columns))}."
    raise DataError(f"{table.where}:1", problem, remedy)


class NumberReader:
    """Reads the splits of one set; the columns are those that the first table of the training split has."""

    def __init__(self, config: ExamplesConfig, findings: Findings, on_read: OnRead) -> None:
        self.config, self.findings, self.on_read = config, findings, on_read
        self.columns: NumberColumns | None = None

    def read(self, files: Sequence[ExampleFile]) -> RawSplit:
        numbers, values = array("f"), RawLabels()
        for file in files:
            if file.kind != "table":
                problem = "is no table, and the other files are tables of numbers"
                raise DataError(file.display_name, problem, "Give files of one kind.")
            table = open_table(file.source, self.config.encoding, self.findings, self.config.header, self.on_read)
            table.require_rows()
            self.columns = self.columns or NumberColumns.guess(table, self.config, self.findings)
            if not lacks_label(table, self.columns.label, file.discovered and file.split == "test", self.findings):
                self._read(table, self.columns, numbers, values)
        columns = self.columns.columns if self.columns else ()
        rows = np.array(numbers, dtype=np.float32).reshape(-1, max(1, len(columns)))
        keys = np.array([hash64(row.tobytes()) for row in rows], dtype=np.uint64)
        return RawSplit(NumberExamples(all_values=rows, columns=columns, all_keys=keys), values)

    def _read(self, table: Table, columns: NumberColumns, numbers: array[float], values: RawLabels) -> None:
        label, cells = column_index(table, columns.label, "label"), NumberCells(table, columns.columns)
        for line, row in table.rows:
            spelled, taken = label_text(row[label]), cells.take(row)
            if isinstance(taken, str):
                table.bad_rows.reject(line, taken)
            elif spelled is None:
                table.bad_rows.reject(line, f"no label in {columns.label!r}")
            else:
                numbers.extend(taken)
                values.append(spelled, table.where, line)
        table.bad_rows.finish()
        cells.note(table.where, self.findings)


def read_number_rows(table: Table, columns: Sequence[str]) -> Iterator[tuple[int, list[float] | str]]:
    """Every row of a table whose columns are known, with its line; what is wrong with it, where it has no numbers."""
    cells = NumberCells(table, columns)
    for line, row in table.rows:
        yield line, cells.take(row)

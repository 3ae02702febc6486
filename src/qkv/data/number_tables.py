"""Tables of numbers: columns of numbers to learn from, and one column to learn (deck 001).

A column of a few distinct words is replaced by a column for each word, such as "colour=red", which is 1 in the rows
with this word and 0 in all others. Missing cells are NaN here; models read them as the mean of the training rows
(blocks/norms.py).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qkv.data.column_profiles import are_ids, is_date
from qkv.data.columns import column_index, given_column, header_rule, lacks_label, list_columns, name_in_list
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import NumberExamples
from qkv.data.findings import Assumption, Caution, Findings, OnRead
from qkv.data.formats import column_names as names
from qkv.data.formats.tabular import Table, open_table
from qkv.data.identity import hash64
from qkv.data.labels import RawLabels, RawSplit, label_text
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError
from qkv.visible import counted

NO_TEXT = "none"
"""The value of --text for a table of numbers."""
MISSING_CELLS = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "-"))
MAX_DISTINCT_WORDS = 20
"""A column with more distinct words is not replaced by columns of 0 and 1."""
MAX_DISTINCT_SHARE = 0.2
"""A column with more distinct words than this share of the rows is text."""
MIN_NUMBER_SHARE = 0.9
"""The share of the cells that must be numbers in a column of numbers; rows with other cells are bad rows."""
MAX_FLOAT32 = float(np.finfo(np.float32).max)
TEXT_NAMES = names.TEXT[:8]
"""Names that a column of numbers never has."""


def parse_cell(cell: object) -> float | None:
    """The number in a cell, NaN if the cell is missing, None if it holds something else."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING_CELLS):
        return math.nan
    if not isinstance(cell, str | int | float) or "_" in str(cell):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return None if abs(number) > MAX_FLOAT32 else number


def _word_in(cell: object) -> str | None:
    """The word in a cell; None if the cell is missing."""
    word = "" if cell is None else str(cell).strip()
    return None if word.lower() in MISSING_CELLS else word


@dataclass(frozen=True)
class _NumberProfile:
    """What a column holds, by its cells in the first rows."""

    name: str
    kind: Literal["numbers", "words", "many words", "dates", "ids", "text", "nothing"]
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, cells: Sequence[object]) -> _NumberProfile:
        filled = [cell for cell in cells if _word_in(cell) is not None]
        if not filled:
            return cls(name, "nothing")
        if any(isinstance(cell, list | dict) for cell in filled) or names.normalize(name) in TEXT_NAMES:
            return cls(name, "text")
        if sum(parse_cell(cell) is not None for cell in filled) >= MIN_NUMBER_SHARE * len(filled):
            return cls(name, "numbers")
        texts = [str(cell).strip() for cell in filled]
        if sum(map(is_date, texts)) >= MIN_NUMBER_SHARE * len(texts):
            return cls(name, "dates")
        if are_ids(texts):
            return cls(name, "ids")
        words = sorted(set(texts))
        if len(words) > max(2, MAX_DISTINCT_SHARE * len(cells)):
            return cls(name, "text")
        return cls(name, "words" if len(words) <= MAX_DISTINCT_WORDS else "many words", tuple(words))


def _profiles(table: Table) -> list[_NumberProfile]:
    columns = [(index, name) for index, name in enumerate(table.columns) if name != table.split_column]
    return [_NumberProfile.of(name, table.sample_column(index)) for index, name in columns]


def holds_numbers(table: Table, config: ExamplesConfig) -> bool:
    """Whether a table is one of numbers: it has columns of numbers besides the label, and none of text."""
    if config.columns or (config.text == NO_TEXT and NO_TEXT not in table.columns):
        return True
    if config.text or config.text2 or not table.sample:
        return False
    try:
        label = _label_column(table, config)
    except DataError:  # reported when the table is read
        label = ""
    profiles = _profiles(table)
    not_learned = ("text", "dates", "ids")
    if config.label is None and any(profile.name == label and profile.kind in not_learned for profile in profiles):
        return False  # the last column is not a label
    kinds = [profile.kind for profile in profiles if profile.name != label and not _is_id(profile.name)]
    return "numbers" in kinds and "text" not in kinds


def _is_id(name: str) -> bool:
    return names.normalize(name) in names.ID


def _label_column(table: Table, config: ExamplesConfig) -> str:
    """The column to learn: the given one, else one with a usual name of a label, else the last."""
    if (given := given_column(table, config.label, "label")) is not None:
        return given
    unusable = (*config.columns, table.split_column)
    candidates = [name for name in table.columns if not _is_id(name) and name not in unusable]
    if not candidates:
        problem = f"which column is to be learned? There are: {list_columns(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Name it with --label NAME, or by its number from 1.")
    by_name = {names.normalize(name): name for name in candidates}
    return next((by_name[name] for name in names.LABEL if name in by_name), candidates[-1])


@dataclass(frozen=True)
class NumberColumns:
    """The column to learn, and the columns to learn from: their names, or NAME=WORD."""

    label: str
    columns: tuple[str, ...]

    def by_role(self) -> dict[str, str]:
        return {"label": self.label}

    @classmethod
    def choose(cls, table: Table, config: ExamplesConfig, findings: Findings) -> NumberColumns:
        """The given columns, else those of numbers and of a few words, with a note."""
        label, key = _label_column(table, config), given_column(table, config.id, "id")
        if config.columns:
            return cls(label, config.columns)
        profiles = [profile for profile in _profiles(table) if profile.name not in (label, key)]
        used = [profile for profile in profiles if profile.kind in ("numbers", "words") and not _is_id(profile.name)]
        numeric = [profile.name for profile in used if profile.kind == "numbers"]
        if not numeric:
            problem = f"no column of numbers besides {label!r}; there are: {list_columns(table.columns)}"
            raise DataError(f"{table.where}:1", problem, "Name the text column with --text NAME.")
        columns: list[str] = []
        for profile in used:
            is_numeric = profile.kind == "numbers"
            columns += [profile.name] if is_numeric else [f"{profile.name}={word}" for word in profile.words]
        note = f"{table.where}: a table of numbers; to learn: column {label!r}; from columns {list_columns(numeric)}"
        worded = [profile for profile in used if profile.kind == "words"]
        if of_words := [f"{profile.name} ({counted(len(profile.words), 'word')})" for profile in worded]:
            plural = "s" if len(of_words) > 1 else ""
            note += f"; and a column of 0 and 1 for each word of column{plural} {list_columns(of_words)}"
        if unused := [profile.name for profile in profiles if profile not in used]:
            named = (name_in_list(table, name) if name.isdecimal() else name for name in unused)
            note += f"; not used: {list_columns(named)}"
        if dates := [profile.name for profile in profiles if profile.kind == "dates"]:
            note += f" (dates and times are not learned from: {list_columns(dates)})"
        dialect = f" ({table.dialect_note})" if table.dialect_note else ""
        findings.add_note(Assumption(f"{note}{dialect}. --label names another column to learn."))
        return cls(label, tuple(columns))


class _RowParser:
    """Reads the numbers of the given columns from the rows of one table, and counts what is missing or unknown."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self.cells = [_locate(table, name, columns) for name in columns]
        self.names = [table.columns[index] for index, _ in self.cells]
        self.known_words: dict[int, set[str]] = {}
        for index, word in self.cells:
            if word is not None:
                self.known_words.setdefault(index, set()).add(word)
        self.missing: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def parse(self, row: Sequence[object]) -> list[float] | str:
        """The numbers of a row, or a message about what is wrong with it."""
        numbers: list[float] = []
        for (index, column_word), name in zip(self.cells, self.names, strict=True):
            cell = row[index]
            if column_word is None:
                number = parse_cell(cell)
                if number is None:
                    return f"expected a number in {name!r}, found {str(cell)[:30]!r}"
            else:
                word = _word_in(cell)
                number = math.nan if word is None else float(word == column_word)
            numbers.append(number)
        for name, number in zip(self.names, numbers, strict=True):
            if math.isnan(number):
                self.missing[name] += 1
        for index, known_words in self.known_words.items():
            word = _word_in(row[index])
            if word is not None and word not in known_words:
                self.unknown[word] += 1
        return numbers

    def add_notes(self, where: str, findings: Findings) -> None:
        if self.missing:
            columns = ", ".join(f"{name}: {count:,}" for name, count in self.missing.most_common(5))
            findings.add_note(
                f"{where}: {self.missing.total():,} numbers are missing ({columns}); "
                "read as the mean of the training rows."
            )
        if self.unknown:
            words = ", ".join(repr(word) for word, _ in self.unknown.most_common(3))
            problem = f"{self.unknown.total():,} cells have words that are not in the first training rows ({words})"
            findings.add_note(Caution(f"{where}: {problem}; read as 0."))


def _locate(table: Table, name: str, columns: Sequence[str]) -> tuple[int, str | None]:
    """The index of a column; for a name such as NAME=WORD, that of NAME, and WORD."""
    if name in table.columns:
        return table.columns.index(name), None
    for position, character in enumerate(name):
        if character == "=" and name[:position] in table.columns:
            return table.columns.index(name[:position]), name[position + 1 :]
    problem = f"no column {name.partition('=')[0]!r}; there are: {list_columns(table.columns)}"
    remedy = f"Give the columns that were learned from: {list_columns(dict.fromkeys(columns))}."
    raise DataError(f"{table.where}:1", problem, remedy)


class NumberReader:
    """Reads the splits of a table of numbers; the columns are chosen in the first table of the training split."""

    def __init__(self, config: ExamplesConfig, findings: Findings, on_read: OnRead) -> None:
        self.config, self.findings, self.on_read = config, findings, on_read
        self.columns: NumberColumns | None = None

    def read(self, files: Sequence[ExampleFile]) -> RawSplit:
        numbers, labels = array("f"), RawLabels()
        for file in files:
            if file.kind != "table":
                problem = "is not a table, and the other files are tables of numbers"
                raise DataError(file.display_name, problem, "Give files of one kind.")
            table = open_table(file.source, self.config.encoding, self.findings, header_rule(self.config), self.on_read)
            table.require_rows()
            self.columns = self.columns or NumberColumns.choose(table, self.config, self.findings)
            if not lacks_label(table, self.columns.label, file.discovered and file.split == "test", self.findings):
                self._read_table(table, self.columns, numbers, labels)
        columns = self.columns.columns if self.columns else ()
        rows = np.array(numbers, dtype=np.float32).reshape(-1, max(1, len(columns)))
        keys = np.array([hash64(row.tobytes()) for row in rows], dtype=np.uint64)
        return RawSplit(NumberExamples(all_values=rows, columns=columns, all_keys=keys), labels)

    def _read_table(self, table: Table, columns: NumberColumns, numbers: array[float], labels: RawLabels) -> None:
        label_index, parser = column_index(table, columns.label, "label"), _RowParser(table, columns.columns)
        for line, row in table.rows:
            label, parsed = label_text(row[label_index]), parser.parse(row)
            if isinstance(parsed, str):
                table.bad_rows.reject(line, parsed)
            elif label is None:
                table.bad_rows.lacks_label(line, columns.label)
            else:
                numbers.extend(parsed)
                labels.append(label, table.where, line)
        table.bad_rows.finish()
        parser.add_notes(table.where, self.findings)


def read_number_rows(table: Table, columns: Sequence[str]) -> Iterator[tuple[int, list[float] | str]]:
    """The line of every row, and the numbers of the given columns or a message about what is wrong with the row."""
    parser = _RowParser(table, columns)
    for line, row in table.rows:
        yield line, parser.parse(row)

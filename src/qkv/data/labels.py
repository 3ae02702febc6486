"""What labels mean: which task they make, the label map, and the numbers that are learned.

The map is made from the training examples alone. A label that only the held-out examples have cannot be learned: up to
one example in a hundred is left out with a count, more are refused with the place of the first.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from qkv.data.corpus import Task
from qkv.data.examples import Examples, LabelMap, Mask, PackedTexts, Targets, TextExamples
from qkv.data.findings import Caution, Findings
from qkv.data.formats.rows import BAD_SHARE
from qkv.data.identity import as_keys, text_key
from qkv.errors import DataError
from qkv.visible import visible

LABEL_BREAK = "\x1f"
"""Separates the labels of one example, where the file has a list of them."""
SEPARATORS = ("|", ";", ",")
MOST_NUMBERED_CLASSES = 20
MOST_SEVERAL = 0.05
MOST_CELLS = 2**31
NO_LABEL = ("", "nan", "null")


class RawLabels:
    """The labels of many examples: a number each, and once for each distinct label its spelling and first place."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.spelled: dict[str, int] = {}
        self.places: list[tuple[str, int]] = []

    def append(self, value: str, where: str, line: int) -> None:
        code = self.spelled.get(value)
        if code is None:
            code = self.spelled[value] = len(self.places)
            self.places.append((where, line))
        self.codes.append(code)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def names(self) -> list[str]:
        return list(self.spelled)

    def place(self, code: int) -> str:
        where, line = self.places[code]
        return f"{where}:{line}" if line else where

    def array(self) -> npt.NDArray[np.int32]:
        return np.array(self.codes, dtype=np.int32)

    def counts(self) -> dict[str, int]:
        counted = np.bincount(self.array(), minlength=len(self.places))
        return {name: int(count) for name, count in zip(self.spelled, counted, strict=True)}


@dataclass(frozen=True)
class LabelScheme:
    """How labels are read, decided on the training examples."""

    task: Task
    labels: LabelMap
    mark: str | None = None
    """What separates several labels of one example."""
    numeric: bool = False
    """Classes are whole numbers, which files may spell as 1 or 1.0."""

    def targets(self, values: RawLabels, split: str, findings: Findings) -> tuple[Targets, Mask]:
        """The numbers to learn, and which examples can be used."""
        codes, names = values.array(), values.names
        table: Targets
        if self.task == "regression":
            table = np.array([parse_number(name) for name in names], dtype=np.float32)
            good = np.isfinite(table)
            problem = "is not a number"
        elif self.task == "multi-label":
            if len(codes) * len(self.labels) > MOST_CELLS:
                problem = f"{len(self.labels):,} of them on {len(codes):,} rows"
                raise DataError("the labels", problem, "Merge the rare ones.")
            numbers = [[self.labels.numbers.get(part, -1) for part in parts(name, self.mark)] for name in names]
            flags = np.zeros((len(names), len(self.labels) + 1), np.bool_)  # the last column: labels that are not known
            for row, known in enumerate(numbers):
                flags[row, known] = True
            table, good = flags[:, :-1], ~flags[:, -1]
            problem = "has a label that is not among the training examples"
        else:
            table = np.array([self.labels.numbers.get(self.spelling(name), -1) for name in names], dtype=np.int32)
            good = table >= 0
            problem = "is not among the labels of the training examples"
        self._report(values, good, split, problem, findings)
        return table[codes], good[codes]

    def spelling(self, name: str) -> str:
        return integer_spelling(name) if self.numeric else name

    def _report(self, values: RawLabels, good: Mask, split: str, problem: str, findings: Findings) -> None:
        if good.all():
            return
        bad = np.flatnonzero(~good)
        rows = int(np.isin(values.array(), bad).sum())
        first = int(bad[0])
        where, label = values.place(first), values.names[first].replace(LABEL_BREAK, ", ")
        if rows == len(values) and label == "-1":
            problem = f"every label of the {split} examples is -1, as where a set keeps its labels to itself"
            raise DataError(where, problem, "Leave the file out, or give one with labels.")
        if rows > BAD_SHARE * len(values):
            problem = f"the label {label!r} {problem}; so on {rows:,} of {len(values):,} {split} rows"
            known = listed(self.labels.names) or "numbers"
            raise DataError(where, problem, f"Known are {known}. Repair the labels, or use another --task.")
        left = f"{rows:,} of {len(values):,} {split} rows left out"
        findings.add_note(Caution(f"{where}: {left}: the label {label!r} {problem}."))


def decide(
    values: RawLabels, several: bool, wanted: Task | None, where: str, findings: Findings, learn: bool = True
) -> LabelScheme:
    """The task that the labels of the training examples make, and the map; what cannot be learned is refused."""
    counts = values.counts()
    numbers = [parse_number(name) for name in counts]
    numeric = all(math.isfinite(each) for each in numbers)
    if wanted == "regression" or (
        wanted is None and numeric and not several and _measured(numbers, len(values), where, findings)
    ):
        return _regression(numbers, where, learn)
    mark = _mark(counts, several, wanted, where, findings)
    if mark is not None:
        names = {part for name in counts for part in parts(name, mark)}
        task: Task = "multi-label"
    else:
        task = "classification"
        names = {integer_spelling(name) for name in counts} if numeric else set(counts)
        if learn:
            _require_classes(names, len(values), wanted, where)
    labels = LabelMap(tuple(sorted(names, key=_order)))
    _remark(counts, labels, where, findings)
    return LabelScheme(task, labels, mark, numeric)


def label_text(value: object) -> str | None:
    """A label as text; None where there is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, str | int | float):
        return None
    spelled = str(value).strip()
    return None if spelled.lower() in NO_LABEL else spelled


def parse_number(name: str) -> float:
    try:
        return float(name) if "_" not in name else math.nan
    except ValueError:
        return math.nan


def integer_spelling(name: str) -> str:
    """1.0 is 1; 007 stays what it is."""
    value = parse_number(name)
    return str(int(value)) if math.isfinite(value) and value == int(value) and re.search(r"[.eE]", name) else name


def parts(name: str, mark: str | None) -> list[str]:
    return [part.strip() for part in name.split(mark or LABEL_BREAK) if part.strip()]


def _order(name: str) -> tuple[float, str]:
    value = parse_number(name)
    return (value if math.isfinite(value) else math.inf, name)


def _measured(numbers: Sequence[float], rows: int, where: str, findings: Findings) -> bool:
    """Whether numbers are an amount to predict and no names of classes."""
    if any(each != int(each) for each in numbers):
        return len(numbers) > 2 or rows <= 2
    distinct = len(set(numbers))
    if distinct > MOST_NUMBERED_CLASSES and distinct > rows // 50:
        return True
    if distinct > 2:
        classes = f"{distinct} whole numbers are taken for classes"
        findings.add_note(f"{where}: {classes}; --task regression learns them as numbers.")
    return False


def _regression(numbers: Sequence[float], where: str, learn: bool) -> LabelScheme:
    finite = {each for each in numbers if math.isfinite(each)}
    if not finite:
        raise DataError(where, "the labels are not numbers", "Use --task classification, or another --label.")
    if learn and len(finite) == 1:
        raise DataError(where, f"every example has the same number, {finite.pop():g}", "Give another --label.")
    return LabelScheme("regression", LabelMap(()))


def _mark(counts: Mapping[str, int], several: bool, wanted: Task | None, where: str, findings: Findings) -> str | None:
    """What separates several labels of one example; None when each has one."""
    if wanted == "classification":
        return None
    if several:
        return LABEL_BREAK
    rows = sum(counts.values())
    for mark in SEPARATORS:
        mixed = [name for name in counts if len(parts(name, mark)) > 1]
        names = {part for name in counts for part in parts(name, mark)}
        often = sum(counts[name] for name in mixed) >= MOST_SEVERAL * rows
        if mixed and (
            wanted == "multi-label" or (often and 2 <= len(names) < len(counts) and max(map(len, names)) <= 40)
        ):
            several_labels = f"labels such as {mixed[0].replace(LABEL_BREAK, ', ')!r} are several labels"
            findings.add_note(f"{where}: {several_labels}; --task classification takes each as one class.")
            return mark
    return LABEL_BREAK if wanted == "multi-label" else None


def _require_classes(names: set[str], rows: int, wanted: Task | None, where: str) -> None:
    if len(names) == 1:
        remedy = "Give examples of two classes at least, or another --label."
        raise DataError(where, f"only one class: every label is {next(iter(names))!r}", remedy)
    if len(names) > max(MOST_NUMBERED_CLASSES, rows // 2) and wanted is None:
        problem = f"{len(names):,} distinct labels on {rows:,} rows: that is no class"
        raise DataError(where, problem, "Name the column with --label NAME.")


def _remark(counts: Mapping[str, int], labels: LabelMap, where: str, findings: Findings) -> None:
    if "-1" in counts and len(labels) > 2:
        rows = f"the label -1 ({counts['-1']:,} rows) is taken for a class"
        findings.add_note(Caution(f"{where}: {rows}; remove these rows if it means that there is none."))
    folded: dict[str, str] = {}
    for name in labels.names:
        other = folded.setdefault(normalize("NFC", name.casefold()), name)
        if other != name:
            how = "" if other.casefold() == name.casefold() else ", written with other characters of Unicode"
            note = f"the labels {other!r} and {name!r} are two classes{how}; make them one if they mean the same."
            findings.add_note(Caution(f"{where}: {note}"))


def listed(names: Sequence[str], most: int = 10) -> str:
    return visible(", ".join(names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")


@dataclass(frozen=True)
class RawSplit:
    """The examples of one split as they stand in the files, and their labels as they are spelled there."""

    examples: Examples
    values: RawLabels
    several: bool = False
    """Whether some example has several labels."""


class TextCollector:
    """Takes the texts of one split, one after the other."""

    def __init__(self) -> None:
        self.texts, self.values = PackedTexts(), RawLabels()
        self.second: PackedTexts | None = None
        self.ids: PackedTexts | None = None
        self.keys = array("Q")
        self.several = False

    def add(self, texts: Sequence[str], label: str, where: str, line: int, id: str | None = None) -> None:
        self.texts.append(texts[0])
        if self.second is not None:
            self.second.append(texts[1])
        if self.ids is not None:
            self.ids.append(id or "")
        self.values.append(label, where, line)
        self.keys.append(text_key(*texts))

    def gathered(self) -> RawSplit:
        keys = as_keys(self.keys)
        examples = TextExamples(texts=self.texts, second=self.second, ids=self.ids, all_keys=keys)
        return RawSplit(examples, self.values, self.several)

"""Interprets labels: chooses the task, makes the label map, and gives the targets to learn.

The label map is made from the training examples alone. A label that only the held-out examples have cannot be learned:
a few such examples are left out with a note; more are refused, with the place of the first (unusable_labels.py).
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

from qkv.data.examples import Examples, LabelMap, Mask, Numbers, PackedTexts, Targets, TextExamples
from qkv.data.findings import Assumption, Caution, Findings
from qkv.data.hold_out import fewest_examples
from qkv.data.identity import keys_array, text_key
from qkv.data.unusable_labels import report_unusable
from qkv.errors import DataError
from qkv.ranges import ExampleTask
from qkv.visible import visible

LABEL_BREAK = "\x1f"
"""Joins the labels of one example in `RawLabels` if the file has a list of them."""
SEPARATORS = ("|", ";", ",")
"""Characters that may separate several labels in one cell."""
MANY_CLASSES = 20
"""More distinct labels than this are classes only if most of them occur on several rows."""
MIN_MULTI_LABEL_SHARE = 0.05
"""The share of rows that must have a separator in their label before it is read as several labels."""
MAX_SPLIT_LABEL_LENGTH = 40
MAX_TARGET_CELLS = 2**31
MISSING_LABELS = ("", "nan", "null")


class RawLabels:
    """The labels of many examples: a code for each example, and the name and first place of each distinct label."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.code_of: dict[str, int] = {}
        self.first_places: list[tuple[str, int]] = []

    def append(self, label: str, where: str, line: int) -> None:
        code = self.code_of.get(label)
        if code is None:
            code = self.code_of[label] = len(self.first_places)
            self.first_places.append((where, line))
        self.codes.append(code)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def names(self) -> list[str]:
        """The distinct labels as the files spell them, in the order of their codes."""
        return list(self.code_of)

    def place(self, code: int) -> str:
        where, line = self.first_places[code]
        return f"{where}:{line}" if line else where

    def shown_name(self, code: int) -> str:
        return self.names[code].replace(LABEL_BREAK, ", ")

    def array(self) -> npt.NDArray[np.int32]:
        return np.array(self.codes, dtype=np.int32)

    def counts(self) -> dict[str, int]:
        counts = np.bincount(self.array(), minlength=len(self.first_places))
        return {name: int(count) for name, count in zip(self.code_of, counts, strict=True)}


@dataclass(frozen=True)
class LabelScheme:
    """How labels are read, decided on the training examples."""

    task: ExampleTask
    labels: LabelMap
    separator: str | None = None
    """What separates several labels of one example."""
    numeric: bool = False
    """Whether all labels are numbers; integers may then be spelled 1 or 1.0."""

    def targets(
        self, raw_labels: RawLabels, split: str, findings: Findings, starts: Numbers | None = None
    ) -> tuple[Targets, Mask]:
        """The target of each example, or of each tagged word of sentences with these starts, and which have one."""
        codes, names = raw_labels.array(), raw_labels.names
        target_of_code: Targets
        problem: tuple[str, ...]
        if self.task == "regression":
            target_of_code = np.array([parse_number(name) for name in names], dtype=np.float32)
            usable = np.isfinite(target_of_code)
            problem = ("is not a number", "are not numbers")
        elif self.task == "multi-label":
            if len(codes) * len(self.labels) > MAX_TARGET_CELLS:
                size = f"{len(self.labels):,} of them on {len(codes):,} rows"
                raise DataError("the labels", size, "Merge the rare ones.")
            flags = np.zeros((len(names), len(self.labels) + 1), np.bool_)  # the last column: unknown labels
            for code, name in enumerate(names):
                flags[code, [self.labels.numbers.get(label, -1) for label in split_labels(name, self.separator)]] = True
            target_of_code, usable = flags[:, :-1], ~flags[:, -1]
            problem = tuple(f"{verb} a label that is not among the training examples" for verb in ("has", "have"))
        else:
            spellings = [integer_spelling(name) for name in names] if self.numeric else names
            target_of_code = np.array([self.labels.numbers.get(name, -1) for name in spellings], dtype=np.int32)
            usable = target_of_code >= 0
            noun = "labels" if starts is None else "tags"
            problem = tuple(f"{verb} not among the {noun} of the training examples" for verb in ("is", "are"))
        if not usable.all():
            known = format_names(self.labels.names) or "numbers"
            report_unusable(raw_labels, usable, split, problem, known, starts, findings)
        return target_of_code[codes], usable[codes]


def decide_label_scheme(
    raw_labels: RawLabels,
    multi_label: bool,
    task: ExampleTask | None,
    where: str,
    findings: Findings,
    learn: bool = True,
) -> LabelScheme:
    """Choose the task, if it is not given, and make the label map; DataError for labels that cannot be learned.

    `learn` is false for examples that are only scored: those may all be of one class.
    """
    counts = raw_labels.counts()
    numbers = [parse_number(name) for name in counts]
    numeric = all(map(math.isfinite, numbers))
    if task == "regression" or (
        task is None and numeric and not multi_label and _is_quantity(numbers, len(raw_labels), where, findings)
    ):
        return _regression_scheme(numbers, where, learn)
    separator = find_separator(counts, multi_label, task, where, findings)
    names = {integer_spelling(name) for name in counts} if numeric else set(counts)
    if separator is not None:
        names = {label for name in counts for label in split_labels(name, separator)}
    elif learn:
        _require_classes(names := names - {""}, len(raw_labels), task, where)
    labels = LabelMap(tuple(sorted(names, key=_sort_key)))
    _note_suspicious_labels(counts, labels, where, findings)
    return LabelScheme("classification" if separator is None else "multi-label", labels, separator, numeric)


def label_text(value: object) -> str | None:
    """A label as text; None for a cell without a label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    return None if text.lower() in MISSING_LABELS else text


def parse_number(name: str) -> float:
    """The number that a label spells, or NaN."""
    try:
        return float(name) if "_" not in name else math.nan
    except ValueError:
        return math.nan


def integer_spelling(name: str) -> str:
    """Spell an integer without a fraction or exponent: 1.0 becomes 1. Other labels, and 007, stay as they are."""
    value = parse_number(name)
    return str(int(value)) if math.isfinite(value) and value == int(value) and re.search(r"[.eE]", name) else name


def split_labels(name: str, separator: str | None) -> list[str]:
    return [label.strip() for label in name.split(separator or LABEL_BREAK) if label.strip()]


def _sort_key(name: str) -> tuple[float, str]:
    value = parse_number(name)
    return (value if math.isfinite(value) else math.inf, name)


def _is_quantity(numbers: Sequence[float], rows: int, where: str, findings: Findings) -> bool:
    """Whether the distinct numbers are amounts to predict, and not names of classes."""
    if any(number != int(number) for number in numbers):
        return len(numbers) > 2 or rows <= 2
    distinct = len(set(numbers))
    if distinct > MANY_CLASSES and distinct > rows // 50:
        return True
    if distinct > 2:
        classes = f"{distinct} whole numbers are read as classes"
        findings.add_note(Assumption(f"{where}: {classes}; --task regression learns them as numbers."))
    return False


def _regression_scheme(numbers: Sequence[float], where: str, learn: bool) -> LabelScheme:
    finite = {number for number in numbers if math.isfinite(number)}
    if not finite:
        raise DataError(where, "the labels are not numbers", "Use --task classification, or another --label.")
    if learn and len(finite) == 1:
        raise DataError(where, f"every example has the same number, {finite.pop():g}", "Give another --label.")
    return LabelScheme("regression", LabelMap(()))


def find_separator(
    counts: Mapping[str, int], multi_label: bool, task: ExampleTask | None, where: str, findings: Findings
) -> str | None:
    """What separates several labels of one example; None if each example has one label."""
    if task == "classification":
        return None
    if multi_label:
        return LABEL_BREAK
    rows = sum(counts.values())
    for separator in SEPARATORS:
        combined = [name for name in counts if len(split_labels(name, separator)) > 1]
        labels = {label for name in counts for label in split_labels(name, separator)}
        frequent = sum(counts[name] for name in combined) >= MIN_MULTI_LABEL_SHARE * rows
        plausible = 2 <= len(labels) < len(counts) and max(map(len, labels)) <= MAX_SPLIT_LABEL_LENGTH
        if combined and (task == "multi-label" or (frequent and plausible)):
            example = f"labels such as {combined[0].replace(LABEL_BREAK, ', ')!r} are several labels"
            findings.add_note(Assumption(f"{where}: {example}; --task classification takes each as one class."))
            return separator
    return LABEL_BREAK if task == "multi-label" else None


def _require_classes(names: set[str], rows: int, task: ExampleTask | None, where: str) -> None:
    if len(names) == 1:
        remedy = "Give examples of at least two classes, or another --label."
        if rows < (enough := fewest_examples()):
            remedy = f"Give at least {enough} examples, of two classes or more."
        raise DataError(where, f"only one class: every label is {next(iter(names))!r}", remedy)
    if len(names) > max(MANY_CLASSES, rows // 2) and task is None:
        problem = f"{len(names):,} distinct labels on {rows:,} rows: these are not classes"
        raise DataError(where, problem, "Name the column with --label NAME.")


def _note_suspicious_labels(counts: Mapping[str, int], labels: LabelMap, where: str, findings: Findings) -> None:
    """Note a class -1, and classes whose names differ only in case or in their form of Unicode."""
    if "-1" in counts and len(labels) > 2:
        rows = f"the label -1 ({counts['-1']:,} rows) is read as a class"
        findings.add_note(Caution(f"{where}: {rows}; remove these rows if -1 stands for a missing label."))
    first_spelling: dict[str, str] = {}
    for name in labels.names:
        other = first_spelling.setdefault(normalize("NFC", name.casefold()), name)
        if other != name:
            how = "" if other.casefold() == name.casefold() else ", written with other characters of Unicode"
            note = f"the labels {other!r} and {name!r} are two classes{how}; make them one if they mean the same."
            findings.add_note(Caution(f"{where}: {note}"))


def format_names(names: Sequence[str], shown: int = 10) -> str:
    return visible(", ".join(names[:shown])) + (f" and {len(names) - shown:,} more" if len(names) > shown else "")


@dataclass(frozen=True)
class RawSplit:
    """The examples of one split without targets, and their labels as the files spell them."""

    examples: Examples
    labels: RawLabels
    multi_label: bool = False
    """Whether the file gives lists of labels, so that an example may have several."""


class TextCollector:
    """Collects the texts of one split and their labels."""

    def __init__(self) -> None:
        self.texts, self.labels = PackedTexts(), RawLabels()
        self.second: PackedTexts | None = None
        self.ids: PackedTexts | None = None
        self.keys = array("Q")
        self.multi_label = False

    def add(self, texts: Sequence[str], label: str, where: str, line: int, id: str | None = None) -> None:
        self.texts.append(texts[0])
        if self.second is not None:
            self.second.append(texts[1])
        if self.ids is not None:
            self.ids.append(id or "")
        self.labels.append(label, where, line)
        self.keys.append(text_key(*texts))

    def to_split(self) -> RawSplit:
        keys = keys_array(self.keys)
        examples = TextExamples(texts=self.texts, second=self.second, ids=self.ids, all_keys=keys)
        return RawSplit(examples, self.labels, self.multi_label)

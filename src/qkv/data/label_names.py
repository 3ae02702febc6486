"""Names of labels: different spellings of one label, names from `--labels`, and levels as in LOC:city."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from unicodedata import normalize

import numpy as np

from qkv.data.findings import Assumption, Findings
from qkv.data.formats.column_names import Split
from qkv.data.labels import LABEL_BREAK, RawLabels, RawSplit, format_names, integer_spelling
from qkv.errors import ConfigError, DataError

_LEVEL_END = re.compile(r"\s*(?:[:/>]|\.(?=\w)|__)\s*")
"""What separates the levels of a label: LOC:city, sport/tennis, comp.sys.mac, animal > dog."""
_MIN_LEVELLED = 0.9
"""The share of the labels that must have several levels before a note names them."""


def parse_names(given: Sequence[str]) -> dict[str, str]:
    """Parse `--labels 0=neg,1=pos`: return the new name of each label in the file."""
    names: dict[str, str] = {}
    for pair in given:
        old, equals, new = (part.strip() for part in pair.partition("="))
        if not equals or not old or not new:
            raise ConfigError(f"--labels: {pair!r} is not OLD=NEW. Give names such as --labels 0=negative,1=positive.")
        if names.setdefault(old, new) != new:
            raise ConfigError(f"--labels: {old!r} has two names, {names[old]!r} and {new!r}. Give one.")
    return names


def rename(
    splits: Mapping[Split, RawSplit], given: Sequence[str], merge: bool, findings: Findings
) -> dict[Split, RawSplit]:
    """The splits with the labels that `--labels` names; if `merge`, spellings that differ only in case, in blanks or
    in their form of Unicode become one label."""
    names = parse_names(given)
    train = splits["train"].labels
    if names:
        _require_known(names, train)
        splits = _renamed(splits, lambda label: names.get(label, names.get(integer_spelling(label), label)))
    return _merged(splits, frozenset(names.values()), findings) if merge else {**splits}


def _require_known(names: Mapping[str, str], labels: RawLabels) -> None:
    parts = {part for label in labels.names for part in label.split(LABEL_BREAK)}
    known = parts | set(map(integer_spelling, parts))
    unknown = [name for name in names if name not in known]
    if len(unknown) == len(names):
        problem = f"--labels names {format_names(unknown)}; the labels are {format_names(sorted(parts))}"
        raise DataError(labels.place(0), problem, "Use labels that are in the file.")


def _renamed(splits: Mapping[Split, RawSplit], new_name: Callable[[str], str]) -> dict[Split, RawSplit]:
    return {name: replace(split, labels=_with_names(split.labels, new_name)) for name, split in splits.items()}


def _with_names(labels: RawLabels, new_name: Callable[[str], str]) -> RawLabels:
    """The same labels by new names; those that get the same name become one."""
    renamed = RawLabels()
    new_codes = []
    for name, place in zip(labels.names, labels.first_places, strict=True):
        new = LABEL_BREAK.join(dict.fromkeys(map(new_name, name.split(LABEL_BREAK))))
        if new not in renamed.code_of:
            renamed.code_of[new] = len(renamed.first_places)
            renamed.first_places.append(place)
        new_codes.append(renamed.code_of[new])
    codes = np.array(new_codes, dtype=np.int32)[labels.array()] if new_codes else labels.array()
    renamed.codes = array("i", codes.tobytes())
    return renamed


def spelling_key(label: str) -> str:
    """A key that is the same for all spellings of a label; upper and lower case of single letters are different."""
    key = " ".join(normalize("NFC", label).casefold().split())
    return key if len(key) > 1 else label


def numbers_in(names: Iterable[str], labels: Sequence[str]) -> list[int]:
    """The index of each name in a model's labels, whatever its spelling; -1 if it is not one of them."""
    exact = {name: number for number, name in enumerate(labels)}
    known = {spelling_key(name): number for name, number in exact.items()}
    return [exact.get(name, known.get(spelling_key(name), -1)) for name in names]


def _merged(splits: Mapping[Split, RawSplit], given: frozenset[str], findings: Findings) -> dict[Split, RawSplit]:
    counts: Counter[str] = Counter()
    for label, count in splits["train"].labels.counts().items():
        for part in label.split(LABEL_BREAK):
            counts[part] += count
    usual: dict[str, str] = {}
    for label in sorted(counts, key=lambda label: (-counts[label], label != label.lower(), label)):
        usual.setdefault(spelling_key(label), label)

    def new_name(label: str) -> str:
        return label if label in given else usual.get(spelling_key(label), label)

    others = [label for label in counts if new_name(label) != label]
    if others:
        rows, example = sum(counts[label] for label in others), max(others, key=lambda label: counts[label])
        note = f"{rows:,} labels are spelled differently, such as {example!r} for {new_name(example)!r}"
        where = splits["train"].labels.first_places[0][0]
        remedy = f"--labels {example}={example} keeps it separate"
        findings.add_note(Assumption(f"{where}: {note}, and are read as the same label; {remedy}."))
    return _renamed(splits, new_name)


def at_level(label: str, level: int) -> str:
    """The first levels of a label: LOC of LOC:city. 0: the whole label."""
    ends = list(_LEVEL_END.finditer(label))
    return label[: ends[level - 1].start()] if level and len(ends) >= level else label


def note_levels(labels: Iterable[str], column: str, where: str, findings: Findings) -> None:
    """Note labels of several levels, and how the first level is learned."""
    fine = {label for label in labels if LABEL_BREAK not in label}
    coarse = {at_level(label, 1) for label in fine}
    levelled = [label for label in fine if _LEVEL_END.search(label) and re.match(r"[^\W\d]", label)]
    if len(levelled) > _MIN_LEVELLED * len(fine) and 1 < len(coarse) < len(fine):
        learned = f"the whole label is learned; --label {column}:1 learns the {len(coarse)} labels of the first level"
        findings.add_note(Assumption(f"{where}: labels such as {min(levelled)!r} have several levels; {learned}."))

"""What labelled files hold: the answer of `qkv data describe` for tables, tagged words and pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qkv.data import catalog
from qkv.data.document_files import excerpt
from qkv.data.findings import Findings
from qkv.data.formats import Source
from qkv.data.labelled.config import ExamplesConfig
from qkv.data.labelled.examples import Examples, Labelled, NumberExample, NumberExamples, TagExample, TextExample
from qkv.data.labelled.finding import Item, find
from qkv.data.labelled.guessing import looks_labelled
from qkv.data.labelled.kinds import DATA_KINDS, kind_of
from qkv.data.labelled.numbers import holds_numbers
from qkv.data.labelled.reading import read_examples
from qkv.data.labelled.tables import open_table, suffix
from qkv.data.progress import Progress
from qkv.errors import QkvError

SAMPLE = 3
MOST_FOLDERS = 20  # that may be labels; more are a tree of somebody's files
OPPOSITES = ({"neg", "pos"}, {"negative", "positive"}, {"negative", "neutral", "positive"}, {"ham", "spam"})
_ASIDE = re.compile(r"(?i)licen[cs]e|readme|copying|notice")


@dataclass(frozen=True)
class ExamplesDescription:
    task: str
    pairs: bool
    columns: dict[str, str]
    sides: dict[str, int]
    """The examples of each side that the files have."""
    labels: dict[str, dict[str, int]]
    """How often each label occurs, side by side; nothing where numbers are learned."""
    numbers: dict[str, float] | None
    """Lowest, mean and highest, where numbers are learned."""
    unit: str
    """What lengths are counted in."""
    lengths: dict[str, int]
    """Of the training examples."""
    ranges: dict[str, dict[str, float]]
    """Of columns of numbers: lowest, mean, highest, and how many are missing."""
    copies: int
    """Training examples that repeat others."""
    fingerprint: str
    beginning: list[dict[str, Any]]
    notes: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        return asdict(self)


def describe_examples(config: ExamplesConfig, progress: Progress) -> ExamplesDescription:
    found = read_examples(config, progress, purpose="describe")
    train = found.train
    lengths = np.sort(train.lengths)
    unit = "columns" if found.numeric else {"tagging": "words", "images": "pixels"}.get(found.task, "characters")
    return ExamplesDescription(
        task=found.task,
        pairs=found.pairs,
        columns=dict(found.columns),
        sides={name: len(side) for name, side in found.sides if len(side)},
        labels=_labels(found),
        numbers=_numbers(train) if found.task == "regression" else None,
        unit=unit,
        lengths={"shortest": int(lengths[0]), "median": int(lengths[len(lengths) // 2]), "longest": int(lengths[-1])},
        ranges=_ranges(train) if isinstance(train, NumberExamples) else {},
        copies=len(train) - len(np.unique(train.keys)),
        fingerprint=found.fingerprint,
        beginning=[_shown(train[number]) for number in range(min(SAMPLE, len(train)))],
        notes=found.notes,
    )


def _labels(found: Labelled) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {name: {} for name in found.labels.names}
    for side, examples in found.sides:
        if not len(examples) or not found.labels.names:
            continue
        targets = examples.targets
        counts = targets.sum(0) if targets.ndim == 2 else np.bincount(targets, minlength=len(found.labels))
        for name, count in zip(found.labels.names, counts, strict=True):
            counted[name][side] = int(count)
    return counted


def _numbers(examples: Examples) -> dict[str, float]:
    targets = examples.targets
    return {"lowest": float(targets.min()), "mean": float(targets.mean()), "highest": float(targets.max())}


def _ranges(examples: NumberExamples) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, column in zip(examples.columns, examples.numbers.T, strict=True):
        there = column[~np.isnan(column)].astype(np.float64)
        known = {"lowest": there.min(), "mean": there.mean(), "highest": there.max()} if len(there) else {}
        found[name] = {**{key: float(value) for key, value in known.items()}, "missing": len(column) - len(there)}
    return found


def _shown(example: Any) -> dict[str, Any]:
    match example:
        case TextExample(text=text, second=second, label=label):
            more = {} if second is None else {"second": excerpt(second, 100)}
            return {"label": list(label) if isinstance(label, tuple) else label, "text": excerpt(text, 100), **more}
        case NumberExample(numbers=numbers, label=label):
            shown = ", ".join("?" if number != number else f"{number:.6g}" for number in numbers[:12].tolist())
            shown += " ..." if len(numbers) > 12 else ""
            return {"label": list(label) if isinstance(label, tuple) else label, "numbers": shown}
        case TagExample(words=words, tags=tags):
            pairs = zip(words[:15], tags[:15], strict=True)
            return {"words": " ".join(word if tag == "O" else f"{word}/{tag}" for word, tag in pairs)}
        case _:
            return {"label": example.label, "shape": list(example.pixels.shape)}


def labelled(files: Sequence[str], encoding: str, pattern: str | None = None) -> bool:
    """Whether files are plainly examples with labels and no text for a language model."""
    return bool(files) and all(_labelled(name, encoding, pattern) for name in files)


def _labelled(name: str, encoding: str, pattern: str | None) -> bool:
    entry = catalog.find(name)
    if entry is not None and not os.path.lexists(name):
        return entry.task not in ("language modelling", "translation")
    path = Path(name)
    try:
        if path.is_dir() or (path.is_file() and path.suffix.lower() == ".zip"):
            return _folder(name, encoding, pattern)
        return path.is_file() and _file(Source(path), encoding)
    except (QkvError, OSError, ValueError):  # it is said where it is read
        return False


def _folder(name: str, encoding: str, pattern: str | None) -> bool:
    items = find(ExamplesConfig(files=(name,), encoding=encoding, filter=pattern), Findings()).all()
    data = [item for item in items if item.kind in DATA_KINDS]
    if not data:
        return all(item.kind == "picture" for item in items) or _same_on_both_sides(items) or _opposites(items)
    texts = 0
    if Path(name).is_dir() and not pattern:
        texts = sum(not _ASIDE.search(path.name) for path in Path(name).rglob("*.txt"))
    return len(data) > texts and all(_file(item.source, encoding) for item in data[:3])


def _same_on_both_sides(items: Sequence[Item]) -> bool:
    """Whether folders named train and test (or dev) have the same folders inside: then those are labels."""
    sides: dict[str | None, set[str | None]] = {}
    for item in items:
        sides.setdefault(item.side, set()).add(item.label)
    first = sides.get("train", set())
    return len(first) > 1 and len(sides) > 1 and all(labels == first for labels in sides.values())


def _opposites(items: Sequence[Item]) -> bool:
    """Whether all texts are in folders that are called as nothing but labels are."""
    return {(item.label or "").lower() for item in items} in OPPOSITES


def folders_of_texts(name: str, encoding: str) -> list[str]:
    """The folders that a folder of texts is divided into, where all lie in them: they may be meant as labels."""
    try:
        if not Path(name).is_dir():
            return []
        findings = Findings()
        items = find(ExamplesConfig(files=(name,), encoding=encoding), findings).all()
    except (QkvError, OSError, ValueError):  # it is said where it is read
        return []
    found = sorted({item.label for item in items if item.label is not None})
    return found if 1 < len(found) <= MOST_FOLDERS and not findings.skipped["without labels"] else []


def _file(source: Source, encoding: str) -> bool:
    kind = kind_of(source, encoding)
    if kind != "table" or suffix(source) in (".csv", ".tsv"):
        return kind in DATA_KINDS
    table = open_table(source, encoding, Findings())
    return looks_labelled(table) or holds_numbers(table, ExamplesConfig(files=()))


def numeric(corpus: Mapping[str, Any]) -> bool:
    """Whether a recipe's corpus is, by its first file, a table of numbers."""
    try:
        config = ExamplesConfig(**{**corpus, "files": tuple(corpus.get("files", ()))})
        first = find(config, Findings()).train[0]
        table = open_table(first.source, config.encoding, Findings(), config.header) if first.kind == "table" else None
        return table is not None and holds_numbers(table, config)
    except (QkvError, OSError, TypeError, ValueError, IndexError):  # it is said where it is read
        return False

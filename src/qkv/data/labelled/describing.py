"""What labelled files hold: the answer of `qkv data describe` for tables, tagged words and pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qkv.data.document_files import excerpt
from qkv.data.formats.beginnings import Beginnings
from qkv.data.labelled.config import ExamplesConfig
from qkv.data.labelled.examples import Examples, Labelled, NumberExample, NumberExamples, TagExample, TextExample
from qkv.data.labelled.reading import read_examples
from qkv.data.progress import Progress

SAMPLE = 3


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


def describe_examples(
    config: ExamplesConfig, progress: Progress, beginnings: Beginnings | None = None
) -> ExamplesDescription:
    found = read_examples(config, progress, purpose="describe", beginnings=beginnings)
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

"""Whether a classifier is right as often as it is sure: expected calibration error (Guo et al. 2017).

    error = sum over bins of  rows in the bin / rows * |accuracy in the bin - mean confidence in the bin|

Confidence is the probability of the class that was chosen. Bins are equally wide; their upper edge belongs to them.

Scores of a classifier: one class of several for each row.

    accuracy     the share of rows that are right; for one class a row it is also micro-F1
    macro-F1     the mean of the classes' F1 (agreement.py), rare ones counting as much as frequent ones
    matthews     the correlation of truth and answer (Matthews 1975, for several classes Gorodkin 2004); CoLA's metric
    loss         the mean of -log p(true class), nats
    calibration  whether it is right as often as it is sure (calibration.py)

All equal scikit-learn's with `zero_division=0` and all classes of the label map as labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.evaluation import agreement
from qkv.evaluation.agreement import Agreement
from qkv.evaluation.intervals import Estimate, Groups, all_alike, bootstrap

Array = NDArray[Any]

BINS = 15


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence is above `low` and at most `high`; means are None where there are none."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


def calibration(confidence: Array, correct: Array) -> tuple[Bin, ...]:
    """The table: one bin after the other."""
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    sure = np.bincount(place, confidence, BINS)
    right = np.bincount(place, correct, BINS)
    return tuple(
        Bin(float(low), float(high), int(count), *((float(c / count), float(r / count)) if count else (None, None)))
        for low, high, count, c, r in zip(edges[:-1], edges[1:], counts, sure, right, strict=True)
    )


def expected_error(table: tuple[Bin, ...]) -> float:
    """The mean gap between confidence and accuracy, a row at a time."""
    rows = sum(each.count for each in table)
    gaps = (each.count * abs((each.accuracy or 0.0) - (each.confidence or 0.0)) for each in table)
    return sum(gaps) / max(1, rows)


LEAST = float(np.finfo(np.float32).tiny)  # a softmax in float32 that says 0 means no less than this


@dataclass(frozen=True)
class ClassScore:
    """What a classifier did on some rows; `names` are all classes of the label map."""

    names: tuple[str, ...]
    accuracy: Estimate
    macro_f1: Estimate
    weighted_f1: float
    matthews: float
    loss: float
    calibration_error: float
    by_class: tuple[Agreement, ...]
    confusion: NDArray[np.int64] = field(repr=False)  # rows: the true class, columns: the answer
    calibration: tuple[Bin, ...] = field(repr=False)
    targets: NDArray[np.int64] = field(repr=False)
    predictions: NDArray[np.int64] = field(repr=False)
    confidence: NDArray[np.float64] = field(repr=False)  # the probability of the answer

    @property
    def count(self) -> int:
        return len(self.targets)

    @property
    def micro_f1(self) -> float:
        return self.accuracy.value or 0.0

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Row by row; `intervals.paired` compares two systems by it."""
        return self.predictions == self.targets

    def worst(self, most: int) -> list[int]:
        """The rows that are wrong, the surest first."""
        wrong = np.flatnonzero(~self.correct)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")][:most].tolist()

    def confused(self, most: int) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: true class, answer, how often."""
        table = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-table, axis=None, kind="stable")[:most]
        cells = ((*divmod(cell, len(self.names)), int(table.flat[cell])) for cell in order.tolist())
        return [(self.names[true], self.names[answer], often) for true, answer, often in cells if often]

    def values(self) -> dict[str, Any]:
        """For JSON: the numbers."""
        return {
            "count": self.count,
            **self.accuracy.values("accuracy"),
            **self.macro_f1.values("macro_f1"),
            "micro_f1": self.micro_f1,
            "weighted_f1": self.weighted_f1,
            "matthews": self.matthews,
            "loss": self.loss,
            "calibration_error": self.calibration_error,
        }

    def tables(self) -> dict[str, Any]:
        """For JSON: class by class, truth against answer, confidence against accuracy."""
        return {
            "classes": {name: each.values() for name, each in zip(self.names, self.by_class, strict=True)},
            "confusion": self.confusion.tolist(),
            "calibration": [asdict(each) for each in self.calibration],
        }


def confusion(targets: Array, predictions: Array, classes: int) -> NDArray[np.int64]:
    """How often each class (rows) got each answer (columns)."""
    cells = np.asarray(targets, np.int64) * classes + np.asarray(predictions, np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def class_score(probabilities: Array, targets: Array, names: Sequence[str]) -> ClassScore:
    """Score answers: a row of probabilities, one a class, against the number of the true class."""
    probabilities = check(probabilities, (len(targets), len(names)))
    targets = np.asarray(targets, np.int64)
    if targets.min() < 0 or targets.max() >= len(names):
        raise InputError(f"class numbers {targets.min()} to {targets.max()}: expected 0 to {len(names) - 1}.")
    rows = np.arange(len(targets))
    predictions = probabilities.argmax(1)
    confidence = probabilities[rows, predictions].astype(np.float64)
    table = confusion(targets, predictions, len(names))
    by_class = agreement.by_class(*_counts(table))
    accuracy, macro_f1 = _estimates(table)
    bins = calibration(confidence, predictions == targets)
    true = probabilities[rows, targets].astype(np.float64)
    return ClassScore(
        names=tuple(names),
        accuracy=accuracy,
        macro_f1=macro_f1,
        weighted_f1=agreement.weighted(by_class).f1,
        matthews=matthews(table),
        loss=float(-np.log(np.maximum(true, LEAST)).mean()),
        calibration_error=expected_error(bins),
        by_class=by_class,
        confusion=table,
        calibration=bins,
        targets=targets,
        predictions=predictions,
        confidence=confidence,
    )


def check(probabilities: Array, shape: tuple[int, int]) -> Array:
    """Refuse what cannot be scored."""
    if probabilities.shape != shape or not all(shape):
        raise InputError(
            f"probabilities of shape {probabilities.shape}: expected {shape}, one row at least, a column a class."
        )
    if not (probabilities.min() >= 0 and probabilities.max() <= 1 + 1e-3):  # nan is neither
        raise InputError(
            f"probabilities from {probabilities.min()} to {probabilities.max()}: expected 0 to 1. "
            "Scores need a softmax first; a model that gives nan has diverged."
        )
    return probabilities


def matthews(table: NDArray[np.int64]) -> float:
    """0 where there is one true class, or one answer, only."""
    both, found, there = (each.astype(np.float64) for each in _counts(table))
    rows = there.sum()
    spread = (rows**2 - found @ found) * (rows**2 - there @ there)
    return float((both.sum() * rows - found @ there) / math.sqrt(spread)) if spread > 0 else 0.0


def _counts(table: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """For each class how often answer and truth were it, the answer, the truth."""
    return np.diag(table), table.sum(0), table.sum(1)


def _estimates(table: NDArray[np.int64]) -> tuple[Estimate, ...]:
    """Accuracy and macro-F1. Rows of one cell of the table are of one kind."""
    true, answer = np.nonzero(table)
    right = true == answer
    both_by, found_by, there_by = (Groups(each, len(table)) for each in (true[right], answer, true))

    def scores(drawn: Array) -> Array:
        both, found, there = both_by.sums(drawn[:, right]), found_by.sums(drawn), there_by.sums(drawn)
        return np.stack([both.sum(1) / table.sum(), agreement.f1(both, found, there).mean(1)], axis=1)

    accuracy, macro_f1 = bootstrap(table[true, answer], scores)
    if right.all() or not right.any():
        accuracy = all_alike(bool(right.all()), int(table.sum()))
    return accuracy, macro_f1

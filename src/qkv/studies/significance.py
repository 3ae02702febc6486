"""How sure a difference between systems is: their scores on the same rows, with intervals and paired tests.

What a row contributes to a score is a few numbers whose totals give it (`Measure`), so that drawing rows again is
adding them up again. A system that was trained with several seeds has the mean of their scores.

    accuracy   correct                       F1    correct, predicted, true   words     correct, words
    macro-F1, Matthews   correct, predicted, true of each class               Pearson   y, p, y², p², y p
    bits       nats, tokens
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.examples import Examples, TagExamples
from qkv.errors import InputError
from qkv.evaluation import labelled_evaluation
from qkv.evaluation.class_metrics import METRICS, f1
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore
from qkv.evaluation.intervals import Difference, Estimate, bootstrap, mean, paired
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.regression import NumberScore

Array = NDArray[Any]
Totals = Callable[[Array, int], Array]  # totals of the rows (B, K) and their number -> scores (B,)
NAMES = {**labelled_evaluation.NAMES, "bits_per_byte": "bits per byte"}


@dataclass(frozen=True)
class Measure:
    """What each row contributes, (N, K), and the score that the totals give."""

    name: str
    rows: Array = field(repr=False)
    score: Totals

    @property
    def value(self) -> float:
        """The score; nan where it is not defined."""
        with np.errstate(all="ignore"):
            return float(self.score(self.rows.sum(0, dtype=np.float64)[None], len(self.rows))[0])


def measure(result: LabelledScore, examples: Examples, metric: str = "auto") -> Measure:
    """What every row of the examples contributes to the score that they are evaluated by."""
    score = result.score
    require_metric(metric, result.name, len(getattr(score, "names", ())))
    if isinstance(score, NumberScore):
        y = examples.targets - float(np.mean(examples.targets))
        p = y + score.errors
        return Measure("pearson", np.stack([y, p, y * y, p * p, y * p], axis=1), _pearson)
    if not isinstance(score, ClassScore):
        name = "micro_f1" if isinstance(score, MultilabelScore) else "span_f1"
        return Measure(name, score.counts, lambda totals, rows: f1(*totals.T))
    if metric not in ("auto", "accuracy"):
        by_class = METRICS[metric].score
        totals = _by_class(score, examples)
        return Measure(metric, totals, lambda totals, rows: by_class(*np.split(totals, 3, axis=1)))
    if isinstance(examples, TagExamples):
        rows = np.stack([_summed(score.correct, examples), examples.lengths], axis=1)
        return Measure("accuracy", rows, lambda totals, rows: totals[:, 0] / totals[:, 1])
    return Measure("accuracy", score.correct[:, None].astype(np.int64), mean)


def require_metric(metric: str, main: str, classes: int) -> None:
    """Refuse a metric of classes where others are reported (`main`), and one for another number of classes."""
    if metric in ("auto", main):
        return
    if main != "accuracy":
        raise InputError(f"--metric {metric}: these examples are evaluated by {NAMES[main]}. Leave it out.")
    if metric not in METRICS:
        raise InputError(f"--metric {metric}: expected auto, {', '.join(METRICS)}.")
    wanted = METRICS[metric].classes
    if wanted not in (None, classes):
        number = "two" if wanted == 2 else wanted
        raise InputError(f"--metric {metric}: is for {number} classes, and here are {classes}. Take macro_f1.")


def _summed(values: Array, examples: TagExamples) -> Array:
    """Sums over each sentence, from words."""
    starts = np.concatenate([[0], np.cumsum(examples.lengths)[:-1]])
    return np.add.reduceat(values.astype(np.int64), starts)


def _by_class(score: ClassScore, examples: Examples) -> Array:
    """For each row and class whether it was predicted rightly, predicted, true; (N, 3 C)."""
    classes = np.arange(len(score.names))
    predicted, true = (labels[:, None] == classes for labels in (score.predictions, score.targets))
    table = np.concatenate([predicted & true, predicted, true], axis=1)
    if not isinstance(examples, TagExamples):
        return table
    return np.stack([_summed(column, examples) for column in table.T], 1)


def _pearson(totals: Array, rows: int) -> Array:
    y, p, yy, pp, yp = totals.T
    with np.errstate(all="ignore"):
        spread = (yy - y * y / rows) * (pp - p * p / rows)
        flat = spread <= 1e-24 * np.abs(yy * pp)
        return np.where(flat, np.nan, (yp - y * p / rows) / np.sqrt(np.abs(spread)))


def _joined(measures: Sequence[Measure], times: int) -> tuple[Array, Totals]:
    """The rows of all seeds side by side, repeated up to `times`, and the mean of their scores."""
    rows = [measures[number % len(measures)].rows for number in range(times)]
    width, score = rows[0].shape[1], measures[0].score

    def together(totals: Array, count: int) -> Array:
        parts = [score(totals[:, at : at + width], count) for at in range(0, times * width, width)]
        return np.mean(parts, axis=0)

    return np.hstack(rows).astype(np.float64), together


def estimate(measures: Sequence[Measure]) -> Estimate:
    """The mean score of all seeds, and how far it would move on other rows."""
    table, score = _joined(measures, len(measures))
    kinds, counts = np.unique(table, axis=0, return_counts=True)
    with np.errstate(all="ignore"):
        return bootstrap(counts, lambda drawn: score(drawn @ kinds, len(table))[:, None])[0]


def difference(first: Sequence[Measure], second: Sequence[Measure]) -> Difference:
    """Two systems on the same rows."""
    times = max(len(first), len(second))
    ours, score = _joined(first, times)
    theirs, _ = _joined(second, times)
    return paired(ours, theirs, score)

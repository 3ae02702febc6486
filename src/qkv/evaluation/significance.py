"""Intervals of scores, and paired tests of the difference between two systems on the same rows.

A score is a function of the totals of a few statistics of each row (`RowStatistics`), so a bootstrap sample of the rows
only needs their sums. A system that was trained with several seeds has the mean of their scores.

    score                  statistics of a row
    accuracy               correct; for tagged words: correct words, words
    F1                     correct, predicted and true positives
    macro-F1, Matthews     correct, predicted and true, for each class
    Pearson                y, p, y², p², y p
    bits per byte          nats, tokens
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.examples import Examples, TagExamples
from qkv.errors import InputError
from qkv.evaluation.class_metrics import METRICS, f1
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore
from qkv.evaluation.intervals import (
    CORRELATION,
    PROPORTION,
    Difference,
    Estimate,
    Limits,
    bootstrap,
    mean,
    paired,
    proportion,
    ratio_of_totals,
)
from qkv.evaluation.labelled_evaluation import LABELLED_TITLES, LabelledScore, score_examples
from qkv.evaluation.regression import NumberScore
from qkv.objectives.classification import Problem

Array = NDArray[Any]
ScoreOfTotals = Callable[[Array, int], Array]  # totals of statistics (B, K), and the number of rows -> scores (B,)
METRIC_TITLES = {**LABELLED_TITLES, "bits_per_byte": "bits per byte", "squared_error": "mean squared error"}


@dataclass(frozen=True)
class RowStatistics:
    """Statistics of each row, (N, K), and the score that their totals give."""

    name: str
    rows: Array = field(repr=False)
    score: ScoreOfTotals
    limits: Limits = PROPORTION  # of the score

    @property
    def value(self) -> float:
        """The score; nan if it is undefined."""
        with np.errstate(all="ignore"):
            return float(self.score(self.rows.sum(0, dtype=np.float64)[None], len(self.rows))[0])


def row_statistics(result: LabelledScore, examples: Examples, metric: str = "auto") -> RowStatistics:
    """The statistics of every example for the given metric or, by default, for the metric of the task."""
    score = result.score
    require_metric(metric, result.name, len(getattr(score, "names", ())))
    if isinstance(score, NumberScore):
        y = examples.targets - float(np.mean(examples.targets))
        p = y + score.errors
        return RowStatistics("pearson", np.stack([y, p, y * y, p * p, y * p], axis=1), _pearson, CORRELATION)
    if not isinstance(score, ClassScore):
        name = "micro_f1" if isinstance(score, MultilabelScore) else "span_f1"
        return RowStatistics(name, score.counts, lambda totals, rows: f1(*totals.T))
    if metric not in ("auto", "accuracy"):
        class_metric, statistics = METRICS[metric], _class_statistics(score, examples)
        by_class: ScoreOfTotals = lambda totals, rows: class_metric.score(*np.split(totals, 3, axis=1))  # noqa: E731
        return RowStatistics(metric, statistics, by_class, class_metric.limits)
    if isinstance(examples, TagExamples):
        rows = np.stack([_sentence_sums(score.correct, examples), examples.lengths], axis=1)
        return RowStatistics("accuracy", rows, ratio_of_totals)
    return RowStatistics("accuracy", score.correct[:, None].astype(np.int64), mean)


def compared_statistics(
    predictions: Array, examples: Examples, problem: Problem, chosen: Array | None = None
) -> RowStatistics:
    """The statistics by which a model is compared with its baselines: the metric of the task and, for numbers, the
    squared error, because the predictions of a constant have no correlation."""
    if problem == "regression":
        errors = (predictions[:, 0].astype(np.float64) - examples.targets) ** 2
        return RowStatistics("squared_error", errors[:, None], mean, (0.0, float(errors.max(initial=0.0)) or 1.0))
    return row_statistics(score_examples(predictions, examples, problem, chosen), examples)


def require_metric(metric: str, main_metric: str, classes: int) -> None:
    """Refuse a metric of classes if the `main_metric` is another kind of score, or if it needs another number of
    classes."""
    if metric in ("auto", main_metric):
        return
    if main_metric != "accuracy":
        title = METRIC_TITLES[main_metric]
        raise InputError(f"--metric {metric}: these examples are evaluated by {title}. Leave it out.")
    if metric not in METRICS:
        raise InputError(f"--metric {metric}: expected auto, {', '.join(METRICS)}.")
    needed = METRICS[metric].classes
    if needed not in (None, classes):
        number = "two" if needed == 2 else needed
        raise InputError(f"--metric {metric}: is for {number} classes; these data have {classes}. Use macro_f1.")


def _sentence_sums(values: Array, examples: TagExamples) -> Array:
    """Sum the values of the words of each sentence."""
    starts = np.concatenate([[0], np.cumsum(examples.lengths)[:-1]])
    return np.add.reduceat(values.astype(np.int64), starts)


def _class_statistics(score: ClassScore, examples: Examples) -> Array:
    """For each row: which classes were correctly predicted, predicted, and true; (N, 3 C)."""
    classes = np.arange(len(score.names))
    predicted, true = (labels[:, None] == classes for labels in (score.predictions, score.targets))
    table = np.concatenate([predicted & true, predicted, true], axis=1)
    if not isinstance(examples, TagExamples):
        return table
    return np.stack([_sentence_sums(column, examples) for column in table.T], 1)


def _pearson(totals: Array, rows: int) -> Array:
    y, p, yy, pp, yp = totals.T
    with np.errstate(all="ignore"):
        spread = (yy - y * y / rows) * (pp - p * p / rows)
        flat = spread <= 1e-24 * np.abs(yy * pp)
        return np.where(flat, np.nan, (yp - y * p / rows) / np.sqrt(np.abs(spread)))


def _mean_of_seeds(by_seed: Sequence[RowStatistics], repeats: int) -> tuple[Array, ScoreOfTotals]:
    """The statistics of `repeats` seeds, taken in turn, side by side; and a function that gives their mean score."""
    if repeats == 1:
        return by_seed[0].rows, by_seed[0].score
    rows = [by_seed[index % len(by_seed)].rows for index in range(repeats)]
    width, score = rows[0].shape[1], by_seed[0].score

    def mean_score(totals: Array, row_count: int) -> Array:
        scores = [score(totals[:, first : first + width], row_count) for first in range(0, repeats * width, width)]
        return np.mean(scores, axis=0)

    return np.hstack(rows).astype(np.float64), mean_score


def estimate(by_seed: Sequence[RowStatistics]) -> Estimate:
    """The mean score of all seeds, with an interval for other rows of the same kind."""
    rows, score = _mean_of_seeds(by_seed, len(by_seed))
    if score is mean and by_seed[0].limits == PROPORTION and np.isin(rows, (0, 1)).all():
        return proportion(int(rows.sum()), len(rows))
    distinct_rows, counts = np.unique(rows, axis=0, return_counts=True)
    with np.errstate(all="ignore"):
        return bootstrap(counts, lambda drawn: score(drawn @ distinct_rows, len(rows))[:, None], by_seed[0].limits)[0]


def difference(first: Sequence[RowStatistics], second: Sequence[RowStatistics]) -> Difference:
    """The difference between two systems on the same rows, each with one or more seeds."""
    repeats = max(len(first), len(second))
    first_rows, score = _mean_of_seeds(first, repeats)
    second_rows, _ = _mean_of_seeds(second, repeats)
    return paired(first_rows, second_rows, score)

"""Scores of classifiers: one class a row, or any number of labels a row. Both rest on precision, recall and F1.

    precision = correct / predicted      recall = correct / support      F1 = 2 correct / (predicted + support)

    loss         the mean of -log p(true class), nats
    calibration  whether it is right as often as it is sure: the expected calibration error (Guo et al. 2017),
                 sum over bins of  rows in the bin / rows * |accuracy in the bin - mean confidence in the bin|

Of several labels each is a yes or no by itself, given when it is more likely than not. Exact: all labels of the row are
right, none is missing and none too many. F1 is over all decisions (micro), a mean over labels (macro) and a mean over
rows (samples). All equal scikit-learn's with `zero_division=0` and all classes of the label map as labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.evaluation.class_metrics import METRICS, f1, ratio
from qkv.evaluation.intervals import Array, Estimate, KindGroups, Metrics, bootstrap, bootstrap_rows, json_values
from qkv.evaluation.intervals import share as share_of_rows

BINS = 15
CERTAIN = 0.5  # a label is given above it
LEAST = float(np.finfo(np.float32).tiny)  # a softmax in float32 that gives 0 means no less than this


@dataclass(frozen=True)
class PrecisionRecall:
    """Of one class, or a mean over several."""

    precision: float
    recall: float
    f1: float
    support: int  # how often the class is the true one


def by_class(correct: Array, predicted: Array, support: Array) -> tuple[PrecisionRecall, ...]:
    columns = (ratio(correct, predicted), ratio(correct, support), f1(correct, predicted, support), support)
    return tuple(PrecisionRecall(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def micro(correct: Array, predicted: Array, support: Array) -> PrecisionRecall:
    """Every occurrence counts alike: of the sums over all classes."""
    return by_class(*(counts.sum(keepdims=True) for counts in (correct, predicted, support)))[0]


def macro(classes: Sequence[PrecisionRecall]) -> PrecisionRecall:
    """Every class counts alike."""
    return mean_of(classes, [1] * len(classes))


def mean_of(classes: Sequence[PrecisionRecall], weights: Sequence[int]) -> PrecisionRecall:
    total, names = sum(weights) or 1, ("precision", "recall", "f1")
    pairs = list(zip(classes, weights, strict=True))
    precision, recall, f1 = (sum(getattr(row, name) * weight for row, weight in pairs) / total for name in names)
    return PrecisionRecall(precision, recall, f1, sum(row.support for row in classes))


def class_table(names: Sequence[str], rows: Sequence[PrecisionRecall]) -> dict[str, dict[str, float | int]]:
    """For JSON."""
    return {name: asdict(row) for name, row in zip(names, rows, strict=True)}


@dataclass(frozen=True)
class CalibrationBin:
    """Rows whose confidence is above `low` and at most `high`; means are None where there are none."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


def calibration(confidence: Array, correct: Array) -> tuple[CalibrationBin, ...]:
    """A table of equally wide bins, by the probability of the class that was chosen."""
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    columns = (np.bincount(place, weights, BINS) for weights in (None, confidence, correct))
    return tuple(
        CalibrationBin(low, high, int(count), *((sure / count, right / count) if count else (None, None)))
        for low, high, count, sure, right in zip(
            edges[:-1].tolist(), edges[1:].tolist(), *(column.tolist() for column in columns), strict=True
        )
    )


def expected_error(table: tuple[CalibrationBin, ...]) -> float:
    """The mean gap between confidence and accuracy, a row at a time."""
    gaps = (row.count * abs((row.accuracy or 0.0) - (row.confidence or 0.0)) for row in table)
    return sum(gaps) / max(1, sum(row.count for row in table))


@dataclass(frozen=True)
class ClassScore(Metrics):
    """What a classifier did on some rows; `names` are all classes of the label map."""

    names: tuple[str, ...]
    accuracy: Estimate
    macro_f1: Estimate
    weighted_f1: float
    loss: float
    calibration_error: float
    by_class: tuple[PrecisionRecall, ...]
    confusion: NDArray[np.int64] = field(repr=False)  # rows: the true class, columns: the answer
    calibration: tuple[CalibrationBin, ...] = field(repr=False)
    targets: NDArray[np.int64] = field(repr=False)
    predictions: NDArray[np.int64] = field(repr=False)
    confidence: NDArray[np.float64] = field(repr=False)  # the probability of the answer
    estimates: Mapping[str, Estimate] = field(repr=False)  # `METRICS` of any number of classes

    reported: ClassVar = (
        "count", "accuracy", "macro_f1", "micro_f1", "weighted_f1", "matthews", "loss", "calibration_error"
    )  # fmt: skip
    titles: ClassVar = {
        **{name: metric.title for name, metric in METRICS.items() if metric.classes is None},
        "calibration_error": "calibration error",
    }

    @property
    def count(self) -> int:
        return len(self.targets)

    @property
    def micro_f1(self) -> float:
        return self.accuracy.value or 0.0

    @property
    def matthews(self) -> Estimate:
        return self.estimates["matthews"]

    def of(self, metric: str) -> float:
        """One of `METRICS`."""
        return float(METRICS[metric].score(*_counts(self.confusion)))

    def values(self) -> dict[str, object]:
        """For JSON: what `reported` names, and all other metrics of any number of classes."""
        return {**super().values(), **json_values({k: v for k, v in self.estimates.items() if k not in self.reported})}

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Row by row; `intervals.paired` compares two systems by it."""
        return self.predictions == self.targets

    def worst(self, limit: int) -> list[int]:
        """The rows that are wrong, the surest first."""
        wrong = np.flatnonzero(~self.correct)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")][:limit].tolist()

    def confused(self, limit: int) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: true class, answer, how often."""
        table = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-table, axis=None, kind="stable")[:limit]
        cells = ((*divmod(cell, len(self.names)), int(table.flat[cell])) for cell in order.tolist())
        return [(self.names[true], self.names[answer], often) for true, answer, often in cells if often]

    def tables(self) -> Mapping[str, object]:
        """For JSON: class by class, truth against answer, confidence against accuracy."""
        return {
            "classes": class_table(self.names, self.by_class),
            "confusion": self.confusion.tolist(),
            "calibration": [asdict(row) for row in self.calibration],
        }


def confusion(targets: Array, predictions: Array, classes: int) -> NDArray[np.int64]:
    """How often each class (rows) got each answer (columns)."""
    cells = np.asarray(targets, np.int64) * classes + np.asarray(predictions, np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def class_score(probabilities: Array, targets: Array, names: Sequence[str], chosen: Array | None = None) -> ClassScore:
    """Score answers: a row of probabilities, one a class, against the number of the true class. The classes that were
    `chosen` are the likeliest by default."""
    check(probabilities, (len(targets), len(names)))
    targets = np.asarray(targets, np.int64)
    if targets.min() < 0 or targets.max() >= len(names):
        raise InputError(f"class numbers {targets.min()} to {targets.max()}: expected 0 to {len(names) - 1}.")
    rows = np.arange(len(targets))
    predictions = probabilities.argmax(1) if chosen is None else np.asarray(chosen, np.int64)
    confidence = probabilities[rows, predictions].astype(np.float64)
    table = confusion(targets, predictions, len(names))
    classes = by_class(*_counts(table))
    estimates = _estimates(table)
    bins = calibration(confidence, predictions == targets)
    return ClassScore(
        names=tuple(names),
        accuracy=estimates["accuracy"],
        macro_f1=estimates["macro_f1"],
        estimates=estimates,
        weighted_f1=mean_of(classes, [row.support for row in classes]).f1,  # a class counts as often as it is true
        loss=_loss(probabilities[rows, targets]),
        calibration_error=expected_error(bins),
        by_class=classes,
        confusion=table,
        calibration=bins,
        targets=targets,
        predictions=predictions,
        confidence=confidence,
    )


def check(probabilities: Array, shape: tuple[int, int]) -> None:
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


def _counts(table: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """For each class how often answer and truth were it, the answer, the truth."""
    return np.diag(table), table.sum(0), table.sum(1)


def _loss(true: Array) -> float:
    """The mean of -log p, of the probabilities of what is true."""
    return float(-np.log(np.maximum(true.astype(np.float64), LEAST)).mean())


def _estimates(table: NDArray[np.int64]) -> dict[str, Estimate]:
    """The metrics of any number of classes. Rows of one cell of the table are of one kind."""
    true, answer = np.nonzero(table)
    right = true == answer
    correct, predicted, support = (KindGroups(member, len(table)) for member in (true[right], answer, true))

    metrics = {name: metric for name, metric in METRICS.items() if metric.classes is None}

    def scores(drawn: Array) -> Array:
        counts = correct.sums(drawn[:, right]), predicted.sums(drawn), support.sums(drawn)
        return np.stack([metric.score(*counts) for metric in metrics.values()], axis=1)

    limits = [metric.limits for metric in metrics.values()]
    estimates = dict(zip(metrics, bootstrap(table[true, answer], scores, limits), strict=True))
    return {**estimates, "accuracy": share_of_rows(int(np.diag(table).sum()), int(table.sum()))}


@dataclass(frozen=True)
class MultilabelScore(Metrics):
    """What a multi-label classifier did on some rows."""

    names: tuple[str, ...]
    exact: Estimate  # scikit-learn's "subset accuracy"
    micro_f1: Estimate
    samples_f1: Estimate  # of a row without a label that is given none: 0
    macro_f1: float
    loss: float  # the mean over all decisions of -log p(what is true), nats
    by_class: tuple[PrecisionRecall, ...]
    counts: NDArray[np.int64] = field(repr=False)  # of each row: labels right, labels given, labels true
    correct: NDArray[np.bool_] = field(repr=False)  # row by row, all labels

    reported: ClassVar = ("count", "exact", "micro_f1", "samples_f1", "macro_f1", "loss")
    titles: ClassVar = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "exact": "all labels right"}

    @property
    def count(self) -> int:
        return len(self.counts)

    def tables(self) -> Mapping[str, object]:
        """For JSON: label by label."""
        return {"classes": class_table(self.names, self.by_class)}


def multilabel_score(probabilities: Array, targets: Array, names: Sequence[str]) -> MultilabelScore:
    """Score answers: a probability for each row and label, against a table of true and false."""
    check(probabilities, (len(targets), len(names)))
    if targets.shape != probabilities.shape:
        raise InputError(f"labels of shape {targets.shape}: expected {probabilities.shape}, true or false for each.")
    true, given = np.asarray(targets, bool), probabilities > CERTAIN
    tables = (true & given, given, true)
    classes = by_class(*(table.sum(0) for table in tables))
    counts = np.stack([table.sum(1) for table in tables], axis=1)

    def scores(drawn: Array, kinds: Array) -> Array:
        return np.stack([f1(*(drawn @ kinds).T), drawn @ f1(*kinds.T) / len(counts)], axis=1)

    correct = (true == given).all(1)
    micro_f1, samples_f1 = bootstrap_rows(counts, scores)
    return MultilabelScore(
        names=tuple(names),
        exact=share_of_rows(int(correct.sum()), len(correct)),
        micro_f1=micro_f1,
        samples_f1=samples_f1,
        macro_f1=macro(classes).f1,
        loss=_loss(np.where(true, probabilities, 1 - probabilities)),
        by_class=classes,
        counts=counts,
        correct=correct,
    )

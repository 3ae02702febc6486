"""Scores of classifiers, for rows with one class each or with any number of labels, from precision, recall and F1.

    precision = correct / predicted      recall = correct / support      F1 = 2 correct / (predicted + support)

    loss         the mean of -log p(true class), nats
    calibration  whether confidence equals accuracy: the expected calibration error (Guo et al. 2017),
                 sum over bins of  rows in the bin / rows * |accuracy in the bin - mean confidence in the bin|

Each of several labels is predicted if its probability is above 1/2. A row is exact if all its labels are predicted and
no others. F1 is computed over all decisions (micro), as a mean over labels (macro) and as a mean over rows (samples).
All scores equal scikit-learn's with `zero_division=0` and all classes of the label map as labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.evaluation import intervals
from qkv.evaluation.class_metrics import METRICS, f1, ratio
from qkv.evaluation.intervals import Array, Estimate, GroupSums, Metrics, bootstrap, bootstrap_rows, json_values

BINS = 15
LABEL_THRESHOLD = 0.5  # a label with a higher probability is predicted
MIN_PROBABILITY = float(np.finfo(np.float32).tiny)  # lower ones count as this: in float32, a softmax may give 0


@dataclass(frozen=True)
class PrecisionRecall:
    """The scores of one class, or their means over several classes."""

    precision: float
    recall: float
    f1: float
    support: int  # true examples of the class


def by_class(correct: Array, predicted: Array, support: Array) -> tuple[PrecisionRecall, ...]:
    columns = (ratio(correct, predicted), ratio(correct, support), f1(correct, predicted, support), support)
    return tuple(PrecisionRecall(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def micro(correct: Array, predicted: Array, support: Array) -> PrecisionRecall:
    """The scores of all classes together, from the sums of their counts."""
    return by_class(*(counts.sum(keepdims=True) for counts in (correct, predicted, support)))[0]


def macro(classes: Sequence[PrecisionRecall]) -> PrecisionRecall:
    """The means over classes with equal weights."""
    return weighted_mean(classes, [1] * len(classes))


def weighted_mean(classes: Sequence[PrecisionRecall], weights: Sequence[int]) -> PrecisionRecall:
    total, names = sum(weights) or 1, ("precision", "recall", "f1")
    pairs = list(zip(classes, weights, strict=True))
    precision, recall, f1 = (sum(getattr(row, name) * weight for row, weight in pairs) / total for name in names)
    return PrecisionRecall(precision, recall, f1, sum(row.support for row in classes))


def class_table(names: Sequence[str], rows: Sequence[PrecisionRecall]) -> dict[str, dict[str, float | int]]:
    """The scores of classes by name, for JSON."""
    return {name: asdict(row) for name, row in zip(names, rows, strict=True)}


@dataclass(frozen=True)
class CalibrationBin:
    """Rows whose confidence is above `low` and at most `high`; means are None if there are no such rows."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


def calibration(confidence: Array, correct: Array) -> tuple[CalibrationBin, ...]:
    """Bins of equal width, by the probability of the predicted class."""
    edges = np.linspace(0, 1, BINS + 1)
    bin_index = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    columns = (np.bincount(bin_index, weights, BINS) for weights in (None, confidence, correct))
    return tuple(
        CalibrationBin(low, high, int(count), *((confident / count, right / count) if count else (None, None)))
        for low, high, count, confident, right in zip(
            edges[:-1].tolist(), edges[1:].tolist(), *(column.tolist() for column in columns), strict=True
        )
    )


def expected_calibration_error(table: tuple[CalibrationBin, ...]) -> float:
    """The gap between confidence and accuracy, as a mean over the bins weighted by their rows."""
    gaps = (row.count * abs((row.accuracy or 0.0) - (row.confidence or 0.0)) for row in table)
    return sum(gaps) / max(1, sum(row.count for row in table))


@dataclass(frozen=True)
class ClassScore(Metrics):
    """The scores of a classifier on some rows; `names` are all classes of the label map."""

    names: tuple[str, ...]
    accuracy: Estimate
    macro_f1: Estimate
    weighted_f1: float
    loss: float
    calibration_error: float
    by_class: tuple[PrecisionRecall, ...]
    confusion: NDArray[np.int64] = field(repr=False)  # rows: the true class, columns: the predicted class
    calibration: tuple[CalibrationBin, ...] = field(repr=False)
    targets: NDArray[np.int64] = field(repr=False)
    predictions: NDArray[np.int64] = field(repr=False)
    confidence: NDArray[np.float64] = field(repr=False)  # the probability of the predicted class
    estimates: Mapping[str, Estimate] = field(repr=False)  # those of `METRICS` that take any number of classes

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
        """The value of one of `METRICS`."""
        return float(METRICS[metric].score(*_counts(self.confusion)))

    def values(self) -> dict[str, object]:
        """For JSON: what `reported` names, and all other metrics that take any number of classes."""
        return {**super().values(), **json_values({k: v for k, v in self.estimates.items() if k not in self.reported})}

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each row is classified correctly; `intervals.paired` compares two systems by this."""
        return self.predictions == self.targets

    def worst(self, limit: int) -> list[int]:
        """The rows that are classified wrongly, the most confident first."""
        wrong = np.flatnonzero(~self.correct)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")][:limit].tolist()

    def confused(self, limit: int) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: true class, predicted class, count."""
        table = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-table, axis=None, kind="stable")[:limit]
        cells = ((*divmod(cell, len(self.names)), int(table.flat[cell])) for cell in order.tolist())
        return [(self.names[true], self.names[predicted], count) for true, predicted, count in cells if count]

    def tables(self) -> Mapping[str, object]:
        """For JSON: the scores by class, the confusion matrix, and the calibration."""
        return {
            "classes": class_table(self.names, self.by_class),
            "confusion": self.confusion.tolist(),
            "calibration": [asdict(row) for row in self.calibration],
        }


def confusion(targets: Array, predictions: Array, classes: int) -> NDArray[np.int64]:
    """How many rows of each true class (rows) were predicted as each class (columns)."""
    cells = np.asarray(targets, np.int64) * classes + np.asarray(predictions, np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def class_score(probabilities: Array, targets: Array, names: Sequence[str], chosen: Array | None = None) -> ClassScore:
    """The score of `probabilities`, (N, C), where `targets` are the numbers of the true classes. The predicted classes
    are those in `chosen`, by default the likeliest."""
    require_probabilities(probabilities, (len(targets), len(names)))
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
        weighted_f1=weighted_mean(classes, [row.support for row in classes]).f1,
        loss=float(log_losses(probabilities[rows, targets]).mean()),
        calibration_error=expected_calibration_error(bins),
        by_class=classes,
        confusion=table,
        calibration=bins,
        targets=targets,
        predictions=predictions,
        confidence=confidence,
    )


def require_probabilities(probabilities: Array, shape: tuple[int, int]) -> None:
    """Refuse probabilities of another shape, or outside 0 to 1."""
    if probabilities.shape != shape or not all(shape):
        raise InputError(
            f"probabilities of shape {probabilities.shape}: expected {shape}, one or more rows, a column per class."
        )
    if not (probabilities.min() >= 0 and probabilities.max() <= 1 + 1e-3):  # nan is neither
        raise InputError(
            f"probabilities from {probabilities.min()} to {probabilities.max()}: expected 0 to 1. "
            "Scores need a softmax first; a model that gives nan has diverged."
        )


def _counts(table: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """For each class: the correct predictions, the predictions, the true examples."""
    return np.diag(table), table.sum(0), table.sum(1)


def log_losses(true: Array) -> Array:
    """-log p, where `true` holds the probabilities of the true classes."""
    return -np.log(np.maximum(true.astype(np.float64), MIN_PROBABILITY))


def _estimates(table: NDArray[np.int64]) -> dict[str, Estimate]:
    """The metrics that take any number of classes. The bootstrap groups rows by their cell of the table."""
    true, guess = np.nonzero(table)
    right = true == guess
    correct, predicted, support = (GroupSums(groups, len(table)) for groups in (true[right], guess, true))

    metrics = {name: metric for name, metric in METRICS.items() if metric.classes is None}

    def scores(drawn: Array) -> Array:
        counts = correct.sums(drawn[:, right]), predicted.sums(drawn), support.sums(drawn)
        return np.stack([metric.score(*counts) for metric in metrics.values()], axis=1)

    limits = [metric.limits for metric in metrics.values()]
    estimates = dict(zip(metrics, bootstrap(table[true, guess], scores, limits), strict=True))
    return {**estimates, "accuracy": intervals.proportion(int(np.diag(table).sum()), int(table.sum()))}


@dataclass(frozen=True)
class MultilabelScore(Metrics):
    """The scores of a multi-label classifier on some rows."""

    names: tuple[str, ...]
    exact: Estimate  # scikit-learn's "subset accuracy"
    micro_f1: Estimate
    samples_f1: Estimate  # 0 for a row without true or predicted labels
    macro_f1: float
    loss: float  # the mean over all decisions of -log p(what is true), nats
    by_class: tuple[PrecisionRecall, ...]
    counts: NDArray[np.int64] = field(repr=False)  # of each row: correct, predicted and true labels
    correct: NDArray[np.bool_] = field(repr=False)  # of each row: whether all labels are

    reported: ClassVar = ("count", "exact", "micro_f1", "samples_f1", "macro_f1", "loss")
    titles: ClassVar = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "exact": "all labels right"}

    @property
    def count(self) -> int:
        return len(self.counts)

    def tables(self) -> Mapping[str, object]:
        """For JSON: the scores by label."""
        return {"classes": class_table(self.names, self.by_class)}


def multilabel_score(probabilities: Array, targets: Array, names: Sequence[str]) -> MultilabelScore:
    """The score of `probabilities`, (N, L), where `targets` are true or false, (N, L)."""
    require_probabilities(probabilities, (len(targets), len(names)))
    if targets.shape != probabilities.shape:
        raise InputError(f"labels of shape {targets.shape}: expected {probabilities.shape}, true or false for each.")
    true, predicted = np.asarray(targets, bool), probabilities > LABEL_THRESHOLD
    tables = (true & predicted, predicted, true)
    classes = by_class(*(table.sum(0) for table in tables))
    counts = np.stack([table.sum(1) for table in tables], axis=1)

    def scores(drawn: Array, distinct: Array) -> Array:
        return np.stack([f1(*(drawn @ distinct).T), drawn @ f1(*distinct.T) / len(counts)], axis=1)

    correct = (true == predicted).all(1)
    micro_f1, samples_f1 = bootstrap_rows(counts, scores)
    return MultilabelScore(
        names=tuple(names),
        exact=intervals.proportion(int(correct.sum()), len(correct)),
        micro_f1=micro_f1,
        samples_f1=samples_f1,
        macro_f1=macro(classes).f1,
        loss=float(log_losses(np.where(true, probabilities, 1 - probabilities)).mean()),
        by_class=classes,
        counts=counts,
        correct=correct,
    )

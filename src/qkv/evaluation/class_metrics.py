"""Metrics of classifiers, computed from counts: the list that `qkv compare --metric` takes. To add a metric, write its
function and its line of `METRICS`; `qkv evaluate` reports it as well.

A function takes the numbers of correct predictions, of predictions and of true examples of each class, (..., C) each,
and returns scores, (...). numpy is imported late, because the help of the command line lists the metrics.

    accuracy     the share of rows that are classified correctly; with one class a row it is also micro-F1
    macro-F1     the mean of the F1 of all classes, rare or frequent, with equal weights
    matthews     the correlation of true and predicted classes (Matthews 1975; several: Gorodkin 2004); CoLA's metric
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    CountScore = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class ClassMetric:
    """A metric, with its title in tables and its function of the counts."""

    title: str
    score: CountScore
    classes: int | None = None  # the number of classes that it needs; None: any
    limits: tuple[float, float] = (0.0, 1.0)  # its lowest and its highest value


def ratio(part: Array, whole: Array) -> Array:
    """`part / whole`, and 0 where `whole` is 0."""
    import numpy as np

    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)


def f1(correct: Array, predicted: Array, support: Array) -> Array:
    """The F1 of each class."""
    return ratio(2 * correct, predicted + support)


def accuracy(correct: Array, predicted: Array, support: Array) -> Array:
    return ratio(correct.sum(-1), support.sum(-1))


def binary_f1(correct: Array, predicted: Array, support: Array) -> Array:
    """The F1 of the second of two classes, the positive one (1 or yes)."""
    return f1(correct[..., 1], predicted[..., 1], support[..., 1])


def macro_f1(correct: Array, predicted: Array, support: Array) -> Array:
    return f1(correct, predicted, support).mean(-1)


def matthews(correct: Array, predicted: Array, support: Array) -> Array:
    """The correlation; 0 if all rows have the same true class, or the same predicted one."""
    import numpy as np

    correct, predicted, support = (np.asarray(counts, np.float64) for counts in (correct, predicted, support))
    rows = support.sum(-1)
    spread = (rows**2 - (predicted**2).sum(-1)) * (rows**2 - (support**2).sum(-1))
    return (correct.sum(-1) * rows - (predicted * support).sum(-1)) / np.sqrt(np.where(spread > 0, spread, np.inf))


METRICS = {
    "accuracy": ClassMetric("accuracy", accuracy),
    "f1": ClassMetric("F1", binary_f1, classes=2),
    "macro_f1": ClassMetric("macro-F1", macro_f1),
    "matthews": ClassMetric("Matthews", matthews, limits=(-1.0, 1.0)),
}

if TYPE_CHECKING:
    ComparedMetric = str
else:
    ComparedMetric = Literal[("auto", *METRICS)]

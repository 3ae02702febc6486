"""Metrics of classes, from counts: the list that `qkv compare --metric` takes. To add one, write its function and its
line of `METRICS`; `qkv evaluate` reports it as well.

A function gets, for each class, how often an answer was rightly the class, was the class, and should have been the
class: (..., C) each. It gives a score for each of the leading places. numpy is imported late: help names the metrics.

    accuracy     the share of rows that are right; for one class a row it is also micro-F1
    macro-F1     the mean of the classes' F1, rare ones counting as much as frequent ones
    matthews     the correlation of truth and answer (Matthews 1975, for several classes Gorodkin 2004); CoLA's metric
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
    """A metric: its title in tables, and its function of the counts."""

    title: str
    score: CountScore
    classes: int | None = None  # how many classes it is for
    limits: tuple[float, float] = (0.0, 1.0)  # its lowest and its highest value


def ratio(part: Array, whole: Array) -> Array:
    """0 where the whole is 0."""
    import numpy as np

    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)


def f1(correct: Array, predicted: Array, support: Array) -> Array:
    """The F1 of each class."""
    return ratio(2 * correct, predicted + support)


def accuracy(correct: Array, predicted: Array, support: Array) -> Array:
    return ratio(correct.sum(-1), support.sum(-1))


def f1_of_the_second(correct: Array, predicted: Array, support: Array) -> Array:
    """Of the second of two classes, which is called 1 or yes."""
    return f1(correct[..., 1], predicted[..., 1], support[..., 1])


def macro_f1(correct: Array, predicted: Array, support: Array) -> Array:
    return f1(correct, predicted, support).mean(-1)


def matthews(correct: Array, predicted: Array, support: Array) -> Array:
    """0 where there is one true class, or one answer, only."""
    import numpy as np

    correct, predicted, support = (np.asarray(counts, np.float64) for counts in (correct, predicted, support))
    rows = support.sum(-1)
    spread = (rows**2 - (predicted**2).sum(-1)) * (rows**2 - (support**2).sum(-1))
    return (correct.sum(-1) * rows - (predicted * support).sum(-1)) / np.sqrt(np.where(spread > 0, spread, np.inf))


METRICS = {
    "accuracy": ClassMetric("accuracy", accuracy),
    "f1": ClassMetric("F1", f1_of_the_second, classes=2),
    "macro_f1": ClassMetric("macro-F1", macro_f1),
    "matthews": ClassMetric("Matthews", matthews, limits=(-1.0, 1.0)),
}

if TYPE_CHECKING:
    ComparedMetric = str
else:
    ComparedMetric = Literal[("auto", *METRICS)]

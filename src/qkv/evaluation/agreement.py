"""Precision, recall and F1 from counts: how often a class was found, was there, and both (van Rijsbergen 1979).

    precision = both / found      recall = both / there      F1 = 2 both / (found + there)

Where nothing is divided by nothing the answer is 0, as scikit-learn's `zero_division=0` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Agreement:
    """Of one class, or a mean over several."""

    precision: float
    recall: float
    f1: float
    support: int  # how often it was there

    def values(self) -> dict[str, float | int]:
        return asdict(self)


def ratio(part: Array, whole: Array) -> Array:
    """0 where the whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)


def f1(both: Array, found: Array, there: Array) -> Array:
    return ratio(2 * both, found + there)


def by_class(both: Array, found: Array, there: Array) -> tuple[Agreement, ...]:
    columns = (ratio(both, found), ratio(both, there), f1(both, found, there), there)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(Agreement(precision, recall, score, int(support)) for precision, recall, score, support in rows)


def micro(both: Array, found: Array, there: Array) -> Agreement:
    """Every occurrence counts alike: of the sums over all classes."""
    return by_class(*(each.sum(keepdims=True) for each in (both, found, there)))[0]


def macro(classes: Sequence[Agreement]) -> Agreement:
    """Every class counts alike."""
    return _mean(classes, [1.0] * len(classes))


def weighted(classes: Sequence[Agreement]) -> Agreement:
    """Every class counts as often as it was there."""
    return _mean(classes, [float(each.support) for each in classes])


def _mean(classes: Sequence[Agreement], weights: list[float]) -> Agreement:
    total = sum(weights) or 1.0

    def mean(values: list[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total

    return Agreement(
        mean([each.precision for each in classes]),
        mean([each.recall for each in classes]),
        mean([each.f1 for each in classes]),
        sum(each.support for each in classes),
    )

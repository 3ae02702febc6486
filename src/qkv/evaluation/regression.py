"""Scores of a model that predicts numbers: y is the true one, p the prediction.

    squared error    mean of (y - p)²               absolute error   mean of |y - p|
    Pearson          cov(y, p) / (sd(y) sd(p))      Spearman         Pearson of the ranks; equal values share a rank
    R²               1 - sum of (y - p)² / sum of (y - mean y)²

Pearson and Spearman are STS-B's metrics. A constant has no correlation: None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.evaluation.intervals import CORRELATION, Array, Estimate, Metrics, bootstrap

RESOLUTION = 1e-6  # of float32, in which models compute: predictions that differ by less are equal
CONSTANT = 1e-13  # values with a smaller relative spread count as constant


@dataclass(frozen=True)
class NumberScore(Metrics):
    """The scores of a regression on some rows."""

    squared_error: Estimate
    absolute_error: Estimate
    pearson: Estimate
    spearman: Estimate
    r_squared: Estimate
    errors: NDArray[np.float64] = field(repr=False)  # p - y, row by row

    reported: ClassVar = ("count", "squared_error", "absolute_error", "pearson", "spearman", "r_squared")
    titles: ClassVar = {
        "pearson": "Pearson",
        "spearman": "Spearman",
        "r_squared": "R²",
        "absolute_error": "mean absolute error",
    }

    @property
    def count(self) -> int:
        return len(self.errors)

    def worst(self, limit: int) -> list[int]:
        """The rows with the largest errors, the largest first."""
        return np.argsort(-np.abs(self.errors), kind="stable")[:limit].tolist()


def number_score(predictions: Array, targets: Array) -> NumberScore:
    """Score predictions, one number for each row."""
    y, p = np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
    if y.ndim != 1 or y.shape != p.shape or not len(y):
        raise InputError(
            f"predictions of shape {p.shape}, targets of {y.shape}: expected one number for each row, at least one."
        )
    if not (np.isfinite(y).all() and np.isfinite(p).all()):
        raise InputError("a prediction or a target is not a finite number: a model that gives nan has diverged.")
    if np.ptp(p) <= RESOLUTION * np.abs(p).max():
        p = np.full_like(p, p.mean())  # a constant: the correlation with rounding errors would mean nothing
    ranks = [Ranks(numbers) for numbers in (y, p)]

    def scores(drawn: Array) -> Array:
        weights = drawn.astype(np.float64)
        squared, absolute = weights @ (p - y) ** 2, weights @ np.abs(p - y)
        columns = [
            squared / len(y),
            absolute / len(y),
            _correlation(weights, y, p),
            _correlation(weights, *(rank.among(weights) for rank in ranks)),
            1 - squared / _spread(weights, _centred(weights, y), y),
        ]
        return np.stack(columns, axis=1)

    with np.errstate(all="ignore"):  # a score that is nan becomes None
        # the largest error to expect of an unseen row: the largest one here or, if all are 0, the range of the targets
        max_error = float(np.abs(p - y).max() or np.ptp(y))
        explained = 1 - float(((p - y) ** 2).sum() / max(((y - y.mean()) ** 2).sum(), 1e-300))
        limits = [(0.0, max_error**2), (0.0, max_error), CORRELATION, CORRELATION, (min(0.0, explained), 1.0)]
        squared, absolute, pearson, spearman, r_squared = bootstrap(np.ones(len(y), np.int64), scores, limits)
    return NumberScore(squared, absolute, pearson, spearman, r_squared, errors=p - y)


# Below, `weights` says how often each row was drawn, (B, rows); values are (rows) or, where draws differ, (B, rows).


def _correlation(weights: Array, first: Array, second: Array) -> Array:
    one, other = _centred(weights, first), _centred(weights, second)
    together = np.einsum("bn,bn->b", weights * one, other)
    correlation = together / np.sqrt(_spread(weights, one, first)) / np.sqrt(_spread(weights, other, second))
    return np.clip(correlation, -1, 1)


def _centred(weights: Array, values: Array) -> Array:
    total = np.einsum("bn,bn->b", weights, np.broadcast_to(values, weights.shape))
    return values - (total / weights.sum(1))[:, None]


def _spread(weights: Array, centred: Array, values: Array) -> Array:
    """The sum of squares around the mean, (B); nan if all drawn values are equal."""
    squares = np.einsum("bn,bn->b", weights * centred, centred)
    return np.where(squares > weights.sum(1) * (CONSTANT * np.abs(values).max()) ** 2, squares, np.nan)


class Ranks:
    """The ranks of values; equal values share the mean of their ranks."""

    def __init__(self, values: Array) -> None:
        _, self.value_index, counts = np.unique(values, return_inverse=True, return_counts=True)
        self.order, self.last = np.argsort(values), np.cumsum(counts) - 1

    def among(self, weights: Array) -> Array:
        """The rank of each row among those that were drawn, (B, rows)."""
        up_to = np.cumsum(np.take(weights, self.order, axis=1), axis=1)
        up_to = np.take(up_to, self.last, axis=1)  # rows with each distinct value or a lower one
        below = np.pad(up_to[:, :-1], ((0, 0), (1, 0)))
        return np.take((below + up_to + 1) / 2, self.value_index, axis=1)

"""How far a score would move on other rows of the same kind: the bootstrap (Efron 1979), percentile intervals.

As many rows as there are get drawn with replacement, a thousand times, always with the same seed; 95 % of the scores
lie between `low` and `high`. Rows that are alike form one kind, so that a draw is how often each kind was drawn: a
hundred thousand decisions among ten classes are a hundred kinds at most.

`paired` draws the same rows for two systems (Koehn 2004): what both find hard or easy cancels out of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError

Array = NDArray[Any]  # of any number type

DRAWS = 1000
SEED = 20
INSIDE = (2.5, 97.5)  # percentiles
NUMBERS = 2**19  # held at once; few enough for a processor's cache
ALIKE = 16  # rows a kind, from which on it is quicker to draw kinds than rows


@dataclass(frozen=True)
class Estimate:
    """A score with its 95 % interval; None where the score is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def values(self, name: str) -> dict[str, float | None]:
        """For JSON: the score under its name, and both ends."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def json_values(scores: Mapping[str, object]) -> dict[str, object]:
    """Scores by name, and both ends of those with an interval."""
    numbers: dict[str, object] = {}
    for name, value in scores.items():
        numbers |= value.values(name) if isinstance(value, Estimate) else {name: value}
    return numbers


class Metrics:
    """What every score offers for JSON: the fields and properties that it names in `reported`. Those in `titles` are
    shown to people, under these titles."""

    reported: ClassVar[tuple[str, ...]]
    titles: ClassVar[Mapping[str, str]]

    def values(self) -> dict[str, object]:
        return json_values({name: getattr(self, name) for name in self.reported})


@dataclass(frozen=True)
class Difference:
    """The first system's score less the second's, on the same rows."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    below: float  # the share of draws in which the first is worse: near 0 or near 1 is no chance
    rows: int

    @property
    def noise(self) -> bool:
        """Whether other rows might turn the difference around: zero lies in the interval."""
        return self.low <= 0 <= self.high

    def values(self) -> dict[str, float | int | bool]:
        """For JSON."""
        return {**vars(self), "noise": self.noise}


def draws(counts: Array) -> Iterator[Array]:
    """How often each kind is drawn where there are `counts` rows of it, (B, kinds), until there are DRAWS draws."""
    random, rows = np.random.default_rng(SEED), int(counts.sum())
    kind = np.repeat(np.arange(len(counts)), counts)  # of each row
    by_kind = rows >= ALIKE * len(counts)
    together = max(1, NUMBERS // (len(counts) if by_kind else rows))
    for start in range(0, DRAWS, together):
        size = min(together, DRAWS - start)
        if by_kind:
            yield random.multinomial(rows, counts / rows, size)
        else:
            taken = kind[random.integers(0, rows, (size, rows))] + np.arange(size)[:, None] * len(counts)
            yield np.bincount(taken.ravel(), minlength=size * len(counts)).reshape(size, -1)


def bootstrap(counts: Array, statistic: Callable[[Array], Array]) -> tuple[Estimate, ...]:
    """Estimates of each score that `statistic` gives, (B, scores), for numbers of rows of each kind, (B, kinds).

    A score may be nan: such draws do not count. One row alone cannot tell how far another would move the score: its
    interval is unknown.
    """
    values = statistic(counts[None])[0]
    drawn = np.concatenate([statistic(counts_drawn) for counts_drawn in draws(counts)])
    if counts.sum() < 2:
        drawn = np.full(drawn.shape, np.nan)
    return tuple(_estimate(float(value), column) for value, column in zip(values, drawn.T, strict=True))


def bootstrap_rows(rows: Array, statistic: Callable[[Array, Array], Array]) -> tuple[Estimate, ...]:
    """The same where a row has several counts, and equal rows are of one kind: `statistic` takes how often each kind
    was drawn, (B, kinds), and the kinds, (kinds, K)."""
    kinds, often = np.unique(rows, axis=0, return_counts=True)
    return bootstrap(often, lambda drawn: statistic(drawn, kinds))


def all_alike(right: bool, rows: int) -> Estimate:
    """The share of right answers where all are right, or none is: the exact bound (Clopper and Pearson 1934).

    A bootstrap of equal rows never varies and would promise the same for every other row.
    """
    beyond = (1 - INSIDE[1] / 100) ** (1 / rows)
    return Estimate(1.0, beyond, 1.0) if right else Estimate(0.0, 0.0, 1 - beyond)


def _estimate(value: float, drawn: Array) -> Estimate:
    finite = drawn[np.isfinite(drawn)]
    if not math.isfinite(value):
        return Estimate(None)
    return Estimate(value, *(np.percentile(finite, INSIDE).tolist() if len(finite) else ()))


class KindGroups:
    """Kinds that belong together; `member` says to which of `size` groups a kind belongs."""

    def __init__(self, member: Array, size: int) -> None:
        self.size, self.order = size, np.argsort(member, kind="stable")
        self.names, self.starts = np.unique(member[self.order], return_index=True)

    def sums(self, counts: Array) -> Array:
        """Over the kinds of each group, (B, kinds) -> (B, size)."""
        sums = np.zeros((len(counts), self.size), counts.dtype)
        if len(self.names):
            sums[:, self.names] = np.add.reduceat(np.take(counts, self.order, axis=1), self.starts, axis=1)
        return sums


def mean(totals: Array, rows: int) -> Array:
    """The score of rows that have one each."""
    return totals[:, 0] / rows


def paired(first: Array, second: Array, score: Callable[[Array, int], Array] = mean) -> Difference:
    """Two systems on the same rows. `first` and `second` hold what each row gives: its score, or several counts.

    `score` makes scores (B,) of the rows' totals (B, K) and the number of rows; without it, a row's score is averaged.
    """
    if first.shape != second.shape or not len(first):
        raise InputError(f"rows of shape {first.shape} and {second.shape}: two systems are compared on the same rows.")
    tables = [np.asarray(rows, np.float64).reshape(len(rows), -1) for rows in (first, second)]
    width = tables[0].shape[1]
    kinds, counts = np.unique(np.hstack(tables), axis=0, return_counts=True)

    def scores(drawn: Array) -> Array:
        totals = drawn @ kinds
        return np.stack([score(totals[:, :width], len(first)), score(totals[:, width:], len(first))], axis=1)

    ours, theirs = scores(counts[None])[0].tolist()
    differences = np.concatenate([np.subtract(*scores(drawn).T) for drawn in draws(counts)])
    low, high = np.percentile(differences, INSIDE).tolist()
    below = float((differences < 0).mean())
    return Difference(ours, theirs, ours - theirs, low, high, below, len(first))

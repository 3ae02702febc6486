"""95 % intervals of scores: how much a score may differ on other rows of the same kind.

A proportion of rows has the interval of Wilson (1927) or, if it is 0 or 1, the exact bound of Clopper and Pearson
(1934). All other scores have percentile intervals from the bootstrap (Efron 1979): a thousand samples of as many rows
are drawn with replacement, always with the same seed. Equal rows form a group, and a sample is stored as the number of
rows drawn from each group: a hundred thousand predictions of ten classes form a hundred groups at most.

The bootstrap draws no rows unlike those that it has. If none of n rows is of a certain kind, up to u = 1 - 0.025^(1/n)
of the population may still be of that kind (the bound of Clopper and Pearson again). So every interval reaches at least
as far as if that proportion had the lowest, or the highest, possible score: from `value - u (value - lowest)` to
`value + u (highest - value)`. No interval has zero width.

`paired` draws the same rows for two systems (Koehn 2004): the difficulty of the rows cancels out of the difference. At
least six rows must differ, because no sign test on fewer is significant; and if each row is right or wrong, McNemar's
exact test must also find the difference significant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError

Array = NDArray[Any]  # of any number type
Limits = tuple[float, float]  # the lowest and the highest value of a score

PROPORTION: Limits = (0.0, 1.0)
CORRELATION: Limits = (-1.0, 1.0)

RESAMPLES = 1000
SEED = 20
PERCENTILES = (2.5, 97.5)  # the ends of a 95 % interval
Z_95 = 1.96  # standard deviations on each side of the mean that hold 95 % of a normal distribution
SIGNIFICANCE_LEVEL = 0.05
MIN_DIFFERING = 6  # rows: 2 · 0.5⁶ < 0.05 < 2 · 0.5⁵
MAX_EXACT = 1000  # rows that differ; with more, the exact test and the bootstrap agree
MAX_COUNTS = 2**19  # held at once; few enough for a processor's cache
MIN_GROUP_ROWS = 16  # mean rows of a group from which it is faster to draw groups than rows


@dataclass(frozen=True)
class Estimate:
    """A score with its 95 % interval; None where the score is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def values(self, name: str) -> dict[str, float | None]:
        """For JSON: the score under its name, and both ends of its interval."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def json_values(scores: Mapping[str, object]) -> dict[str, object]:
    """For JSON: scores by name, and both ends of their intervals."""
    numbers: dict[str, object] = {}
    for name, value in scores.items():
        numbers |= value.values(name) if isinstance(value, Estimate) else {name: value}
    return numbers


class Metrics:
    """The base of scores. The fields and properties named in `reported` are written to JSON; those in `titles` are
    shown to people, under these titles."""

    reported: ClassVar[tuple[str, ...]]
    titles: ClassVar[Mapping[str, str]]

    def values(self) -> dict[str, object]:
        return json_values({name: getattr(self, name) for name in self.reported})


Verdict = Literal["better", "worse", "not distinguishable", "equal"]


@dataclass(frozen=True)
class Difference:
    """The first system's score minus the second's, on the same rows."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    below: float  # the proportion of resamples in which the first score is lower
    rows: int
    differing: int  # rows on which the two systems differ

    @property
    def includes_zero(self) -> bool:
        """Whether the interval includes zero: on other rows the difference may have the other sign."""
        return self.low <= 0 <= self.high

    def verdict(self, *, lower_is_better: bool = False) -> Verdict:
        """How the first system compares with the second."""
        if self.includes_zero:
            return "not distinguishable" if self.differing else "equal"
        return "better" if (self.difference < 0) == lower_is_better else "worse"

    def values(self) -> dict[str, float | int | bool]:
        """For JSON."""
        return {**vars(self), "noise": self.includes_zero}


def resamples(counts: Array) -> Iterator[Array]:
    """Yield RESAMPLES bootstrap samples in tables, (B, G): how many rows each draws from groups of `counts` rows."""
    random, rows = np.random.default_rng(SEED), int(counts.sum())
    group = np.repeat(np.arange(len(counts)), counts)  # of each row
    by_group = rows >= MIN_GROUP_ROWS * len(counts)
    together = max(1, MAX_COUNTS // (len(counts) if by_group else rows))
    for start in range(0, RESAMPLES, together):
        size = min(together, RESAMPLES - start)
        if by_group:
            yield random.multinomial(rows, counts / rows, size)
        else:
            drawn = group[random.integers(0, rows, (size, rows))] + np.arange(size)[:, None] * len(counts)
            yield np.bincount(drawn.ravel(), minlength=size * len(counts)).reshape(size, -1)


def bootstrap(
    counts: Array, statistic: Callable[[Array], Array], limits: Sequence[Limits] | Limits = PROPORTION
) -> tuple[Estimate, ...]:
    """Estimates of the scores, (B, S), that `statistic` computes from the number of rows in each group, (B, G).

    Resamples with a score of nan are left out. The interval of a score on a single row is unknown. `limits` are those
    of each score, or of all.
    """
    values, rows = statistic(counts[None])[0], int(counts.sum())
    drawn = np.concatenate([statistic(counts_drawn) for counts_drawn in resamples(counts)])
    if rows < 2:
        drawn = np.full(drawn.shape, np.nan)
    limits_by_score = [limits] * len(values) if isinstance(limits[0], int | float) else limits
    return tuple(
        _estimate(float(value), column, score_limits, rows)  # type: ignore[arg-type]
        for value, column, score_limits in zip(values, drawn.T, limits_by_score, strict=True)
    )


def bootstrap_rows(
    rows: Array, statistic: Callable[[Array, Array], Array], limits: Sequence[Limits] | Limits = PROPORTION
) -> tuple[Estimate, ...]:
    """The same for rows of several counts, of which equal ones form a group: `statistic` takes the number of rows in
    each group, (B, G), and the distinct rows, (G, K)."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return bootstrap(counts, lambda drawn: statistic(drawn, distinct), limits)


def proportion(right: int, rows: int) -> Estimate:
    """The proportion of `rows` that are right, with Wilson's interval or, at 0 and 1, the exact bound."""
    if not rows:
        return Estimate(None)
    if right in (0, rows):
        return Estimate(1.0, 1 - max_unseen(rows), 1.0) if right else Estimate(0.0, 0.0, max_unseen(rows))
    value, spread = right / rows, Z_95**2 / rows
    half_width = math.sqrt(spread * (value * (1 - value) + spread / 4))
    return Estimate(value, *((value + spread / 2 + sign * half_width) / (1 + spread) for sign in (-1, 1)))


def max_unseen(rows: int) -> float:
    """The proportion of the population that may be of a kind that none of `rows` rows is of (Clopper and Pearson)."""
    return -math.expm1(math.log(1 - PERCENTILES[1] / 100) / rows)


def widened(estimate: Estimate, limits: Limits, rows: int) -> Estimate:
    """The estimate, its interval widened where rows of an unseen kind might move the score further."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    low = min(low, value, value - max_unseen(rows) * max(0.0, value - limits[0]))
    high = max(high, value, value + max_unseen(rows) * max(0.0, limits[1] - value))
    return Estimate(value, low, high) if low < high else Estimate(value)


def _estimate(value: float, drawn: Array, limits: Limits, rows: int) -> Estimate:
    finite = drawn[np.isfinite(drawn)]
    if not math.isfinite(value):
        return Estimate(None)
    return widened(Estimate(value, *(np.percentile(finite, PERCENTILES).tolist() if len(finite) else ())), limits, rows)


def interval_text(low: float | None, high: float | None, digits: int = 4, sign: str = "") -> str:
    """Both ends of an interval, with more than `digits` if that is needed to tell them apart; empty if unknown."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return " to ".join(f"{end:{sign}.{distinguishing_digits(low, high, digits)}f}" for end in (low, high))


def distinguishing_digits(low: float, high: float, digits: int) -> int:
    """The digits after the point: `digits`, or as many more as are needed to tell the two ends apart."""
    enough = (more for more in range(digits, digits + 12) if f"{low:.{more}f}" != f"{high:.{more}f}")
    return next(enough, digits + 12)


class GroupSums:
    """Sums of columns by group; `groups` has the number of each column's group, of which there are `size`."""

    def __init__(self, groups: Array, size: int) -> None:
        self.size, self.order = size, np.argsort(groups, kind="stable")
        self.present, self.starts = np.unique(groups[self.order], return_index=True)

    def sums(self, counts: Array) -> Array:
        """The sums over the columns of each group, (B, N) -> (B, size)."""
        sums = np.zeros((len(counts), self.size), counts.dtype)
        if len(self.present):
            sums[:, self.present] = np.add.reduceat(np.take(counts, self.order, axis=1), self.starts, axis=1)
        return sums


def mean(totals: Array, rows: int) -> Array:
    """The mean of the rows' scores."""
    return totals[:, 0] / rows


def ratio_of_totals(totals: Array, rows: int) -> Array:
    """The ratio of two totals, for rows that each hold a part and a whole."""
    return totals[:, 0] / np.maximum(1, totals[:, 1])


def paired(first: Array, second: Array, score: Callable[[Array, int], Array] = mean) -> Difference:
    """Compare two systems on the same rows. `first` and `second` hold the score of each row, or several counts of it.

    `score` computes scores (B,) from the totals of the rows (B, K) and their number; by default it is the mean.
    """
    if first.shape != second.shape or not len(first):
        raise InputError(f"rows of shape {first.shape} and {second.shape}: two systems are compared on the same rows.")
    tables = [np.asarray(rows, np.float64).reshape(len(rows), -1) for rows in (first, second)]
    width = tables[0].shape[1]
    distinct, counts = np.unique(np.hstack(tables), axis=0, return_counts=True)

    def scores(drawn: Array) -> Array:
        totals = drawn @ distinct
        return np.stack([score(totals[:, :width], len(first)), score(totals[:, width:], len(first))], axis=1)

    first_score, second_score = scores(counts[None])[0].tolist()
    differences = np.concatenate([np.subtract(*scores(drawn).T) for drawn in resamples(counts)])
    low, high = np.percentile(differences, PERCENTILES).tolist()
    differing = int(counts[(distinct[:, :width] != distinct[:, width:]).any(axis=1)].sum())
    if not _is_significant(distinct, counts, score, differing):
        low, high = min(low, 0.0), max(high, 0.0)
    below = float((differences < 0).mean())
    return Difference(first_score, second_score, first_score - second_score, low, high, below, len(first), differing)


def _is_significant(distinct: Array, counts: Array, score: Callable[[Array, int], Array], differing: int) -> bool:
    """Whether enough rows differ for a sign test to be significant; if each row is right or wrong, whether McNemar's
    exact test is."""
    if differing < MIN_DIFFERING:
        return False
    if score is not mean or distinct.shape[1] != 2 or differing > MAX_EXACT or not np.isin(distinct, (0, 1)).all():
        return True
    fewer = min(int(counts[distinct[:, 0] > distinct[:, 1]].sum()), int(counts[distinct[:, 0] < distinct[:, 1]].sum()))
    return 2 * sum(math.comb(differing, wins) for wins in range(fewer + 1)) < SIGNIFICANCE_LEVEL * 2**differing

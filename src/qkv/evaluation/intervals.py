"""How far a score would move on other rows of the same kind: 95 % intervals.

A share of rows has the interval of Wilson (1927) and, where all rows are alike, the exact bound of Clopper and Pearson
(1934). Every other score has the bootstrap (Efron 1979), percentile intervals: as many rows as there are get drawn with
replacement, a thousand times, always with the same seed. Rows that are alike form one kind, so that a draw is how often
each kind was drawn: a hundred thousand decisions among ten classes are a hundred kinds at most.

What no row shows, no draw shows. Of n rows none of which is of a certain kind, the population may still have a share of
up to u = 1 - 0.025^(1/n) of them (the bound of Clopper and Pearson again). So every interval reaches at least as far as
if such a share had the lowest, or the highest, score that there is: `value - u (value - lowest)` to
`value + u (highest - value)`. No interval has the width zero.

`paired` draws the same rows for two systems (Koehn 2004): what both find hard or easy cancels out of the difference.
Where rows are right or wrong, McNemar's exact test must agree that the difference is more than chance; elsewhere at
least six rows must differ, because the sign test finds nothing in fewer.
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

SHARE: Limits = (0.0, 1.0)
CORRELATION: Limits = (-1.0, 1.0)

DRAWS = 1000
SEED = 20
INSIDE = (2.5, 97.5)  # percentiles
DEVIATIONS = 1.96  # of a normal distribution, within which 95 % lie
SIGNIFICANT = 0.05
MIN_DIFFERING = 6  # rows: 2 · 0.5⁶ < 0.05 < 2 · 0.5⁵
MAX_EXACT = 1000  # rows that differ; with more, the exact test and the bootstrap agree
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


Verdict = Literal["better", "worse", "not distinguishable", "equal"]


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
    differing: int  # rows on which the two are not the same

    @property
    def noise(self) -> bool:
        """Whether other rows might turn the difference around: zero lies in the interval."""
        return self.low <= 0 <= self.high

    def verdict(self, *, lower_is_better: bool = False) -> Verdict:
        """How the first system compares with the second."""
        if self.noise:
            return "not distinguishable" if self.differing else "equal"
        return "better" if (self.difference < 0) == lower_is_better else "worse"

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


def bootstrap(
    counts: Array, statistic: Callable[[Array], Array], limits: Sequence[Limits] | Limits = SHARE
) -> tuple[Estimate, ...]:
    """Estimates of each score that `statistic` gives, (B, scores), for numbers of rows of each kind, (B, kinds).

    A score may be nan: such draws do not count. One row alone cannot tell how far another would move the score: its
    interval is unknown. `limits` are those of each score, or of all.
    """
    values, rows = statistic(counts[None])[0], int(counts.sum())
    drawn = np.concatenate([statistic(counts_drawn) for counts_drawn in draws(counts)])
    if rows < 2:
        drawn = np.full(drawn.shape, np.nan)
    each = [limits] * len(values) if isinstance(limits[0], int | float) else limits
    return tuple(
        _estimate(float(value), column, own, rows)  # type: ignore[arg-type]
        for value, column, own in zip(values, drawn.T, each, strict=True)
    )


def bootstrap_rows(
    rows: Array, statistic: Callable[[Array, Array], Array], limits: Sequence[Limits] | Limits = SHARE
) -> tuple[Estimate, ...]:
    """The same where a row has several counts, and equal rows are of one kind: `statistic` takes how often each kind
    was drawn, (B, kinds), and the kinds, (kinds, K)."""
    kinds, often = np.unique(rows, axis=0, return_counts=True)
    return bootstrap(often, lambda drawn: statistic(drawn, kinds), limits)


def share(right: int, rows: int) -> Estimate:
    """The share of `rows` that are right: Wilson's interval and, where all are right or none is, the exact bound."""
    if not rows:
        return Estimate(None)
    if right in (0, rows):
        return Estimate(1.0, 1 - unseen(rows), 1.0) if right else Estimate(0.0, 0.0, unseen(rows))
    value, spread = right / rows, DEVIATIONS**2 / rows
    reach = math.sqrt(spread * (value * (1 - value) + spread / 4))
    return Estimate(value, *((value + spread / 2 + way * reach) / (1 + spread) for way in (-1, 1)))


def unseen(rows: int) -> float:
    """The largest share of a population that may be of a kind of which `rows` rows hold none (Clopper and Pearson)."""
    return -math.expm1(math.log(1 - INSIDE[1] / 100) / rows)


def widened(estimate: Estimate, limits: Limits, rows: int) -> Estimate:
    """The estimate with an interval that reaches at least as far as unseen rows might move the score."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    low = min(low, value, value - unseen(rows) * max(0.0, value - limits[0]))
    high = max(high, value, value + unseen(rows) * max(0.0, limits[1] - value))
    return Estimate(value, low, high) if low < high else Estimate(value)


def _estimate(value: float, drawn: Array, limits: Limits, rows: int) -> Estimate:
    finite = drawn[np.isfinite(drawn)]
    if not math.isfinite(value):
        return Estimate(None)
    return widened(Estimate(value, *(np.percentile(finite, INSIDE).tolist() if len(finite) else ())), limits, rows)


def interval_text(low: float | None, high: float | None, digits: int = 4, sign: str = "") -> str:
    """Both ends of an interval, with as many more digits as tell them apart; empty where they are unknown."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return " to ".join(f"{end:{sign}.{telling_digits(low, high, digits)}f}" for end in (low, high))


def telling_digits(low: float, high: float, digits: int) -> int:
    """So many digits after the point, or as many more as tell the two ends apart."""
    enough = (more for more in range(digits, digits + 12) if f"{low:.{more}f}" != f"{high:.{more}f}")
    return next(enough, digits + 12)


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


def share_of_totals(totals: Array, rows: int) -> Array:
    """The score of rows that each hold a part and a whole."""
    return totals[:, 0] / np.maximum(1, totals[:, 1])


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
    unlike = counts[(kinds[:, :width] != kinds[:, width:]).any(axis=1)]
    if not _is_significant(kinds, counts, score, int(unlike.sum())):
        low, high = min(low, 0.0), max(high, 0.0)
    below = float((differences < 0).mean())
    return Difference(ours, theirs, ours - theirs, low, high, below, len(first), int(unlike.sum()))


def _is_significant(kinds: Array, counts: Array, score: Callable[[Array, int], Array], differing: int) -> bool:
    """Whether so many rows differ that the sign test may call it more than chance and, where each row of both systems
    is right or wrong, whether McNemar's exact test does."""
    if differing < MIN_DIFFERING:
        return False
    if score is not mean or kinds.shape[1] != 2 or differing > MAX_EXACT or not np.isin(kinds, (0, 1)).all():
        return True
    fewer = min(int(counts[kinds[:, 0] > kinds[:, 1]].sum()), int(counts[kinds[:, 0] < kinds[:, 1]].sum()))
    return 2 * sum(math.comb(differing, wins) for wins in range(fewer + 1)) < SIGNIFICANT * 2**differing

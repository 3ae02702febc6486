"""How good sequences of symbols are, as the phonemes of a word: the least number of changes to what they should be.

    error rate = Σ changes / Σ symbols of the reference        Levenshtein 1966; of phonemes it is called PER
    word error rate = outputs that are not exactly right / outputs        as those count who turn letters into phonemes

Symbols are parted by blanks. Where a source has several references the nearest one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv.evaluation import intervals
from qkv.evaluation.intervals import Array, ByLength, Difference, Estimate, Figure, binned


@dataclass(frozen=True)
class ErrorScore:
    symbols: Estimate
    words: Estimate
    count: int
    loss: float | None = None
    signatures: tuple[str, ...] = ()

    @property
    def worth(self) -> float:
        """From 0 to 1, higher is better; below 0 where more is wrong than should be said."""
        return 1.0 - (self.symbols.value or 0.0)

    def figures(self) -> list[Figure]:
        """As people read them."""
        rates = [("symbol error rate", self.symbols), ("word error rate", self.words)]
        return [*(Figure(name, rate, 4) for name, rate in rates), *Figure.of_loss(self.loss)]

    def values(self) -> dict[str, Any]:
        return {
            **self.symbols.values("symbol_error_rate"),
            **self.words.values("word_error_rate"),
            "words": self.count,
            **({} if self.loss is None else {"loss": self.loss}),
        }


def errors(said: Sequence[str], true: Sequence[str]) -> int:
    """The least number of changes, insertions and deletions from one sequence to the other."""
    row = list(range(len(true) + 1))
    for place, one in enumerate(said, 1):
        before, row[0] = row[0], place
        for column, other in enumerate(true, 1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (one != other))
    return row[-1]


def counts(said: Sequence[str], true: Sequence[Sequence[str]]) -> Array:
    """For each output: symbols that are wrong, symbols of the nearest reference, and whether it is wrong at all."""
    found = np.zeros((len(said), 3), dtype=np.int64)
    for row, (one, references) in enumerate(zip(said, true, strict=True)):
        distance, length = min((errors(one.split(), each.split()), len(each.split())) for each in references)
        found[row] = distance, length, distance > 0
    return found


def error_rates(said: Sequence[str], true: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Wrong symbols and wrong words, each beside the reference that is nearest."""
    wrong, symbols, words = counts(said, true).sum(0).tolist()
    return wrong / max(1, symbols), words / max(1, len(said))


def error_score(said: Sequence[str], true: Sequence[Sequence[str]], loss: float | None = None) -> ErrorScore:
    kinds, often = np.unique(counts(said, true), axis=0, return_counts=True)

    def rates(drawn: Array) -> Array:
        totals = drawn @ kinds
        return np.stack([totals[:, 0] / np.maximum(1, totals[:, 1]), totals[:, 2] / drawn.sum(1)], axis=1)

    symbols, words = intervals.bootstrap(often, rates)
    return ErrorScore(symbols, words, len(said), loss)


def by_length(said: Sequence[str], true: Sequence[Sequence[str]]) -> list[ByLength]:
    """The error rate of the outputs whose nearest reference has up to so many symbols."""
    table = counts(said, true)
    totals = [(most, rows, table[rows].sum(0)) for most, rows in binned(table[:, 1].tolist())]
    return [ByLength(most, len(rows), float(total[0] / max(1, total[1]))) for most, rows, total in totals]


def worst(said: Sequence[str], true: Sequence[Sequence[str]], most: int) -> list[tuple[int, float]]:
    """The outputs with the highest error rates, those that are right left out."""
    table = counts(said, true)
    rates = table[:, 0] / np.maximum(1, table[:, 1])
    order = np.argsort(-rates, kind="stable")[:most]
    return [(int(row), float(rates[row])) for row in order if rates[row] > 0]


@dataclass(frozen=True)
class PairedErrors:
    """The first system beside the second on the same sources; the interval is that of the difference."""

    rates: Difference

    def values(self) -> dict[str, Any]:
        return {"metric": "symbol_error_rate", **self.rates.values()}

    def __str__(self) -> str:
        found = self.rates
        verdict = "may be chance" if found.noise else "not by chance"
        between = f"difference {found.difference:+.4f}, from {found.low:+.4f} to {found.high:+.4f}"
        return (
            f"symbol error rate {found.first:.4f} against {found.second:.4f}; {between}: {verdict} (paired bootstrap)"
        )


def paired(first: Sequence[str], second: Sequence[str], true: Sequence[Sequence[str]]) -> PairedErrors:
    def rate(totals: Array, rows: int) -> Array:
        return totals[:, 0] / np.maximum(1, totals[:, 1])

    both = [counts(each, true)[:, :2] for each in (first, second)]
    return PairedErrors(intervals.paired(both[0], both[1], rate))

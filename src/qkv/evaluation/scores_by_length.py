"""Scores of translations as people read them: a figure with its interval, and by the length of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.evaluation.intervals import Estimate

BINS = (5, 10, 15, 20, 30, 40, 60)  # words or symbols of the reference: borders of the table


@dataclass(frozen=True)
class Figure:
    name: str
    estimate: Estimate
    digits: int

    @staticmethod
    def of_loss(loss: float | None) -> list[Figure]:
        return [] if loss is None else [Figure("loss (nats a piece)", Estimate(loss, None, None), 4)]

    @property
    def value(self) -> str:
        value = self.estimate.value
        return "undefined" if value is None else f"{value:.{self.digits}f}"

    @property
    def interval(self) -> str:
        low, high = self.estimate.low, self.estimate.high
        return "" if low is None or high is None else f"{low:.{self.digits}f} to {high:.{self.digits}f}"


@dataclass(frozen=True)
class ByLength:
    """The score of the outputs whose reference has up to so many words; None: as many as there are."""

    most: int | None
    count: int
    score: float


def binned(lengths: Sequence[int]) -> list[tuple[int | None, list[int]]]:
    """The rows of each bin that has any, shortest first."""
    found: list[tuple[int | None, list[int]]] = []
    low = -1
    for high in (*BINS, None):
        rows = [row for row, length in enumerate(lengths) if low < length and (high is None or length <= high)]
        low = low if high is None else high
        if rows:
            found.append((high, rows))
    return found

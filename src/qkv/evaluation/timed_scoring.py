"""Scoring within a time: rows are taken in an order of which every beginning is spread evenly over the whole, a portion
at a time; when the time is over, the score is that of the rows so far. How fast it goes is measured all the while, so
that a machine that becomes busy makes the sample smaller and not the scoring longer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from qkv.data.findings import Progress, no_progress
from qkv.data.split import even_order

PORTION = 1.0  # seconds, about: after each of them the time is looked at
ENOUGH = 0.25  # seconds that tell how fast rows are
MIN_SCORED, GRACE = 200, 3.0  # rows, and seconds: a few rows say little, so the first ones may take so much more time


@dataclass(frozen=True)
class Pace:
    """Until when rows may be scored, and who is told how far it is. The first portion is scored in any case."""

    ends_at: float = math.inf
    progress: Progress = no_progress
    stage: str = "scoring"
    now: Callable[[], float] = time.perf_counter

    @property
    def limited(self) -> bool:
        return math.isfinite(self.ends_at)

    def order(self, count: int) -> NDArray[np.int64]:
        """The rows as they are taken: in their own order where there is time for all."""
        return even_order(count) if self.limited else np.arange(count)

    def portions(self, count: int, first: int) -> Iterator[tuple[int, int]]:
        """From where to where in the order, again and again; `first` rows to begin with, then as many as fit."""
        done, size = 0, min(count, first) if self.limited else count
        began = self.now()
        while done < count:
            mark = self.now()
            yield done, done + size
            done += size
            now = self.now()
            a_row = max(1e-9, (now - mark) / size)
            fits = (self.ends_at - now) / a_row
            if done < MIN_SCORED:
                fits = max(fits, min(MIN_SCORED - done, (began + GRACE - now) / a_row))
            if fits < 1:
                return
            size = max(1, int(min(count - done, fits, max(first, PORTION / a_row))))

    def part(self, sides: int) -> Pace:
        """For the next of the sides that are still to be scored: its share of the time."""
        if not self.limited:
            return self
        now = self.now()
        return replace(self, ends_at=now + max(0.0, self.ends_at - now) / sides)

    def reached(self, done: int, count: int) -> None:
        self.progress(self.stage, done, count)

    def watch(self, before: int, count: int) -> Callable[[int], None]:
        """For a scoring that goes through a portion by itself, after `before` rows: to be told how many are done."""
        return lambda done: self.reached(before + done, count)


def timed(work: Callable[[int], object], max_rows: int, now: Callable[[], float] = time.perf_counter) -> float:
    """Seconds a row: `work` takes a number of rows, which grows until the time is long enough to measure."""
    rows = min(4, max_rows)
    while True:
        mark = now()
        work(rows)
        spent = now() - mark
        if spent > ENOUGH or rows >= max_rows:
            return spent / max(1, rows)
        rows = min(max_rows, 4 * rows)

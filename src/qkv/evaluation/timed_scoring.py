"""Scoring within a time limit. Rows are scored in portions, in an order whose first rows, however many, spread evenly
over all rows; when the time is over, the score is that of the rows so far. The speed is measured throughout, so that on
a machine that becomes busy the sample becomes smaller, and the scoring does not take longer.
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

PORTION_SECONDS = 1.0  # about; the time is checked after each portion
MIN_MEASURED_SECONDS = 0.25  # shorter times do not give the speed
MIN_SCORED, GRACE_SECONDS = 200, 3.0  # a few rows say little, so the first ones may take so much more time


@dataclass(frozen=True)
class Pace:
    """A time limit for scoring, and where progress is reported. The first portion is scored in any case."""

    ends_at: float = math.inf
    progress: Progress = no_progress
    stage: str = "scoring"
    now: Callable[[], float] = time.perf_counter

    @property
    def limited(self) -> bool:
        return math.isfinite(self.ends_at)

    def order(self, count: int) -> NDArray[np.int64]:
        """The order in which rows are scored: without a time limit, their own."""
        return even_order(count) if self.limited else np.arange(count)

    def portions(self, count: int, first: int) -> Iterator[tuple[int, int]]:
        """Yield the start and end of portions of the order: `first` rows, then as many as the time allows."""
        done, size = 0, min(count, first) if self.limited else count
        began = self.now()
        while done < count:
            started_at = self.now()
            yield done, done + size
            done += size
            now = self.now()
            row_seconds = max(1e-9, (now - started_at) / size)
            affordable = (self.ends_at - now) / row_seconds
            if done < MIN_SCORED:
                affordable = max(affordable, min(MIN_SCORED - done, (began + GRACE_SECONDS - now) / row_seconds))
            if affordable < 1:
                return
            size = max(1, int(min(count - done, affordable, max(first, PORTION_SECONDS / row_seconds))))

    def next_share(self, remaining: int) -> Pace:
        """The pace for the next of `remaining` parts to score: an equal share of the time left."""
        if not self.limited:
            return self
        now = self.now()
        return replace(self, ends_at=now + max(0.0, self.ends_at - now) / remaining)

    def report(self, done: int, count: int) -> None:
        self.progress(self.stage, done, count)

    def row_counter(self, before: int, count: int) -> Callable[[int], None]:
        """A function that reports the rows done in a portion, which comes after `before` of `count` rows."""
        return lambda done: self.report(before + done, count)


def seconds_per_row(
    work: Callable[[int], object], max_rows: int, now: Callable[[], float] = time.perf_counter
) -> float:
    """The seconds for a row: `work` takes a number of rows, which grows until the time is long enough to measure."""
    rows = min(4, max_rows)
    while True:
        started_at = now()
        work(rows)
        spent = now() - started_at
        if spent > MIN_MEASURED_SECONDS or rows >= max_rows:
            return spent / max(1, rows)
        rows = min(max_rows, 4 * rows)

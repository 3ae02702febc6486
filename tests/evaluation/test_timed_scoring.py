"""Scoring within a time: by a clock that the test moves, so many seconds a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qkv.cli.progress import FIRST_LINE_SECONDS, LINE_SECONDS, ProgressLines
from qkv.data.tokens import TokenStream
from qkv.evaluation.perplexity import score
from qkv.evaluation.timed_scoring import MIN_MEASURED_SECONDS, Pace, seconds_per_row
from tiny import CONFIGS, stream


class Watch:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def scored(pace: Pace, watch: Watch, count: int, a_row: Callable[[int], float]) -> list[int]:
    rows: list[int] = []
    order = pace.order(count)
    for first, last in pace.portions(count, 16):
        for row in order[first:last].tolist():
            watch.time += a_row(len(rows))
            rows.append(row)
    return rows


@pytest.mark.parametrize("a_row", [0.001, 0.01, 0.1, 0.5])
def test_it_is_over_in_time_whatever_a_row_takes(a_row: float) -> None:
    watch = Watch()
    rows = scored(Pace(10.0, now=watch), watch, 1000, lambda done: a_row)
    assert watch.time <= max(10.0, 16 * a_row) + 1e-6
    assert len(rows) == pytest.approx(min(1000, 10 / a_row), rel=0.2)
    gaps = np.diff(np.sort(rows), prepend=-1, append=1000)
    assert gaps.max() <= 3 * 1000 / len(rows) + 1  # a sample is spread evenly


def test_a_machine_that_becomes_busy_makes_the_sample_smaller() -> None:
    watch = Watch()
    rows = scored(Pace(10.0, now=watch), watch, 10_000, lambda done: 0.002 if done < 1000 else 0.02)
    assert watch.time <= 20.0  # at most one portion was begun at the old speed
    assert 1000 < len(rows) < 3000


@pytest.mark.parametrize(("a_row", "expected"), [(0.001, 200), (0.01, 200), (0.1, 30), (1.0, 16)])
def test_where_no_time_is_left_a_score_still_rests_on_some_hundred_rows(a_row: float, expected: int) -> None:
    watch = Watch()
    rows = scored(Pace(0.0, now=watch), watch, 1000, lambda done: a_row)
    assert len(rows) == pytest.approx(expected, abs=1)
    assert watch.time <= max(3.0, 16 * a_row) + 1e-6


def test_without_a_limit_all_rows_in_their_own_order() -> None:
    watch = Watch()
    assert scored(Pace(now=watch), watch, 50, lambda done: 9.0) == list(range(50))


def test_a_score_in_time_is_that_of_its_windows() -> None:
    """The first windows are scored in any case, and the score says which windows it is of."""
    text, model = TokenStream(stream(3_000), 6_000, 3_000, 1, 0), CONFIGS["modern"].build()
    part = score(model, text, window=16, rows=4, pace=Pace(1.0, now=Watch()))
    whole = score(model, text, window=16)
    assert (len(whole.windows), whole.tokens) == (188, 2999)
    assert len(part.windows) == 188  # the clock stands still: nothing takes any time
    assert part.loss == pytest.approx(whole.loss)
    watch = iter(range(1000))
    part = score(model, text, window=16, rows=4, pace=Pace(0.5, now=lambda: next(watch)))
    assert len(part.windows) == 8  # portions of four, until the grace for the first windows is over
    assert part.tokens == 128
    assert part.windows == tuple(sorted(part.windows))


def test_timing_takes_no_more_rows_than_it_needs() -> None:
    watch, asked = Watch(), list[int]()

    def work(rows: int) -> None:
        asked.append(rows)
        watch.time += 0.01 * rows

    assert seconds_per_row(work, 1000, watch) == pytest.approx(0.01)
    assert asked == [4, 16, 64]
    assert 0.01 * asked[-1] > MIN_MEASURED_SECONDS
    asked.clear()
    seconds_per_row(work, 10, watch)
    assert asked == [4, 10]


def test_lines_come_after_two_seconds_and_then_now_and_again() -> None:
    watch, lines = Watch(), list[str]()
    report = ProgressLines(lines.append, watch)
    for second in range(20):
        watch.time = float(second)
        report("scoring", second, 100)
    assert lines[0] == f"scoring: {FIRST_LINE_SECONDS:.0f} of 100"
    assert len(lines) == 1 + int((19 - FIRST_LINE_SECONDS) // LINE_SECONDS)
    lines.clear()
    quick = ProgressLines(lines.append, watch)
    watch.time += 1.0
    quick("scoring", 50, 100)
    watch.time += 9.0
    quick("scoring", 100, 100)  # over: nothing to wait for
    assert lines == []

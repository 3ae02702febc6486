"""The bootstrap: against scipy and the formula for shares, drawn both ways; what is noise and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from qkv.errors import InputError
from qkv.evaluation import intervals
from qkv.evaluation.classification_metrics import class_score
from qkv.evaluation.intervals import (
    PROPORTION,
    Estimate,
    GroupSums,
    bootstrap,
    interval_text,
    max_unseen,
    paired,
    proportion,
    resamples,
    widened,
)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(3)


def share(drawn: np.ndarray) -> np.ndarray:
    return drawn[:, 1:] / drawn.sum(1, keepdims=True)


@pytest.mark.parametrize("least", [1, 10**9])
def test_a_share_has_the_interval_of_the_normal_formula(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    """Groups drawn at once, and row by row; in the middle of twenty seeds, for the ends scatter too."""
    monkeypatch.setattr(intervals, "MIN_GROUP_ROWS", least)
    ends = []
    for seed in range(20):
        monkeypatch.setattr(intervals, "SEED", seed)
        (found,) = bootstrap(np.array([600, 1400]), share)
        assert found.value == 0.7
        ends.append((found.low, found.high))
    error = 1.96 * math.sqrt(0.7 * 0.3 / 2000)
    wilson = proportion(1400, 2000)
    assert (wilson.low, wilson.high) == pytest.approx((0.7 - error, 0.7 + error), abs=0.001)
    assert np.mean(ends, axis=0) == pytest.approx([0.7 - error, 0.7 + error], abs=0.001)


def test_as_scipy_has_it(random: np.random.Generator) -> None:
    values = random.exponential(size=300)
    (found,) = bootstrap(np.ones(300, np.int64), lambda drawn: (drawn @ values / 300)[:, None], (0.0, values.max()))
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=4000, rng=1).confidence_interval
    width = theirs.high - theirs.low
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(theirs.low, abs=0.1 * width)
    assert found.high == pytest.approx(theirs.high, abs=0.1 * width)


@pytest.mark.parametrize("counts", [[3, 0, 2, 1], [1000, 1, 0, 400], [1]])
def test_every_draw_has_as_many_rows(counts: list[int]) -> None:
    drawn = np.concatenate(list(resamples(np.array(counts))))
    assert drawn.shape == (intervals.RESAMPLES, len(counts))
    assert (drawn.sum(1) == sum(counts)).all()
    assert drawn.mean(0) == pytest.approx(counts, abs=0.2 * math.sqrt(sum(counts)))


def test_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bootstrap(np.array([3, 4]), share) == bootstrap(np.array([3, 4]), share)
    monkeypatch.setattr(intervals, "MAX_COUNTS", 64)
    assert len(np.concatenate(list(resamples(np.arange(10))))) == intervals.RESAMPLES


def test_what_is_not_defined_is_none() -> None:
    never = bootstrap(np.array([3, 4]), lambda drawn: np.full((len(drawn), 1), np.nan))[0]
    assert (never.value, never.low, never.high) == (None, None, None)
    assert never.values("x") == {"x": None, "x_low": None, "x_high": None}


@given(some.lists(some.tuples(some.integers(0, 4), some.integers(0, 9)), max_size=12))
def test_groups(kinds: list[tuple[int, int]]) -> None:
    members, counts = (np.array([kind[place] for kind in kinds], np.int64) for place in (0, 1))
    assert GroupSums(members, 5).sums(counts[None])[0].tolist() == np.bincount(members, counts, minlength=5).tolist()


def test_the_same_answers_do_not_differ(random: np.random.Generator) -> None:
    right = random.random(500) < 0.8
    found = paired(right, right)
    assert (found.difference, found.low, found.high, found.below) == (0, 0, 0, 0)
    assert found.includes_zero


def test_a_pair_is_compared_row_by_row(random: np.random.Generator) -> None:
    """Two percent better on the very same rows is no noise, though each interval alone is wider than that."""
    worse = random.random(2000) < 0.7
    better = worse.copy()
    better[np.flatnonzero(~worse)[:40]] = True
    found = paired(better, worse)
    assert found.difference == pytest.approx(0.02)
    assert found.first - found.second == found.difference
    assert not found.includes_zero
    assert found.below == 0
    assert paired(worse, better).below == 1
    assert found.high - found.low == pytest.approx(2 * 1.96 * math.sqrt(0.02 * 0.98 / 2000), rel=0.1)
    shuffled = paired(random.permutation(better), worse)
    assert shuffled.includes_zero
    assert set(shuffled.values()) >= {"difference", "low", "high", "below", "noise"}


def test_chance_is_called_noise(random: np.random.Generator) -> None:
    """Two systems that are equally good differ in about one comparison of twenty."""
    called = [not paired(random.random(200), random.random(200)).includes_zero for _ in range(60)]
    assert sum(called) <= 9


def test_a_score_of_totals(random: np.random.Generator) -> None:
    """Rows that are counts: parts and wholes, and the score is their ratio."""
    wholes = random.integers(1, 9, 400)
    first, second = (np.stack([random.binomial(wholes, p), wholes], 1) for p in (0.6, 0.4))
    found = paired(first, second, lambda totals, rows: totals[:, 0] / totals[:, 1])
    assert found.first == pytest.approx(first[:, 0].sum() / wholes.sum())
    assert found.difference == pytest.approx(0.2, abs=0.06)
    assert found.below == 0


def test_unlike_rows_are_refused() -> None:
    with pytest.raises(InputError, match="same rows"):
        paired(np.ones(3), np.ones(4))
    with pytest.raises(InputError, match="same rows"):
        paired(np.ones(0), np.ones(0))


@pytest.mark.parametrize(("right", "rows"), [(True, 1), (True, 30), (False, 1), (False, 200)])
def test_equal_answers_promise_no_certainty(right: bool, rows: int) -> None:
    """Clopper and Pearson, against the binomial distribution: at the bound, so many equal rows have 2.5 %."""
    found = proportion(rows if right else 0, rows)
    assert (found.value, found.high if right else found.low) == ((1.0, 1.0) if right else (0.0, 0.0))
    bound = found.low if right else 1 - (found.high or 0.0)
    assert bound is not None
    assert bound**rows == pytest.approx(0.025)
    probabilities = np.tile([0.9, 0.1] if right else [0.1, 0.9], (rows, 1))
    score = class_score(probabilities, np.zeros(rows, int), ["a", "b"])
    assert score.accuracy == found


def test_one_row_has_no_interval() -> None:
    (found,) = bootstrap(np.array([1]), lambda drawn: drawn * 0.5)
    assert (found.value, found.low, found.high) == (0.5, None, None)


@pytest.mark.parametrize(
    ("right", "rows", "low", "high"), [(5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662), (1, 10, 0.0179, 0.4042)]
)
def test_wilson(right: int, rows: int, low: float, high: float) -> None:
    """81 of 263 is Newcombe's (1998) example."""
    found = proportion(right, rows)
    assert (found.value, found.low, found.high) == pytest.approx((right / rows, low, high), abs=1e-4)
    assert proportion(0, 0) == Estimate(None)


@given(some.integers(2, 10**7), some.floats(0, 1), some.floats(0, 0.2))
def test_no_interval_is_narrower_than_what_unseen_rows_may_change(rows: int, value: float, reach: float) -> None:
    found = widened(Estimate(value, max(0.0, value - reach), min(1.0, value + reach)), PROPORTION, rows)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= value <= found.high <= 1
    assert found.low < found.high
    assert found.low <= value * (1 - max_unseen(rows)) + 1e-12
    ends = interval_text(found.low, found.high).split(" to ")
    assert ends[0] != ends[1]


def test_a_few_rows_decide_nothing() -> None:
    """Five rows that differ may be chance, even if all of them are won; a sixth makes it significant."""
    for won, noise in ((0, True), (2, True), (5, True), (6, False)):
        first, second = np.zeros(100), np.zeros(100)
        first[:won] = 1
        found = paired(first, second)
        assert (found.includes_zero, found.differing) == (noise, won)
        assert found.verdict() == ("equal" if not won else "not distinguishable" if noise else "better")
        assert paired(second, first).verdict(lower_is_better=True) == found.verdict()


@pytest.mark.parametrize(("won", "lost"), [(7, 1), (10, 3), (15, 5), (30, 15), (9, 9)])
def test_right_and_wrong_rows_are_compared_as_mcnemar_does(won: int, lost: int) -> None:
    first = np.repeat([1, 0, 1, 0], [won, lost, 50, 50])
    second = np.repeat([0, 1, 1, 0], [won, lost, 50, 50])
    found, p = paired(first, second), stats.binomtest(won, won + lost).pvalue
    assert found.includes_zero == (p >= 0.05)

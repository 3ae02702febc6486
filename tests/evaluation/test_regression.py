"""Scores of regressors equal scikit-learn's and scipy's; what is constant has no correlation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats
from sklearn import metrics

from qkv.errors import InputError
from qkv.evaluation.regression import Ranks, number_score

few = some.integers(-8, 8).map(lambda number: number / 4)  # many of them equal
many = some.integers(-(10**6), 10**6).map(lambda number: number / 1000)
pairs = some.one_of(some.lists(some.tuples(each, each), min_size=1, max_size=30) for each in (few, many))


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


@given(pairs)
def test_as_scikit_learn_and_scipy_have_it(rows: list[tuple[float, float]]) -> None:
    y, p = np.array(rows).T
    score = number_score(p, y)
    assert score.squared_error.value == pytest.approx(metrics.mean_squared_error(y, p))
    assert score.absolute_error.value == pytest.approx(metrics.mean_absolute_error(y, p))
    if np.ptp(y) and np.ptp(p):
        assert score.pearson.value == pytest.approx(stats.pearsonr(y, p).statistic, abs=1e-9)
        assert score.spearman.value == pytest.approx(stats.spearmanr(y, p).statistic, abs=1e-9)
    else:
        assert score.pearson.value is score.spearman.value is None
    if np.ptp(y):
        assert score.r_squared.value == pytest.approx(metrics.r2_score(y, p))
    else:
        assert score.r_squared.value is None
    json.dumps(score.values(), allow_nan=False)


@given(some.lists(few, min_size=1, max_size=12), some.data())
def test_ranks_of_a_draw_are_those_of_its_rows(values: list[float], data: some.DataObject) -> None:
    times = data.draw(some.lists(some.integers(0, 3), min_size=len(values), max_size=len(values)))
    drawn = np.repeat(values, times)
    found = Ranks(np.array(values)).among(np.array([times], np.float64))[0]
    assert np.repeat(found, times).tolist() == stats.rankdata(drawn).tolist()


@pytest.mark.parametrize("name", ["squared_error", "absolute_error", "pearson", "spearman", "r_squared"])
def test_intervals_as_scipy_has_them(name: str, random: np.random.Generator) -> None:
    y = random.normal(size=150).round(1)
    p = (y + random.normal(size=150)).round(1)
    measures = {
        "squared_error": metrics.mean_squared_error,
        "absolute_error": metrics.mean_absolute_error,
        "pearson": lambda y, p: stats.pearsonr(y, p).statistic,
        "spearman": lambda y, p: stats.spearmanr(y, p).statistic,
        "r_squared": metrics.r2_score,
    }
    theirs = stats.bootstrap(
        (y, p), measures[name], paired=True, vectorized=False, n_resamples=1000, method="percentile", rng=2
    ).confidence_interval
    ours = getattr(number_score(p, y), name)
    width = theirs.high - theirs.low
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.15 * width)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e30, -3.7e-12])
def test_constant_answers(value: float, random: np.random.Generator) -> None:
    y = random.normal(size=50)
    found = number_score(np.full(50, value), y)
    assert (found.pearson.value, found.pearson.low, found.spearman.value) == (None, None, None)
    assert found.r_squared.value is not None
    assert number_score(y, np.full(50, value)).r_squared.value is None


def test_two_rows() -> None:
    """Draws that took one row twice have no correlation and do not count."""
    found = number_score(np.array([1.0, 2.0]), np.array([5.0, 7.0]))
    assert (found.pearson.value, found.pearson.high) == pytest.approx((1, 1))
    assert found.pearson.low is not None
    assert found.pearson.low < 0


def test_the_furthest_off_come_first() -> None:
    found = number_score(np.array([1.0, 5.0, 2.0]), np.array([1.0, 1.0, 4.0]))
    assert found.worst(2) == [1, 2]
    assert found.errors.tolist() == [0, 4, -2]


@pytest.mark.parametrize(
    ("p", "y", "said"),
    [
        (np.ones(0), np.ones(0), "one number for each row"),
        (np.ones(3), np.ones(2), "one number for each row"),
        (np.ones((2, 1)), np.ones(2), "one number for each row"),
        (np.array([np.nan]), np.ones(1), "diverged"),
    ],
)
def test_what_cannot_be_scored_is_refused(p: np.ndarray, y: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        number_score(p, y)

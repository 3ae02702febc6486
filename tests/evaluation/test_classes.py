"""Scores of classifiers equal scikit-learn's: one class a row, and several labels a row."""

from __future__ import annotations

import json
import math
import time
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays
from sklearn import metrics

from qkv.errors import InputError
from qkv.evaluation import classification_metrics
from qkv.evaluation.classification_metrics import (
    BINS,
    calibration,
    class_score,
    confusion,
    expected_calibration_error,
    multilabel_score,
)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(4)


@some.composite
def answers(draw: some.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Probabilities, targets, classes; some classes never occur."""
    classes, rows = draw(some.integers(1, 6)), draw(some.integers(1, 30))
    weights = draw(arrays.arrays(np.float64, (rows, classes), elements=some.integers(1, 20)))
    targets = draw(arrays.arrays(np.int64, rows, elements=some.integers(0, draw(some.integers(0, classes - 1)))))
    return weights / weights.sum(1, keepdims=True), targets, classes


def names(classes: int) -> list[str]:
    return [f"class {number}" for number in range(classes)]


def ends(low: float | None, high: float | None) -> tuple[float, float]:
    assert low is not None
    assert high is not None
    return low, high


@given(answers())
def test_as_scikit_learn_has_it(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    probabilities, targets, classes = case
    score = class_score(probabilities, targets, names(classes))
    predictions, labels = probabilities.argmax(1), list(range(classes))
    assert score.predictions.tolist() == predictions.tolist()
    assert score.accuracy.value == pytest.approx(metrics.accuracy_score(targets, predictions))
    theirs: dict[str, Any] = {"labels": labels, "zero_division": 0}
    for ours, average in ((score.macro_f1.value, "macro"), (score.weighted_f1, "weighted"), (score.micro_f1, "micro")):
        assert ours == pytest.approx(metrics.f1_score(targets, predictions, average=average, **theirs))
    columns = metrics.precision_recall_fscore_support(targets, predictions, **theirs)
    for each, *row in zip(score.by_class, *columns, strict=True):
        assert [each.precision, each.recall, each.f1, each.support] == pytest.approx(row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn doubts a single class
        assert score.confusion.tolist() == metrics.confusion_matrix(targets, predictions, labels=labels).tolist()
        assert score.matthews.value == pytest.approx(metrics.matthews_corrcoef(targets, predictions), abs=1e-9)
    if classes > 1:
        assert score.loss == pytest.approx(metrics.log_loss(targets, probabilities, labels=labels))
    assert score.accuracy.value is not None
    low, high = ends(score.accuracy.low, score.accuracy.high)
    assert 0 <= low <= high <= 1
    json.dumps(score.values() | score.tables(), allow_nan=False)


def test_a_table_by_hand() -> None:
    assert confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), 3).tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]


@given(answers())
def test_calibration_by_the_formula(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    probabilities, targets, _ = case
    sure, right = probabilities.max(1), probabilities.argmax(1) == targets
    wanted = 0.0
    for number in range(BINS):
        inside = (sure > np.linspace(0, 1, BINS + 1)[number]) & (sure <= np.linspace(0, 1, BINS + 1)[number + 1])
        if inside.any():
            wanted += inside.mean() * abs(right[inside].mean() - sure[inside].mean())
    table = calibration(sure, right)
    assert expected_calibration_error(table) == pytest.approx(wanted)
    assert sum(each.count for each in table) == len(sure)


def test_calibration_by_hand() -> None:
    """Nine of ten right at 0.9 is honest; half right at 0.9 is not."""
    sure = np.full(10, 0.9)
    assert expected_calibration_error(calibration(sure, np.arange(10) < 9)) == pytest.approx(0)
    assert expected_calibration_error(calibration(sure, np.arange(10) < 5)) == pytest.approx(0.4)
    assert calibration(np.array([0.0, 1.0]), np.array([False, True]))[-1].count == 1


def test_the_surest_errors_come_first() -> None:
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4], [0.0, 1.0]])
    score = class_score(probabilities, np.array([0, 0, 0, 1, 0]), ["no", "yes"])
    assert score.worst(3) == [4, 1, 2]
    assert score.worst(9) == [4, 1, 2, 3]
    assert score.confused(5) == [("no", "yes", 3), ("yes", "no", 1)]
    assert score.correct.tolist() == [True, False, False, False, False]


def test_a_probability_of_zero_is_no_infinite_loss() -> None:
    score = class_score(np.array([[1.0, 0.0]], np.float32), np.array([1]), ["a", "b"])
    assert score.loss == pytest.approx(87.3, abs=0.1)
    assert (score.accuracy.value, score.matthews.value) == (0, 0)


def test_intervals_are_right_and_quick(random: np.random.Generator) -> None:
    probabilities = random.dirichlet(np.ones(20), 100_000).astype(np.float32)
    targets = np.where(random.random(100_000) < 0.8, probabilities.argmax(1), random.integers(0, 20, 100_000))
    began = time.process_time()
    score = class_score(probabilities, targets, names(20))
    assert time.process_time() - began < 3
    error = 1.96 * math.sqrt(0.81 * 0.19 / 100_000)
    low, high = ends(score.accuracy.low, score.accuracy.high)
    assert (high - low) / 2 == pytest.approx(error, rel=0.1)
    low, high = ends(score.macro_f1.low, score.macro_f1.high)
    assert score.macro_f1.value is not None
    assert low < score.macro_f1.value < high
    assert (high - low) / 2 == pytest.approx(error, rel=0.2)


def test_macro_f1_of_draws_is_that_of_drawn_rows(random: np.random.Generator) -> None:
    """Drawing cells of the table scatters as drawing rows does."""
    probabilities = random.dirichlet(np.ones(3), 200)
    targets = np.where(random.random(200) < 0.6, probabilities.argmax(1), 0)
    score = class_score(probabilities, targets, names(3))
    drawn = [random.integers(0, 200, 200) for _ in range(1000)]
    found = [confusion(targets[rows], score.predictions[rows], 3) for rows in drawn]
    values = [float(classification_metrics.f1(np.diag(each), each.sum(0), each.sum(1)).mean()) for each in found]
    wanted = np.percentile(values, [2.5, 97.5]).tolist()
    assert [score.macro_f1.low, score.macro_f1.high] == pytest.approx(wanted, abs=0.02)


@pytest.mark.parametrize(
    ("probabilities", "targets", "said"),
    [
        (np.ones((0, 2)), np.ones(0, np.int64), "one or more rows"),
        (np.full((2, 3), 0.5), np.array([0, 1]), "a column per class"),
        (np.full((2, 2), np.nan), np.array([0, 1]), "diverged"),
        (np.full((2, 2), -3.0), np.array([0, 1]), "softmax"),
        (np.full((2, 2), 0.5), np.array([0, 2]), "expected 0 to 1"),
        (np.full((2, 2), 0.5), np.array([-1, 0]), "expected 0 to 1"),
    ],
)
def test_what_cannot_be_scored_is_refused(probabilities: np.ndarray, targets: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        class_score(probabilities, targets, ["a", "b"])


tables = some.tuples(some.integers(1, 25), some.integers(2, 5)).flatmap(
    lambda shape: some.tuples(
        arrays.arrays(np.float64, shape, elements=some.floats(0.01, 0.99)), arrays.arrays(np.bool_, shape)
    )
)


@given(tables)
def test_several_labels_as_scikit_learn_has_them(case: tuple[np.ndarray, np.ndarray]) -> None:
    probabilities, targets = case
    score = multilabel_score(probabilities, targets, names(targets.shape[1]))
    predictions = probabilities > 0.5
    assert score.exact.value == pytest.approx(metrics.accuracy_score(targets, predictions))
    assert score.correct.mean() == pytest.approx(score.exact.value)
    for ours, average in (
        (score.micro_f1.value, "micro"),
        (score.samples_f1.value, "samples"),
        (score.macro_f1, "macro"),
    ):
        assert ours == pytest.approx(metrics.f1_score(targets, predictions, average=average, zero_division=0))
    columns = metrics.precision_recall_fscore_support(targets, predictions, zero_division=0)
    for each, *row in zip(score.by_class, *columns, strict=True):
        assert [each.precision, each.recall, each.f1, each.support] == pytest.approx(row)
    losses = [
        metrics.log_loss(truth, p, labels=[False, True]) for truth, p in zip(targets.T, probabilities.T, strict=True)
    ]
    assert score.loss == pytest.approx(np.mean(losses))
    json.dumps(score.values() | score.tables(), allow_nan=False)


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match="true or false"):
        multilabel_score(np.full((2, 2), 0.5), np.array([0, 1]), ["a", "b"])

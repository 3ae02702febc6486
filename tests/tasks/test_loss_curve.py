"""The picture of a run: what it keeps does not grow with the run, and short runs are kept whole."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from qkv.tasks.report import MAX_POINTS, LossCurve, ThinnedPoints


@pytest.mark.parametrize(
    "number", [0, 1, 2, MAX_POINTS, MAX_POINTS + 1, MAX_POINTS + 2, 2 * MAX_POINTS, 2 * MAX_POINTS + 1, 100_003]
)
def test_points_are_thinned_evenly(number: int) -> None:
    made = ThinnedPoints()
    for step in range(1, number + 1):
        made.add((step, 0.5))
        assert len(made.kept) <= MAX_POINTS
        assert made.points()[-1] == (step, 0.5)
    steps = [step for step, _ in made.points()]
    assert steps == sorted(set(steps))
    if number <= MAX_POINTS:
        assert steps == list(range(1, number + 1))
    else:
        assert {after[0] - one[0] for one, after in pairwise(made.kept)} == {made.distance}
        assert len(steps) >= MAX_POINTS // 2


def test_losses_are_smoothed_as_they_come() -> None:
    made = LossCurve()
    losses = [3.0, 1.0, 2.0, 5.0]
    for step, loss in enumerate(losses, 1):
        made.add({"step": step, "loss": loss})
    for step, (_, smoothed) in enumerate(made.training.points(), 1):
        weights = [0.9 ** (step - 1 - index) for index in range(step)]
        expected = sum(w * loss for w, loss in zip(weights, losses, strict=False)) / sum(weights)
        assert smoothed == pytest.approx(expected)


def test_a_long_run_draws_as_a_short_one() -> None:
    made = LossCurve()
    for step in range(1, 20_001):
        made.add({"step": step, "loss": 2 + math.exp(-step / 4000)})
        if step % 1000 == 0:
            made.add({"step": step, "validation_loss": 3.0})
    made.add({"step": 20_001, "loss": None})
    picture = made.draw(76, 12)
    assert len(picture.splitlines()) == 12
    assert max(len(line) for line in picture.splitlines()) <= 76
    assert "20000" in picture
    assert len(made.validation.points()) == 20


def test_nothing_yet_is_no_reason_to_fail() -> None:
    assert LossCurve().draw(40, 8)

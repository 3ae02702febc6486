"""Histories: bounded, the same however they are read, noise told apart from change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qkv.training.history import MAX_BINS, MAX_GROUPS, History, Losses, Stage, compare, sampling_error


def steps(losses: list[float], first: int = 1) -> list[dict[str, object]]:
    return [{"step": number, "loss": loss, "gradient_norm": 1.0} for number, loss in enumerate(losses, first)]


def check(step: int, parts: list[float]) -> dict[str, object]:
    return {"step": step, "validation_loss": float(np.mean(parts)), "validation_parts": parts}


def test_stages_hold_the_steps_before_them() -> None:
    lines = [*steps([4.0, 3.0]), check(2, [3.5, 3.7]), *steps([2.0, 1.0], 3), check(4, [3.0, 3.0])]
    history = History.of(lines)
    assert [(stage.step, stage.training.mean, stage.validation) for stage in history.stages] == [
        (2, 3.5, pytest.approx(3.6)),
        (4, 1.5, 3.0),
    ]
    assert history.best is history.stages[1]
    assert history.first_loss == 4.0
    assert history.steps == 4
    assert history.not_finite_at is None


def test_a_loss_that_is_no_number_is_remembered() -> None:
    assert History.of([*steps([4.0, 3.0]), {"step": 3, "loss": None}]).not_finite_at == 3


def test_a_long_run_takes_no_more_room() -> None:
    history = History.of(steps([5.0 / (1 + number) for number in range(5_000)]))
    assert len(history.bins) <= MAX_BINS
    assert history.all_losses.count == sum(each.count for each in history.bins) == 5_000
    assert history.training_losses(0.0, 1.0).mean == pytest.approx(history.all_losses.mean)
    assert history.training_losses(0.85, 1.0).mean < history.training_losses(0.4, 0.6).mean


def test_noise_is_measured_beside_a_trend() -> None:
    random = np.random.default_rng(0)
    made = Losses()
    before = None
    for number in range(4_000):
        loss = 5 - number / 1_000 + 0.2 * random.standard_normal()
        made.add(loss, before)
        before = loss
    assert made.noise == pytest.approx(0.2, rel=0.05)
    assert made.error == pytest.approx(0.2 / math.sqrt(4_000), rel=0.05)


def test_two_evaluations_are_compared_part_by_part() -> None:
    """Parts differ widely among each other, hardly in how they change: the change is certain."""
    parts = np.linspace(1, 5, 16)
    one = Stage(1, Losses(), float(parts.mean()), tuple(parts))
    other = Stage(2, Losses(), float(parts.mean()) + 0.1, tuple(parts + 0.1 + 0.01 * np.cos(np.arange(16))))
    found = compare(one, other)
    assert found.mean == pytest.approx(0.1)
    assert found.error < 0.01
    assert found.is_above(0.05)
    assert not found.is_above(0.2)
    assert sampling_error(one) > 0.2
    assert math.isinf(compare(Stage(1, Losses(), 1.0, (1.0,)), Stage(2, Losses(), 2.0, (2.0,))).error)


def test_many_evaluations_are_taken_together() -> None:
    history = History()
    for number in range(1, 1_000):
        history.add({"step": number, "loss": 2.0})
        history.add(check(number, [2.0, 4.0]))
    groups = history.groups()
    assert len(groups) <= MAX_GROUPS + 1
    assert sum(group.training.count for group in groups) == 999
    assert groups[-1].step == 999
    assert groups[-1].parts == (2.0, 4.0)
    assert [stage.step for stage in History.of([*steps([1.0]), check(1, [1.0])]).groups()] == [1]
    assert History().groups() == []


def test_a_rise_is_found_and_noise_is_none() -> None:
    random = np.random.default_rng(1)
    calm = (3 + 0.3 * random.standard_normal(400)).tolist()
    assert History.of(steps(calm)).rise.height == 0
    jump = [*np.linspace(4, 2, 100), *[3.5] * 10, *np.linspace(3.5, 2, 60)]
    rise = History.of(steps(jump)).rise
    assert rise.top == pytest.approx(3.5)
    assert 2.0 <= rise.start < 2.3
    assert 95 <= rise.since <= 105

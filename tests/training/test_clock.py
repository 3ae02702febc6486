"""The clock moves the end of a run; the schedule bends and never jumps; the recipe alone gives the run again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from qkv.training.clock import Clock, ProcessorShare
from qkv.training.run import Run, StepsChanged
from qkv.training.settings import TrainingConfig, fraction_done
from tiny import TRAINING, state, task


class Watch:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def drive(clock: Clock, watch: Watch, end: int, cost: Iterator[float], every: int = 10) -> int:
    """Take steps of the given seconds until the end, as a run does; gives how many there were."""
    step = 0
    while step < end:
        watch.time += next(cost)
        step += 1
        clock.step_done()
        end = clock.total_steps(step, end, every, may_grow=False)
        if step % every == 0 and step < end:
            watch.time += 0.5
            clock.evaluation_done()
            end = clock.total_steps(step, end, every, may_grow=True)
    return step


def constant(seconds: float) -> Iterator[float]:
    while True:
        yield seconds


@pytest.mark.parametrize("when", [0, 11, 45])
@pytest.mark.parametrize("long", [10.0, 30.0])
def test_one_long_step_costs_no_more_than_itself(when: int, long: float) -> None:
    watch = Watch()
    clock = Clock(100.0, closing=4.0, longest=1000, now=watch)
    steps = drive(clock, watch, 170, (long if number == when else 0.5 for number in itertools.count()))
    assert 85 <= watch.time <= 96.5
    assert steps == pytest.approx((95 - long) / 0.55, rel=0.1)


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 5.0])
def test_over_in_time_whatever_a_step_takes(seconds: float) -> None:
    watch = Watch()
    clock = Clock(100.0, closing=4.0, longest=1000, now=watch)
    steps = drive(clock, watch, 90, constant(seconds))
    assert watch.time <= 96.5
    assert watch.time >= 85
    assert steps == pytest.approx(95 / (seconds + 0.05), rel=0.1)


def test_a_machine_that_becomes_busy_shortens_the_run() -> None:
    watch = Watch()
    clock = Clock(100.0, closing=4.0, longest=1000, now=watch)
    cost = iter([1.0] * 40 + [3.0] * 1000)
    steps = drive(clock, watch, 90, cost)
    assert steps < 65
    assert watch.time <= 100


def test_a_slow_minute_of_an_hour_costs_no_more_than_itself() -> None:
    watch = Watch()
    clock = Clock(3600.0, closing=4.0, longest=10_000, now=watch)
    seen: list[int] = []
    slow = range(1000, 1040)  # two and a half minutes of them, at an eighth of the speed
    cost = (4.0 if number in slow else 0.5 for number in itertools.count())
    step, end = 0, 7000
    while step < end:
        watch.time += next(cost)
        step += 1
        clock.step_done()
        end = clock.total_steps(step, end, 700, may_grow=False)
        seen.append(end)
    assert min(seen) > 6500
    assert 3500 < watch.time <= 3600 * 1.015  # smaller moves of the end are not made


def test_never_longer_than_is_worth_while() -> None:
    watch = Watch()
    clock = Clock(1000.0, closing=4.0, longest=120, now=watch)
    assert drive(clock, watch, 90, constant(0.1)) <= 120


def test_nothing_moves_while_all_goes_as_planned() -> None:
    watch = Watch()
    clock = Clock(100.0, closing=4.0, longest=1000, now=watch)
    assert drive(clock, watch, 91, constant(1.0)) == 91


@given(
    steps=st.integers(20, 500),
    at=st.integers(1, 500),
    moved=st.integers(1, 1000),
    schedule=st.sampled_from(["linear", "cosine", "constant-decay"]),
)
def test_the_rate_bends_and_ends_where_it_should(steps: int, at: int, moved: int, schedule: str) -> None:
    at = min(at, steps - 1)
    moved = max(moved, at + 1, 4)  # beyond the warm-up
    changes = ((at, moved),)

    def rate(step: int, *, bent: bool) -> float:
        moved = changes if bent else ()
        config = replace(TRAINING, steps=steps, schedule=schedule, warmup=3, decay=0.5, steps_changes=moved)
        return config.rate_share(step)

    assert all(rate(step, bent=True) == rate(step, bent=False) for step in range(at))
    assert rate(at, bent=True) == pytest.approx(rate(at, bent=False))  # no jump
    assert fraction_done(moved, steps, 0, changes) == pytest.approx(1.0)
    assert rate(moved, bent=True) == pytest.approx(0.03)
    after = [rate(step, bent=True) for step in range(max(at, 3), moved + 1)]
    assert after == sorted(after, reverse=True)


def test_the_recipe_alone_gives_the_same_run_again(tmp_path: Path) -> None:
    """A run whose end was moved twice, and one that is told so from the start, are the same in every number."""
    plans: list[TrainingConfig] = []
    ends = iter([*[30] * 8, *[21] * 6, *[25] * 100])

    class Moody(Clock):
        def total_steps(self, step: int, planned: int, every: int, *, may_grow: bool) -> int:
            return next(ends)

    config = replace(TRAINING, steps=30, evaluate_every=5, checkpoint_every=5)
    made = run(tmp_path / "first", config, plans, Moody(0.0, closing=0.0, longest=100))
    assert [event.after for event in made if isinstance(event, StepsChanged)] == [21, 25]
    assert plans[-1].length == 25
    run(tmp_path / "second", plans[-1], [], None)
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("first", "second")]
    assert metrics[0] == metrics[1]
    assert metrics[0].count(b'"loss"') == 25


def run(folder: Path, config: TrainingConfig, plans: list[TrainingConfig], clock: Clock | None) -> list[object]:
    folder.mkdir()

    def scores(model: nn.Module) -> dict[str, float]:
        return {"loss": float(sum(p.detach().abs().sum() for p in model.parameters()))}

    made = Run(folder, config, scores, lambda model, step: None, plans.append, clock)
    return list(made.events(state("modern", config), task()))


def test_turns_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="in order"):
        replace(TRAINING, steps=10, steps_changes=((5, 4),))
    with pytest.raises(ValueError, match="in order"):
        replace(TRAINING, steps=10, steps_changes=((5, 8), (3, 9)))


def improving_until(last: int, watch: Watch, clock: Clock, planned: int, every: int) -> int:
    """A run of one step a second whose validation score improves up to step `last`; gives its number of steps."""
    end, step = planned, 0
    while step < end:
        watch.time += 1.0
        step += 1
        clock.step_done()
        end = clock.total_steps(step, end, every, may_grow=False)
        if step % every == 0 and step < end:
            clock.evaluation_done()
            clock.observe(step, min(step, last))
            end = clock.total_steps(step, end, every, may_grow=True)
    return step


def test_a_run_goes_on_while_the_validation_curve_improves() -> None:
    watch = Watch()
    clock = Clock(1000.0, closing=4.0, longest=100, extends=True, now=watch)
    assert improving_until(10_000, watch, clock, 100, 10) == pytest.approx(996, abs=20)
    assert clock.flat is None


def test_a_run_ends_where_the_validation_curve_is_flat() -> None:
    watch = Watch()
    clock = Clock(100_000.0, closing=4.0, longest=100, extends=True, now=watch)
    steps = improving_until(200, watch, clock, 100, 10)
    assert 200 < steps <= 200 / 0.75 * 2
    assert clock.flat is not None
    assert clock.flat[1] == 200


def test_a_flat_curve_ends_the_run_as_planned() -> None:
    watch = Watch()
    clock = Clock(1000.0, closing=4.0, longest=100, extends=True, now=watch)
    assert improving_until(30, watch, clock, 100, 10) == 100


def test_the_curve_moves_nothing_where_a_task_does_not_extend() -> None:
    watch = Watch()
    clock = Clock(1000.0, closing=4.0, longest=100, now=watch)
    assert improving_until(10_000, watch, clock, 100, 10) == 100


def test_a_first_step_of_most_of_the_time_shortens_the_plan() -> None:
    watch = Watch()
    clock = Clock(60.0, closing=1.0, longest=1000, now=watch)
    watch.time += 30.0
    clock.step_done()
    assert clock.total_steps(1, 40, 10, may_grow=False) <= 3


@pytest.mark.parametrize(("on_processor", "share"), [(10.0, 1.0), (2.5, 0.25), (0.0, 0.01)])
def test_the_share_of_the_processor(on_processor: float, share: float) -> None:
    passed, used = Watch(), Watch()
    meter = ProcessorShare(passed, used)
    assert meter.value == 1.0
    passed.time, used.time = 10.0, on_processor
    assert meter.value == share

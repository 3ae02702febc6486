"""The clock keeps time for the last scores by how long evaluations take, and makes costly evaluations rarer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qkv.training.clock import EVALUATION_SHARE, MAX_SCORING_SHARE, Clock
from qkv.training.settings import TrainingConfig
from tiny import TRAINING
from training.test_clock import Watch, run


def drive(clock: Clock, watch: Watch, end: int, a_step: float, an_evaluation: float, every: int) -> tuple[int, float]:
    """A run as `Run` leads it: how many steps there were, and the seconds of its evaluations."""
    step, since, spent = 0, 0, 0.0
    while step < end:
        watch.time += a_step
        step += 1
        clock.step_done()
        end = clock.total_steps(step, end, every, may_grow=False)
        if step < end and (step - since) % every == 0:
            watch.time += an_evaluation
            spent += an_evaluation
            clock.evaluation_done()
            wider = clock.evaluation_interval(step, end, every)
            if wider != every:
                since, every = step, wider
            end = clock.total_steps(step, end, every, may_grow=True)
    watch.time += an_evaluation  # of the last step
    clock.evaluation_done()
    return step, spent


@pytest.mark.parametrize("slower", [1.0, 2.0, 5.0])
def test_time_is_kept_for_the_last_scores_however_slow_the_machine_has_become(slower: float) -> None:
    watch = Watch()
    clock = Clock(200.0, closing=2.0, longest=10_000, scoring=6.0, evaluation=1.0, now=watch)
    drive(clock, watch, 180, 0.9 * slower, slower, 20)
    left = 200.0 - watch.time
    reserve = min(6.0 * slower, MAX_SCORING_SHARE * 200.0) + 2.0 * slower
    assert left >= reserve - 3.5  # small changes of the number of steps are not made
    assert left <= 60.0


def test_evaluations_take_a_tenth_of_the_time() -> None:
    """As a plan of fourteen steps that was to be evaluated after each."""
    watch = Watch()
    clock = Clock(240.0, closing=2.0, longest=10_000, scoring=10.0, evaluation=0.5, now=watch)
    steps, spent = drive(clock, watch, 60, 2.0, 8.0, 1)
    assert watch.time <= 240.0
    assert steps > 10
    assert spent <= EVALUATION_SHARE * 240.0 + 5 * 8.0  # the speed of steps is known after five


def test_slow_steps_are_noticed_before_there_are_five() -> None:
    watch = Watch()
    clock = Clock(60.0, closing=1.0, longest=1000, now=watch)
    for step in (1, 2):
        watch.time += 10.0
        clock.step_done()
        end = clock.total_steps(step, 40, 10, may_grow=False)
    assert end == 2 + 3


def test_where_evaluations_became_rarer_the_recipe_gives_the_same_run(tmp_path: Path) -> None:
    plans: list[TrainingConfig] = []

    class Slow(Clock):
        def total_steps(self, step: int, planned: int, every: int, *, may_grow: bool) -> int:
            return planned

        def evaluation_interval(self, step: int, planned: int, every: int) -> int:
            return 7 if step == 4 else every

    config = replace(TRAINING, steps=20, evaluate_every=2, checkpoint_every=5)
    run(tmp_path / "first", config, plans, Slow(0.0, closing=0.0, longest=100))
    assert plans[-1].evaluate_every_changes == ((4, 7),)
    assert [step for step in range(1, 21) if plans[-1].evaluates(step)] == [2, 4, 11, 18]
    run(tmp_path / "second", plans[-1], [], None)
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("first", "second")]
    assert metrics[0] == metrics[1]
    assert metrics[0].count(b"validation_loss") == 5

"""What is shown while a run goes on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qkv.cli.options import TrainingOptions
from qkv.cli.progress import TrainingDisplay, duration_text
from qkv.cli.train import train
from qkv.errors import MissingExtraError
from qkv.recipe import time_budget
from qkv.session import start as begin
from qkv.tasks.language_modelling.report import seconds_left
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.protocol import Session
from qkv.training.early_warning import EarlyWarning
from qkv.training.loop import Step
from qkv.training.run import DamagedCheckpoint, Evaluation
from tiny import TRAINING


def display(steps: int) -> TrainingDisplay:
    made: Any = SimpleNamespace(
        recipe=SimpleNamespace(
            training=replace(TRAINING, steps=steps, evaluate_every=max(1, steps // 10)),
        ),
        task=LanguageModellingTask,
        run=SimpleNamespace(clock="a clock knows the time"),
    )
    return TrainingDisplay(made)


def counted(folder: Path, steps: int) -> Session:
    """A run of so many steps, not by the clock."""
    (folder / "a.txt").write_text("one two three four five\n" * 100)
    shape = {"kind": "gpt", "layers": 1, "heads": 1, "width": 8, "context": 16}
    values = {
        "corpus": {"files": [str(folder / "a.txt")]},
        "tokenizer": {"kind": "characters"},
        "model": shape,
        "training": {"steps": steps, "batch": 4},
    }
    return begin(values, folder / "run", numbered=False, minutes=1.0)


@pytest.mark.parametrize(("steps", "said"), [(100, True), (7, False)])
def test_how_long_a_run_will_take_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, said: bool
) -> None:
    """After some steps, and not where it is over in a moment."""
    session, now = counted(tmp_path, steps), [50.0]
    monkeypatch.setattr("qkv.cli.progress.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("qkv.cli.progress.started_at", lambda: 40.0)
    made, remarks = TrainingDisplay(session), {}
    for number in range(1, steps + 1):
        now[0] += 3.0 if number == 1 else 0.5
        for remark in made.add(Step(number, 2.0, 1.0, 1.0, 64)):
            remarks[number] = remark
    in_all = 10.0 + 3.0 + 5 * 0.5 + seconds_left(session, 6, 0.5)
    assert remarks == ({6: f"time    about {duration_text(in_all)} in all, by the first 6 steps"} if said else {})


def test_what_is_ahead(tmp_path: Path) -> None:
    """Steps, ten evaluations and the last look, each token of them at a third of a step's."""
    session = counted(tmp_path, 100)
    evaluated, held = session.recipe.task.evaluation_tokens, len(session.task.prepared.valid.tokens)
    looks = 10 * min(evaluated, held) + held
    assert seconds_left(session, 0, 2.0) == pytest.approx(200 + looks * 2.0 / 64 / 3 + time_budget.REPORT_SECONDS)
    assert seconds_left(session, 95, 2.0) == pytest.approx(
        10 + (looks - 9 * min(evaluated, held)) * 2 / 192 + time_budget.REPORT_SECONDS
    )


def test_a_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    (remark,) = display(10).add(
        DamagedCheckpoint(tmp_path / "000008.damaged", "weights.safetensors: its sha256 is another")
    )
    assert str(tmp_path / "000008.damaged") in remark
    assert "sha256" in remark


def test_a_long_run_is_shown_as_fast_as_a_short_one() -> None:
    steps = 5000
    made = display(steps)
    for number in range(1, steps + 1):
        made.add(Step(number, 2.0 if number > steps - 20 else 9.0, 1.0, 1.0, 64))
    made.add(Evaluation(steps, {"loss": 2.5, "bits_per_byte": 1.25}, True))
    assert len(made.curve.training.points()) < steps / 5
    assert "loss 2.000" in made.status()
    assert "validation 2.500 (1.250 bits per byte)" in made.status()
    assert made.chart(60)


def test_a_missing_extra_is_said_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"qkv\[track\]"):
        train("there-is-no-such-file.txt", training=TrainingOptions(tensorboard=True))


def test_a_step_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line every few seconds, but none for a step whose evaluation is about to be said."""
    monkeypatch.setattr("qkv.cli.progress.LINE_SECONDS", 0.0)
    made = display(20)
    said = []
    for number in range(1, 21):
        said += made.lines(Step(number, 2.0, 1.0, 1.0, 64))
        if number % 2 == 0:
            said += made.lines(Evaluation(number, {"loss": 2.5, "bits_per_byte": 1.25}, True))
    assert [int(line.split("/")[0].removeprefix("step ")) for line in said] == list(range(1, 21))


def test_a_run_that_goes_wrong_is_told_once() -> None:
    watch = EarlyWarning(epoch=1.0)
    made = display(40)
    made.watch = watch
    said = []
    for number in range(1, 41):
        said += made.add(Step(number, 4.0 / number, 1.0, 1.0, 64))
        if number % 4 == 0:
            loss = 2.0 + 0.1 * abs(number - 12)
            scores = {"loss": loss, "bits_per_byte": loss, "parts": [loss + 0.01 * part for part in range(16)]}
            said += made.add(Evaluation(number, scores, number <= 12))
    (warning,) = said
    assert warning.startswith("warning: overfitting: since step 12")

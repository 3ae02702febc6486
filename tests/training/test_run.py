"""A run: exact resume, early stopping, rotation, one writer, signals."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.errors import InputError, InterruptedRun, RefusedError
from qkv.storage import try_lock, verify_files
from qkv.training import checkpoints, metrics_log
from qkv.training.run import DamagedCheckpoint, Evaluation, Run, Saved, Stopped
from qkv.training.settings import TrainingConfig
from tiny import CONFIGS, TRAINING, state, task

ROUGH = replace(TRAINING, accumulate=2)


def evaluate(model: torch.nn.Module) -> dict[str, float]:
    made = task(seed=99)
    batch = made.batch(0, 20)
    model.eval()
    with torch.no_grad():
        return {"loss": float(made.loss(model, batch)) / batch.count}


def run(folder: Path, config: TrainingConfig, score: object = evaluate) -> Run:
    return Run(folder, config, score, lambda model, step: None)  # type: ignore[arg-type]


def go(folder: Path, kind: str = "modern", config: TrainingConfig = ROUGH, until: int | None = None) -> list[object]:
    """Run to the end, or walk away after step `until`, as a crash would."""
    events = []
    for event in run(folder, config).events(state(kind, config), task()):
        events.append(event)
        if until and getattr(event, "number", 0) == until:
            break
    return events


def fingerprint(folder: Path) -> dict[str, str]:
    newest = checkpoints.list_checkpoints(folder / "checkpoints")[-1]
    files = [newest / checkpoints.WEIGHTS, newest / checkpoints.OPTIMIZER, newest / checkpoints.RANDOM]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in [*files, folder / "metrics.jsonl"]}


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("until", [1, 4, 5, 11])
def test_a_resumed_run_reaches_the_same_bits(tmp_path: Path, kind: str, until: int) -> None:
    go(tmp_path / "whole", kind)
    go(tmp_path / "cut", kind, until=until)
    go(tmp_path / "cut", kind)
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


def test_what_was_drawn_before_the_first_step_changes_nothing(tmp_path: Path) -> None:
    for name, drawn in (("one", 0), ("two", 7)):
        made = state("gpt", ROUGH)
        torch.rand(drawn)
        list(run(tmp_path / name, ROUGH).events(made, task()))
    assert fingerprint(tmp_path / "one") == fingerprint(tmp_path / "two")


def test_a_finished_run_resumes_to_nothing(tmp_path: Path) -> None:
    go(tmp_path)
    before = fingerprint(tmp_path)
    assert go(tmp_path) == []
    assert fingerprint(tmp_path) == before


def damage(folder: Path) -> Path:
    """Flip a bit of the weights of a run's newest checkpoint."""
    newest = checkpoints.list_checkpoints(folder / "checkpoints")[-1]
    data = bytearray((newest / checkpoints.WEIGHTS).read_bytes())
    data[-1] ^= 1
    (newest / checkpoints.WEIGHTS).write_bytes(data)
    with pytest.raises(RefusedError, match="sha256"):
        verify_files(newest)
    return newest


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, keep: int) -> None:
    """It is put aside, and said; its number is written anew, and what rotation keeps is good."""
    go(tmp_path / "whole")
    go(tmp_path / "cut", until=10)
    damaged = damage(tmp_path / "cut")
    assert damaged.name == "000008"
    config = replace(ROUGH, keep=keep)
    events = go(tmp_path / "cut", config=config, until=9)
    aside = damaged.with_name("000008.damaged")
    assert isinstance(events[0], DamagedCheckpoint)
    assert events[0].folder == aside
    assert str(damaged) in events[0].reason
    assert [path.name for path in checkpoints.list_checkpoints(damaged.parent)][-keep:] == ["000004", "000008"][-keep:]
    for path in checkpoints.list_checkpoints(damaged.parent):
        verify_files(path)
    go(tmp_path / "cut", config=config)
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")
    assert aside.is_dir()


def test_where_all_checkpoints_are_damaged_nothing_moves(tmp_path: Path) -> None:
    go(tmp_path, config=replace(ROUGH, keep=1), until=10)
    damaged = damage(tmp_path)
    for _ in range(2):
        with pytest.raises(RefusedError, match="sha256"):
            go(tmp_path)
    assert damaged.is_dir()


def test_rotation_counts_only_what_came_before(tmp_path: Path) -> None:
    """A number from nowhere, above all others, does not push the new checkpoint out."""
    made = state()
    made.step = 5
    (tmp_path / "000900").mkdir()
    saved = checkpoints.save(tmp_path, made, {}, "cpu", keep=1)
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == [saved.name, "000900"]


def test_checkpoints_rotate_by_number(tmp_path: Path) -> None:
    go(tmp_path, config=replace(TRAINING, checkpoint_every=1, steps=12, keep=3))
    assert [int(path.name) for path in checkpoints.list_checkpoints(tmp_path / "checkpoints")] == [10, 11, 12]
    assert not list((tmp_path / "checkpoints").glob(".*"))
    for number in ("9", "1000000"):
        (tmp_path / "checkpoints" / number).mkdir()
    names = [path.name for path in checkpoints.list_checkpoints(tmp_path / "checkpoints")]
    assert names == ["9", "000010", "000011", "000012", "1000000"]


def test_early_stopping_stops_and_stays_stopped(tmp_path: Path) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.6, 1.0])
    config = replace(TRAINING, steps=100, evaluate_every=2, patience=2)
    made = run(tmp_path, config, lambda model: {"loss": next(losses)})
    events = list(made.events(state(), task()))
    assert [event for event in events if isinstance(event, Stopped)] == [Stopped(8, 4)]
    assert [event.best for event in events if isinstance(event, Evaluation)] == [True, True, False, False]
    assert list(made.events(state(), task())) == []


def test_the_second_writer_is_refused(tmp_path: Path) -> None:
    with try_lock(tmp_path) as held:
        assert held
        with pytest.raises(InputError, match="another training"):
            go(tmp_path)
    assert go(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    go(tmp_path / "whole")
    events: list[object] = []
    before = signal.signal(number, signal.SIG_DFL)  # whoever started the tests may ignore it, and a run obeys

    def go_until_told() -> None:
        for event in run(tmp_path / "cut", ROUGH).events(state("modern", ROUGH), task()):
            events.append(event)
            if getattr(event, "number", 0) == 6:
                os.kill(os.getpid(), number)

    try:
        with pytest.raises(InterruptedRun, match="--resume") as caught:
            go_until_told()
    finally:
        signal.signal(number, before)
    assert caught.value.exit_code == 128 + number
    assert isinstance(events[-1], Saved)
    assert events[-1].step == 6
    go(tmp_path / "cut")
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


def test_metrics_hold_values_only(tmp_path: Path) -> None:
    go(tmp_path)
    lines = metrics_log.read(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 13))
    assert {key for line in lines for key in line} == {"step", "loss", "gradient_norm", "rate_share", "validation_loss"}
    assert all("seconds" in line for line in metrics_log.read(tmp_path / "timings.jsonl"))


def test_a_journal_writes_null_for_what_is_not_a_number(tmp_path: Path) -> None:
    made = metrics_log.MetricsLog(tmp_path / "log.jsonl")
    made.write(loss=float("nan"))
    made.close()
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"loss": None}


def test_seconds_add_up_over_sittings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a sitting's first step takes longer than the whole sitting before it."""
    path = tmp_path / "timings.jsonl"
    for ticks in ([100.0, 101.0, 103.0], [700.0, 705.0, 706.0]):
        clock = iter(ticks)
        monkeypatch.setattr(metrics_log.time, "perf_counter", lambda clock=clock: next(clock))
        made = metrics_log.TimingsLog(path)
        made.add_step(1, 10)
        made.add_step(2, 10)
        made.close()
    assert [line["seconds"] for line in metrics_log.read(path)] == [1, 3, 8, 9]
    assert [line["tokens_per_second"] for line in metrics_log.read(path)] == [10, 7, 2, 3]
    assert metrics_log.elapsed_seconds(path) == 9
    assert metrics_log.elapsed_seconds(tmp_path / "none") == 0


AVERAGING = replace(ROUGH, average=3, checkpoint_every=2, evaluate_every=4, keep=1)


Kept = list[tuple[int, float, dict[str, torch.Tensor]]]


def averaged(folder: Path, until: int | None = None, stop: int | None = None, score: Any = evaluate) -> Kept:
    """Run with averaging; gives the step, the score and the weights of every best model."""
    kept: Kept = []

    def keep(model: torch.nn.Module, step: int) -> None:
        kept.append((step, evaluate(model)["loss"], {name: each.clone() for name, each in model.state_dict().items()}))

    for event in Run(folder, AVERAGING, score, keep).events(state("gpt", AVERAGING), task()):
        if until and getattr(event, "number", 0) == until:
            break
        if stop and getattr(event, "number", 0) == stop:
            os.kill(os.getpid(), signal.SIGTERM)
    return kept


@pytest.mark.parametrize("last", [0.5, 1.5])
def test_the_mean_of_the_last_checkpoints_is_kept_where_it_is_best(tmp_path: Path, last: float) -> None:
    scores = iter([{"loss": 1.0}] * 3 + [{"loss": last}] * 2)
    kept = averaged(tmp_path, score=lambda model: next(scores))
    folders = checkpoints.list_checkpoints(tmp_path / "checkpoints")
    assert [int(path.name) for path in folders] == [8, 10, 12]
    mean = checkpoints.mean_weights(folders)
    singles = [checkpoints.read_tensors(path / checkpoints.WEIGHTS) for path in folders]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, torch.stack([each[name] for each in singles]).mean(0))
    line = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert line == {"step": 12, "averaged_loss": last}
    assert [step for step, _, _ in kept] == ([4, 12] if last < 1 else [4])
    before = (tmp_path / "metrics.jsonl").read_bytes()
    again = averaged(tmp_path, score=lambda model: next(scores))  # a run that is over finds the same again
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    for found in (kept[1:], again):
        assert len(found) == (last < 1)
        assert all(torch.equal(found[0][2][name], mean[name]) for name in (mean if found else ()))


@pytest.mark.parametrize("until", [1, 5, 8, 11])
def test_averaging_survives_kills_and_signals(tmp_path: Path, until: int) -> None:
    kept = averaged(tmp_path / "whole")
    averaged(tmp_path / "cut", until=until)
    again = averaged(tmp_path / "cut")
    for number in (7, 9, 11):  # each leaves a checkpoint that no whole run has
        with contextlib.suppress(InterruptedRun):
            averaged(tmp_path / "stopped", stop=number)
    last = averaged(tmp_path / "stopped")
    wanted = (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    assert b"averaged_loss" in wanted
    for found, folder in ((again, "cut"), (last, "stopped")):
        assert found[-1][:2] == kept[-1][:2]
        assert (tmp_path / folder / "metrics.jsonl").read_bytes() == wanted

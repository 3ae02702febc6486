"""T1: kill -9 at any moment, resume: the same bits as the run that nobody interrupted."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from reliability.nursery import Nursery
from reliability.report import record
from reliability.runs import FAMILIES, TRANSLATORS, command, fingerprint, left_over, pair_command, resume


class Trial:
    """One family's uninterrupted run, and runs like it that are killed."""

    def __init__(self, nursery: Nursery, folder: Path, text: Any, family: str, **more: object) -> None:
        self.nursery, self.folder, self.text, self.family, self.more = nursery, folder, text, family, more
        run, report = folder / "whole", folder / "points"
        done = nursery.call("counted", words=self.words(run), report=str(report))
        assert done.code == 0, done.err
        self.wanted, self.points = fingerprint(run), int(report.read_text())

    def words(self, run: Path) -> list[str]:
        return command(self.text, run, self.family, **self.more)

    def killed(self, name: str, moments: list[float]) -> dict[str, object]:
        """Kill at each moment (a share of the whole run's progress), go on each time, run to the end at last."""
        run = self.folder / name
        facts: dict[str, object] = {"in a write": 0, "before the run": 0, "after the end": 0}
        for moment in moments:
            words = resume(run) if (run / "recipe.toml").exists() else self.words(run)
            code = self.nursery.call("counted", words=words, at=1 + int(moment * self.points)).code
            assert code in (0, -signal.SIGKILL)
            facts["after the end"] += code != -signal.SIGKILL
            facts["in a write"] += bool(run.exists() and left_over(run))
            facts["before the run"] += not (run / "recipe.toml").exists()
        done = self.nursery.qkv(*(resume(run) if (run / "recipe.toml").exists() else self.words(run)))
        assert done.code == 0, done.err
        assert fingerprint(run) == self.wanted
        assert left_over(run) == []
        return facts


class PairTrial(Trial):
    """The same of a model that translates."""

    def words(self, run: Path) -> list[str]:
        return pair_command(self.text, run, self.family, **self.more)


def kill(trials: list[tuple[Trial, str, list[float]]], figure: str) -> None:
    failures, total = [], {}
    for trial, name, moments in trials:
        try:
            facts = trial.killed(name, moments)
        except (AssertionError, OSError, ValueError, TimeoutError) as error:
            failures.append(f"{trial.family} {name} {moments}: {error}")
            continue
        for key, value in facts.items():
            total[key] = total.get(key, 0) + value
    kills = sum(len(moments) for _, _, moments in trials)
    record(figure, len(trials), len(failures), kills=kills, **total)
    assert not failures, "\n".join(failures)


def ten_kills(trial: Trial, figure: str) -> None:
    """One kill in each tenth of the run's steps and writes."""
    chance = random.Random(figure)
    moments = [(part + chance.random()) / 10 for part in range(10)]
    kill([(trial, f"killed-{n}", [moment]) for n, moment in enumerate(moments)], figure)


@pytest.mark.parametrize("family", FAMILIES)
def test_ten_kills(nursery: Nursery, tmp_path: Path, text: Path, family: str) -> None:
    ten_kills(Trial(nursery, tmp_path, text, family), f"T1 kill -9, {family}")


@pytest.mark.parametrize("family", TRANSLATORS)
def test_four_kills_of_a_translator(nursery: Nursery, tmp_path: Path, pairs: list[Path], family: str) -> None:
    trial, chance = PairTrial(nursery, tmp_path, pairs, family), random.Random(family)
    moments = [(part + chance.random()) / 4 for part in range(4)]
    kill([(trial, f"killed-{n}", [moment]) for n, moment in enumerate(moments)], f"T1 kill -9, {family}")


@pytest.mark.slow
@pytest.mark.parametrize("family", TRANSLATORS)
def test_ten_kills_of_a_translator(nursery: Nursery, tmp_path: Path, pairs: list[Path], family: str) -> None:
    trial = PairTrial(nursery, tmp_path, pairs, family, corpus__directions="both")
    ten_kills(trial, f"T1 kill -9, {family}, both directions, slow")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_kills_of_the_nano_shape(nursery: Nursery, tmp_path: Path, text: Path, family: str) -> None:
    trial = Trial(nursery, tmp_path, text, family, model__width=48, model__layers=3, model__context=64)
    ten_kills(trial, f"T1 kill -9, nano {family}, slow")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_five_kills_of_one_run(nursery: Nursery, tmp_path: Path, text: Path, family: str) -> None:
    trial = Trial(nursery, tmp_path, text, family)
    chance = random.Random(f"five {family}")
    runs = [(trial, f"killed-{n}", [0.6 * chance.random() for _ in range(5)]) for n in range(2)]
    kill(runs, f"T1 five kills in one run, {family}, slow")


@pytest.mark.slow
def test_kills_among_checkpoints_of_every_step(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    """Most of the time goes into writing here, so most kills fall into a write."""
    every = {"training__checkpoint_every": 1, "training__evaluate_every": 1, "steps": 60}
    trial = Trial(nursery, tmp_path, text, "gpt", **every)
    chance = random.Random("writes")
    moments = [(part + chance.random()) / 12 for part in range(12)]
    runs = [(trial, f"killed-{n}", [moment]) for n, moment in enumerate(moments)]
    kill(runs, "T1 kill -9, a checkpoint every step, slow")

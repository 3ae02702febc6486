"""T5: SIGTERM, SIGINT, SIGHUP: saved, exit 143, 130, 129; a second one ends at once. T11: one writer per folder."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from reliability.nursery import SOURCE, Nursery
from reliability.report import record
from reliability.runs import command, fingerprint, left_over, resume, whole

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def when_training(run: Path, steps: int = 1, seconds: float = 60) -> None:
    """Wait until a run has written a checkpoint after so many steps."""
    end = time.monotonic() + seconds
    while not any(int(p.name) >= steps for p in (run / "checkpoints").glob("[0-9]*")):
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.005)


def interrupted(nursery: Nursery, run: Path, words: list[str], number: int, moment: float) -> float:
    """Send a signal `moment` seconds after training began; the seconds until the command had ended."""
    child = nursery.start("cli", words=words)
    when_training(run)
    time.sleep(moment)
    began = time.monotonic()
    child.kill(number)
    done = child.wait(30)
    spent = time.monotonic() - began
    if done.code == 0:
        return 0.0  # it was over before the signal came
    assert done.code == 128 + number, f"exit {done.code}: {done.err}"
    last = done.err.strip().splitlines()[-1]
    assert shlex.join(["--run", str(run), "--resume"]) in last, last
    assert signal.Signals(number).name in last
    assert left_over(run) == []
    return spent


def trials(nursery: Nursery, tmp_path: Path, text: Path, numbers: Sequence[int], count: int, figure: str) -> None:
    every = {"training__checkpoint_every": 5, "steps": 40}
    wanted = whole(nursery, command(text, tmp_path / "whole", "gpt", **every), tmp_path / "whole")
    chance = random.Random(figure)
    failures, spent = [], []
    for number in numbers:
        for trial in range(count):
            run = tmp_path / f"{number.name}-{trial}"
            try:
                spent.append(interrupted(nursery, run, command(text, run, "gpt", **every), number, chance.random() / 2))
                done = nursery.qkv(*resume(run))
                assert done.code == 0, done.err
                assert fingerprint(run) == wanted, "other bits"
            except (AssertionError, TimeoutError) as error:
                failures.append(f"{number.name} {trial}: {error}")
    record(figure, len(numbers) * count, len(failures), longest_seconds=round(max(spent, default=0), 3))
    assert not failures, "\n".join(failures)
    assert max(spent) < 2.5


def test_signals(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    trials(nursery, tmp_path, text, (signal.SIGTERM, signal.SIGINT), 1, "T5 signals")


@pytest.mark.slow
def test_many_signals(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    trials(nursery, tmp_path, text, SIGNALS, 15, "T5 signals, slow")


def test_a_second_signal_ends_at_once(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    run = tmp_path / "run"
    # one step takes minutes, so that the first signal alone would have to wait
    words = command(text, run, "lstm", steps=4, training__batch=4096, training__checkpoint_every=1, model__width=256)
    child = nursery.start("cli", words=words)
    end = time.monotonic() + 60
    while not (run / "metrics.jsonl").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.5)
    child.kill(signal.SIGTERM)
    time.sleep(0.3)
    child.kill(signal.SIGTERM)
    began = time.monotonic()
    done = child.wait(20)
    spent = time.monotonic() - began
    record("T5 second signal", 1, int(done.code != 128 + signal.SIGTERM), seconds=round(spent, 3))
    assert done.code == 128 + signal.SIGTERM, done.err
    assert "stopped at once; the last checkpoint is whole" in done.err
    assert spent < 1


@pytest.mark.slow
def test_the_real_command(tmp_path: Path, text: Path, nursery: Nursery) -> None:
    """Not a fork: a process of its own, interrupted as a terminal would."""
    run = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "QKV_CACHE": str(tmp_path / "cache")}
    program = [sys.executable, "-c", "from qkv.cli.app import main; main()"]
    words = command(text, run, "gpt", steps=2000, training__checkpoint_every=5)
    process = subprocess.Popen([*program, *words], env=environment, stderr=subprocess.PIPE, text=True)
    when_training(run)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    record("T5 the command as a process of its own, slow", 1, int(process.returncode != 130))
    assert process.returncode == 130, err
    assert "--resume" in err
    assert "Traceback" not in err


def test_two_trainings_into_one_folder(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    """T11: the second refuses at once, however it was started; the first is not disturbed; the dead hold nothing."""
    run = tmp_path / "run"
    words = command(text, run, "gpt", steps=400)
    first = nursery.start("cli", words=words)
    when_training(run)
    failures, slowest = [], 0.0
    tries = [resume(run), words] * 3
    for again in tries:
        began = time.monotonic()
        done = nursery.qkv(*again)
        slowest = max(slowest, time.monotonic() - began)
        if done.code != 2 or str(run) not in done.err or "Traceback" in done.err:
            failures.append(f"exit {done.code}: {done.err}")
    first.kill()
    assert first.wait().code == -signal.SIGKILL, "the first was over too soon"
    recovered = 0
    for _ in range(3):
        child = nursery.start("cli", words=resume(run))
        before = max(int(p.name) for p in (run / "checkpoints").glob("[0-9]*"))
        when_training(run, before + 1)
        recovered += 1
        child.kill()
        child.wait()
    record("T11 two trainings into one folder", len(tries) + 3, len(failures), slowest_seconds=round(slowest, 2))
    assert not failures, "\n".join(failures)
    assert recovered == 3

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

from reliability.nursery import PATIENCE, SOURCE, Nursery
from reliability.report import record
from reliability.runs import command, fingerprint, left_over, resume, whole

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def when_training(run: Path, pid: int, steps: int = 1) -> None:
    """Wait until a process has written a checkpoint after so many steps."""
    end = time.monotonic() + PATIENCE
    while not any(int(p.name) >= steps for p in (run / "checkpoints").glob("[0-9]*")):
        assert time.monotonic() < end, "no checkpoint"
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z", "it is over"
        time.sleep(0.005)


def interrupted(nursery: Nursery, run: Path, words: list[str], number: int, step: int) -> None:
    """Send a signal in the middle of a step: it is finished and saved, and the command says how to go on."""
    done = nursery.call("killed", words=words, step=step, number=number)
    assert done.code == 128 + number, f"exit {done.code}: {done.err}"
    last = done.err.strip().splitlines()[-1]
    assert shlex.join(["--run", str(run), "--resume"]) in last, last
    assert signal.Signals(number).name in last
    assert f"after step {step}" in last
    assert max(int(path.name) for path in (run / "checkpoints").glob("[0-9]*")) == step
    assert left_over(run) == []


def trials(nursery: Nursery, tmp_path: Path, text: Path, numbers: Sequence[int], count: int, figure: str) -> None:
    every = {"training__checkpoint_every": 5, "steps": 40}
    wanted = whole(nursery, command(text, tmp_path / "whole", "gpt", **every), tmp_path / "whole")
    chance = random.Random(figure)
    failures = []
    for number in numbers:
        for trial in range(count):
            run = tmp_path / f"{number.name}-{trial}"
            try:
                interrupted(nursery, run, command(text, run, "gpt", **every), number, chance.randint(1, 39))
                done = nursery.qkv(*resume(run))
                assert done.code == 0, done.err
                assert fingerprint(run) == wanted, "other bits"
            except (AssertionError, TimeoutError) as error:
                failures.append(f"{number.name} {trial}: {error}")
    record(figure, len(numbers) * count, len(failures))
    assert not failures, "\n".join(failures)


def test_signals(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    trials(nursery, tmp_path, text, (signal.SIGTERM, signal.SIGINT), 1, "T5 signals")


@pytest.mark.slow
def test_many_signals(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    trials(nursery, tmp_path, text, SIGNALS, 15, "T5 signals, slow")


def test_a_second_signal_ends_at_once(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    """Not even the step is finished, which here would never end."""
    run = tmp_path / "run"
    words = command(text, run, "gpt", steps=40, training__checkpoint_every=5)
    done = nursery.call("killed", words=words, step=13, number=signal.SIGTERM, stuck=True)
    record("T5 second signal", 1, int(done.code != 128 + signal.SIGTERM))
    assert done.code == 128 + signal.SIGTERM, done.err
    assert "stopped at once; the last checkpoint is whole" in done.err
    assert max(int(path.name) for path in (run / "checkpoints").glob("[0-9]*")) == 10


@pytest.mark.slow
def test_the_real_command(tmp_path: Path, text: Path, nursery: Nursery) -> None:
    """Not a fork: a process of its own, interrupted as a terminal would."""
    run = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "QKV_CACHE": str(tmp_path / "cache")}
    program = [sys.executable, "-c", "from qkv.cli.app import main; main()"]
    words = command(text, run, "gpt", steps=1_000_000, training__checkpoint_every=5)
    process = subprocess.Popen([*program, *words], env=environment, stderr=subprocess.PIPE, text=True)
    when_training(run, process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    record("T5 the command as a process of its own, slow", 1, int(process.returncode != 130))
    assert process.returncode == 130, err
    assert "--resume" in err
    assert "Traceback" not in err


def test_two_trainings_into_one_folder(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    """T11: the second refuses at once, however it was started; the first is not disturbed; the dead hold nothing."""
    run = tmp_path / "run"
    words = command(text, run, "gpt", steps=1_000_000)
    first = nursery.start("cli", words=words)
    when_training(run, first.pid)
    failures = []
    tries = [resume(run), words] * 3
    for again in tries:
        done = nursery.qkv(*again)
        if done.code != 2 or str(run) not in done.err or "Traceback" in done.err:
            failures.append(f"exit {done.code}: {done.err}")
    first.kill()
    assert first.wait().code == -signal.SIGKILL, "the first was over too soon"
    recovered = 0
    for _ in range(3):
        child = nursery.start("cli", words=resume(run))
        before = max(int(p.name) for p in (run / "checkpoints").glob("[0-9]*"))
        when_training(run, child.pid, before + 1)
        recovered += 1
        child.kill()
        child.wait()
    record("T11 two trainings into one folder", len(tries) + 3, len(failures))
    assert not failures, "\n".join(failures)
    assert recovered == 3

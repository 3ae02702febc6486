"""Every kind of model, killed three times at points of its progress, resumed to the end: the bits of the whole run."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from attacks.driver import Facts, Running, Worker
from attacks.families import Family, families
from reliability.runs import fingerprint, left_over

STEPS, EVERY = 24, 3
COUNT = len(families())
SETTINGS = (f"training.checkpoint_every={EVERY}", "training.evaluate_every=6", "training.patience=0")


def draw(chance: random.Random, count: int) -> list[Facts]:
    """Every family, in an order and with points of progress of the seed's own."""
    chosen = [family.name for family in families()]
    chance.shuffle(chosen)
    points = [-1, *range(0, STEPS + 1, EVERY)]  # -1: as soon as the run's folder is there; the last: the evaluation
    kills = [sorted(chance.choices(points, k=3)) for _ in chosen]
    delays = [[chance.random() * 0.05 for _ in range(3)] for _ in chosen]
    trials = zip(chosen, kills, delays, strict=True)
    return [{"family": family, "kills": when, "delays": later} for family, when, later in trials][:count]


def attempt(worker: Worker, facts: Facts) -> list[str]:
    family = next(each for each in families() if each.name == facts["family"])
    whole, run = worker.here / "whole", worker.here / "killed"
    if problems := worker.qkv(family.train(whole, STEPS, *SETTINGS)).problems(0):
        return problems
    facts["landed"] = 0
    for point, delay in zip(facts["kills"], facts["delays"], strict=True):
        child = worker.start(_go_on(family, run))
        _await(child, run, point)
        time.sleep(delay)
        child.kill(signal.SIGKILL)
        ended = child.wait()
        facts["landed"] += ended.code == -signal.SIGKILL
        if ended.code != -signal.SIGKILL and (problems := ended.problems(0)):
            return problems
    if problems := worker.qkv(_go_on(family, run)).problems(0):
        return problems
    expected, found = fingerprint(whole), fingerprint(run)
    differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    problems = [f"other bits than the run that nobody killed: {', '.join(differing)}"] if differing else []
    return problems + [f"left behind: {name}" for name in left_over(run)]


def _go_on(family: Family, run: Path) -> list[str]:
    """The run resumed, or begun where it had not come far enough."""
    if (run / "recipe.toml").exists():
        return [
            *family.words[:1],
            *(family.words[1:2] if family.words[0] == "finetune" else ()),
            "--run",
            str(run),
            "--resume",
        ]
    return family.train(run, STEPS, *SETTINGS)


def _await(child: Running, run: Path, point: int) -> None:
    """Until the run has come so far, or has ended."""
    while not _reached(run, point):
        if not Path(f"/proc/{child.pid}").exists() or Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.001)


def _reached(run: Path, point: int) -> bool:
    if point < 0:
        return run.exists()
    return any(path.name.isdigit() and int(path.name) >= point for path in (run / "checkpoints").glob("*"))

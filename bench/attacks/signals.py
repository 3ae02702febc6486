"""SIGINT, SIGTERM or SIGHUP at any moment of a real process: heard, without a traceback, and the run goes on later."""

from __future__ import annotations

import json
import random
import signal
import time

from attacks.driver import Facts, Worker
from attacks.families import families
from attacks.stage import VERBS
from qkv.errors import QkvError
from qkv.storage import verify_files

COUNT = 100
CALLS = ("train", "train", "generate", "classify", "translate", "evaluate", "inspect", "tokenize", "data describe",
         "data clean", "finetune", "embed", "numbers", "verify")  # fmt: skip
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STARTING = 0.6  # of the moments lie in the first half, where Python and torch are imported
DURATIONS: dict[str, float] = {}


def draw(chance: random.Random, count: int) -> list[Facts]:
    trials = []
    for _ in range(count):
        number = chance.choice([*NUMBERS, signal.SIGINT])
        moment = chance.random() * (0.5 if chance.random() < STARTING else 1.05)
        trials.append({"call": chance.choice(CALLS), "signal": number.name, "moment": moment})
    return trials


def words_of(call: str) -> list[str]:
    if call == "numbers":
        family = next(each for each in families() if each.name == "numbers mlp class")
        return family.train("{here}/run", 200)
    return [*VERBS[call], *(["--set", "training.checkpoint_every=1"] if call == "train" else [])]


def _seconds(worker: Worker, call: str) -> float:
    """Of a call that nobody disturbs; measured once."""
    if call not in DURATIONS:
        DURATIONS[call] = worker.real(words_of(call)).wait().seconds
        worker.fresh(f"{worker.here.name}-signalled")
    return DURATIONS[call]


def attempt(worker: Worker, facts: Facts) -> list[str]:
    number = getattr(signal, facts["signal"])
    moment = facts["seconds"] = round(facts["moment"] * _seconds(worker, facts["call"]), 3)
    child = worker.real(words_of(facts["call"]))
    time.sleep(moment)
    said = child.files.out.stat().st_size
    if child.poll() is None:
        child.kill(number)
    else:
        facts["late"] = True
    sent = time.monotonic()
    ended = child.wait()
    worker.commands[-1] += f"   # {facts['signal']} after {moment} s; ended {time.monotonic() - sent:.2f} s later"
    # 0 is right only where the whole answer had been given before the signal came
    finished = bool(facts.get("late")) or (ended.code == 0 and bool(ended.out) and said == len(ended.out))
    allowed = [128 + number, -number] + ([0] if finished else [])
    problems = ended.problems(*allowed)
    if ended.code == 0 and not finished:
        problems = [f"lost: exit 0, {time.monotonic() - sent:.2f} s after {facts['signal']}"]
    if facts["call"] in ("train", "finetune", "numbers"):
        problems += _goes_on(worker, facts["call"])
    return problems


def _goes_on(worker: Worker, call: str) -> list[str]:
    """What was stopped can be resumed, or begun again in the same folder where it had not begun."""
    run = worker.here / "run"
    words = words_of(call)
    if (run / "recipe.toml").exists():
        words = [words[0], *(words[1:2] if words[0] == "finetune" else []), "--run", str(run), "--resume"]
    if problems := worker.qkv([*words, "--json"]).problems(0):
        return [f"after the signal: {problem}" for problem in problems]
    try:
        json.loads((run / "best" / "config.json").read_text(encoding="utf-8"))
        verify_files(run / "best")
    except (OSError, ValueError, QkvError) as error:
        return [f"no whole model after the signal: {error}"]
    return []

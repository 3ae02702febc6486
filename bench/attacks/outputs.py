"""Standard output or error full, closed, read only or without a reader: no fault, and a model is kept."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from typing import Any

from attacks.driver import Ended, Facts, Worker
from attacks.stage import SLOW, VERBS, verbs
from qkv.errors import QkvError
from qkv.storage import verify_files

COUNT = 200
STATES = ("full", "closed", "pipe", "read-only")
STREAMS = ("stdout", "stderr", "both")
FORMS = ("plain", "--json", "--help")
BARE = {"no words": [], "--help": ["--help"], "--version": ["--version"], "a wrong verb": ["trian"]}
WROTE_NOTHING = (2, 4)  # an answer that nobody got is no success; a reader that has gone away has seen enough


def draw(chance: random.Random, count: int) -> list[Facts]:
    """Every verb with every state first, then what chance brings; few of the slow ones."""
    forms = [(verb, form) for verb in verbs() for form in FORMS] + [(name, "bare") for name in BARE]
    every = [dict(zip(("verb", "form", "state", "stream"), (*call, state, stream), strict=True))
             for call, state, stream in itertools.product(forms, STATES, STREAMS)]  # fmt: skip
    chance.shuffle(every)
    seen: dict[tuple[str, str], int] = {}
    for trial in every:
        key = (trial["verb"], trial["state"])
        seen[key] = seen.get(key, 0) + 1
        slow = trial["verb"] in SLOW and trial["form"] != "--help"
        trial["turn"] = seen[key] + (2 if slow else 0)
        trial["real"] = trial["form"] in ("--help", "bare") or (not slow and chance.random() < 0.1)
    every.sort(key=lambda trial: trial["turn"])
    return every[:count]


def attempt(worker: Worker, facts: Facts) -> list[str]:
    words = _words(facts)
    states = {name: facts["state"] for name in ("stdout", "stderr") if facts["stream"] in (name, "both")}
    ended = _real(worker, words, states) if facts["real"] else worker.qkv(words, streams=states)
    worker.commands[-1] += "   # " + ", ".join(f"{name} {state}" for name, state in states.items())
    problems = ended.problems()
    if states.get("stdout") in ("full", "closed", "read-only") and ended.code not in WROTE_NOTHING and not problems:
        problems.append(f"exit {ended.code}, though the answer could not be written")
    if "stdout" not in states and facts["form"] != "bare" and ended.code not in (0, 2):
        problems.append(f"exit {ended.code}, though standard output is whole")
    if facts["verb"] in ("train", "finetune") and facts["form"] != "--help":
        try:
            verify_files(worker.here / "run" / "best")
        except (OSError, ValueError, QkvError) as error:
            problems.append(f"no whole model: {error}")
    return problems


def _words(facts: Facts) -> list[str]:
    if facts["form"] == "bare":
        return list(BARE[facts["verb"]])
    if facts["form"] == "--help":
        return [*facts["verb"].split(), "--help"]
    return [*VERBS[facts["verb"]], *(["--json"] if facts["form"] == "--json" else [])]


def _real(worker: Worker, words: list[str], states: dict[str, str]) -> Ended:
    """A process of its own, with such streams."""
    given: dict[str, Any] = {}
    shut = [f"{number}>&-" for name, number in (("stdout", 1), ("stderr", 2)) if states.get(name) == "closed"]
    opened = []
    for name, state in states.items():
        if state == "pipe":
            reader, writer = os.pipe()
            os.close(reader)
            opened.append(writer)
        elif state != "closed":
            place, mode = ("/dev/full", os.O_WRONLY) if state == "full" else (os.devnull, os.O_RDONLY)
            opened.append(os.open(place, mode))
        else:
            given[name] = subprocess.DEVNULL
            continue
        given[name] = opened[-1]
    child = worker.real(words, before=["sh", "-c", f'exec "$@" {" ".join(shut)}', "sh"], **given)
    for number in opened:
        os.close(number)
    return child.wait()

"""The learning rate over a run: a warm-up, then a fall. Each is a share of the full rate, from 0 to 1."""

from __future__ import annotations

import math
from typing import Literal

from qkv.config import CountOrZero

# (at, steps): from step `at` on, the run was to have `steps` in all, for the clock had asked for it
Turns = tuple[tuple[CountOrZero, CountOrZero], ...]
Schedule = Literal["linear", "cosine", "constant-decay"]


def share(
    step: int, steps: int, schedule: Schedule, warmup: int, final: float, decay: float, turns: Turns = ()
) -> float:
    """The share at `step` (counted from 0) of `steps`; `decay` is the part of the run in which constant-decay falls."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = progress(step, steps, warmup, turns)
    if schedule == "linear":
        return final + (1 - final) * (1 - done)
    if schedule == "cosine":
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done))
    return final + (1 - final) * min(1.0, (1 - done) / decay)


def progress(step: int, steps: int, first: int = 0, turns: Turns = ()) -> float:
    """How much of the way from `first` to the end is done: a straight line, bent wherever the end was moved."""
    done, since = 0.0, first
    for at, moved in turns:
        if step < at:
            break
        if at > since:
            done += (1 - done) * (at - since) / max(1, steps - since)
            since = at
        steps = moved
    return done + (1 - done) * (step - since) / max(1, steps - since)

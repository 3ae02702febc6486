"""The learning rate over a run: a warm-up, then a decay. Each is a fraction of the full rate, from 0 to 1."""

from __future__ import annotations

import math
from typing import Literal

from qkv.config import CountOrZero

# (step, value): from `step` on, the value of a setting that the time budget changed during the run
Changes = tuple[tuple[CountOrZero, CountOrZero], ...]
Schedule = Literal["linear", "cosine", "constant-decay"]


def share(
    step: int, steps: int, schedule: Schedule, warmup: int, final_fraction: float, decay: float, changes: Changes = ()
) -> float:
    """The share at `step` (counted from 0) of `steps`; `decay` is the part of the run in which constant-decay falls."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = progress(step, steps, warmup, changes)
    if schedule == "linear":
        return final_fraction + (1 - final_fraction) * (1 - done)
    if schedule == "cosine":
        return final_fraction + (1 - final_fraction) * 0.5 * (1 + math.cos(math.pi * done))
    return final_fraction + (1 - final_fraction) * min(1.0, (1 - done) / decay)


def progress(step: int, steps: int, first: int = 0, changes: Changes = ()) -> float:
    """How much of the way from `first` to the end is done: a straight line, bent wherever the end was moved."""
    done, since = 0.0, first
    for at, moved in changes:
        if step < at:
            break
        if at > since:
            done += (1 - done) * (at - since) / max(1, steps - since)
            since = at
        steps = moved
    return done + (1 - done) * (step - since) / max(1, steps - since)

"""The learning rate over a run: a warm-up, then a fall. Each is a share of the full rate, from 0 to 1."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["linear", "cosine", "constant-decay"]


def share(step: int, steps: int, schedule: Schedule, warmup: int, final: float, decay: float) -> float:
    """The share at `step` (counted from 0) of `steps`; `decay` is the part of the run in which constant-decay falls."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, steps - warmup)
    if schedule == "linear":
        return final + (1 - final) * (1 - done)
    if schedule == "cosine":
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done))
    return final + (1 - final) * min(1.0, (1 - done) / decay)

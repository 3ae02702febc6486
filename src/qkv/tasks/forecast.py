"""What a run will take, said before it starts: steps, epochs, time, memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

from qkv.recipe import choices, dial
from qkv.recipe.memory import needs
from qkv.tasks.protocol import Session


@dataclass(frozen=True)
class Forecast:
    steps: int
    epochs: float
    bytes: int  # at the peak, beyond what the program takes before it starts
    seconds: float | None = None  # until all is over; None where nobody measured

    def line(self) -> str:
        """As in: 610 steps, 2.1 epochs, about 4.6 min, about 0.4 GiB."""
        parts = [f"{self.steps:,} step{'' if self.steps == 1 else 's'}", f"{self.epochs:.1f} epochs"]
        if self.seconds is not None:
            parts.append(f"about {self.seconds / 60:.1f} min" if self.seconds >= 60 else f"about {self.seconds:.0f} s")
        return ", ".join([*parts, f"about {max(0.1, self.bytes / 2**30):.1f} GiB"])


def forecast(session: Session) -> Forecast:
    """Time is known where a clock leads the run."""
    training, clock = session.recipe.training, session.run.clock
    return Forecast(
        steps=training.length,
        epochs=training.length * training.batch / session.objective.samples,
        bytes=needs(session.recipe).total,
        seconds=max(0.0, clock.ends_at - time.perf_counter()) if clock else None,
    )


def ahead(session: Session, done: int, a_step: float) -> float:
    """Seconds until all is over, after `done` steps that took `a_step` each: steps, evaluations, the last look."""
    recipe = session.recipe
    training, context = recipe.training, recipe.model.context
    left = training.length - done
    looks = -(-left // training.evaluate_every)
    held = len(session.prepared.valid.tokens)
    looked_at = looks * min(held, recipe.task.evaluation_tokens or held) + min(held, choices.last_tokens(recipe))
    a_token = choices.FORWARD * a_step / (training.batch * context)
    return left * a_step + looked_at * a_token + dial.SAMPLES

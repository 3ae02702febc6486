"""The `training` section of a recipe, complete. What a person leaves open `qkv train` chooses by model, data and
machine (`recipe/draft.py`); the defaults here are for those who call the training loop themselves."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from qkv.config import Count, CountOrZero, PositiveOrZero, Share, strict

# (step, value): from `step` on, the value of a setting that the time budget changed during the run
Changes = tuple[tuple[CountOrZero, CountOrZero], ...]
Schedule = Literal["linear", "cosine", "constant-decay"]


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


Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]  # beyond it the product of two is no f32


@strict
class TrainingConfig:
    steps: Count  # of the optimizer
    batch: Count  # windows a step
    accumulate: Count = 1  # parts in which a batch is computed; saves memory, changes nothing else
    optimizer: Literal["muon", "adamw"]  # muon: Muon between embedding and head, AdamW for the rest
    learning_rate: Rate  # of AdamW
    matrix_learning_rate: Rate = 0.02  # of Muon
    betas: tuple[Share, Share] = (0.9, 0.95)  # of AdamW
    momentum: Share = 0.95  # of Muon
    weight_decay: NonNegative = 0.0  # of matrices only
    warmup: CountOrZero = 0  # steps
    schedule: Schedule = "linear"  # how the learning rate falls after the warm-up
    final_fraction: Share = 0.03  # of the learning rate, at the end of the schedule
    decay: AboveZero = 0.3  # part of the run in which the schedule constant-decay falls
    clip: PositiveOrZero = 1.0  # largest norm of the gradient; 0: no bound
    seed: CountOrZero = 0  # of all randomness
    evaluate_every: Count = 100  # steps
    checkpoint_every: Count = 100  # steps
    keep: Count = 2  # checkpoints
    average: CountOrZero = 0  # the last checkpoints whose mean is tried in the end, and kept if it is the best
    patience: CountOrZero = 0  # evaluations without a better loss before stopping; 0: never
    device: str = "cpu"  # where to compute, such as cpu or cuda
    dtype: Literal["f32", "bf16"] = "f32"  # the number format of the computation
    threads: Annotated[int, Field(ge=1, le=4096)] = 1  # of the processor
    compile: Literal["off", "on"] = "off"  # on: by torch.compile
    start: str = ""  # the model it starts from: a run, a model folder or a file
    frozen: Literal["none", "embeddings", "encoder"] = "none"  # encoder: only what decides learns
    lora: CountOrZero = 0  # the rank of what learns beside each linear or recurrent layer; 0: the layers themselves
    layer_decay: AboveZero = 1.0  # the learning rate of a layer as a fraction of that of the layer above it
    steps_changes: Changes = ()  # of a run with a time budget: [[at step, new number of steps], ...]
    evaluate_every_changes: Changes = ()  # likewise: [[after step, new interval], ...]

    def __post_init__(self) -> None:
        if self.batch and self.batch % self.accumulate:
            raise ValueError(f"batch = {self.batch} must be a multiple of accumulate = {self.accumulate}")
        for before, (at, steps) in zip(((0, 0), *self.steps_changes), self.steps_changes, strict=False):
            if not before[0] <= at <= steps:
                raise ValueError(
                    f"steps_changes = {self.steps_changes}: expected pairs of a step and a later end, in order"
                )
        if any(at < 0 or every < 1 for at, every in self.evaluate_every_changes):
            raise ValueError(
                f"evaluate_every_changes = {self.evaluate_every_changes}: expected pairs of a step and a number "
                "of steps, from 1"
            )

    def evaluates(self, step: int) -> bool:
        """Whether the model is evaluated after this step; after the last one it is in any case."""
        since, every = next(
            ((at, every) for at, every in reversed(self.evaluate_every_changes) if step > at), (0, self.evaluate_every)
        )
        return (step - since) % every == 0

    def rate_share(self, step: int) -> float:
        """The learning rate at `step` (counted from 0) as a fraction of the full one: a warm-up, then a decay."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        done, varying = progress(step, self.steps, self.warmup, self.steps_changes), 1 - self.final_fraction
        if self.schedule == "linear":
            return self.final_fraction + varying * (1 - done)
        if self.schedule == "cosine":
            return self.final_fraction + varying * 0.5 * (1 + math.cos(math.pi * done))
        return self.final_fraction + varying * min(1.0, (1 - done) / self.decay)

    @property
    def rarest(self) -> int:
        """The steps from one evaluation to the next, as the clock has left them."""
        return self.evaluate_every_changes[-1][1] if self.evaluate_every_changes else self.evaluate_every

    @property
    def length(self) -> int:
        """The number of steps, after all changes."""
        return self.steps_changes[-1][1] if self.steps_changes else self.steps

    def parts(self, least: int) -> int:
        """The fewest parts, at least `least`, into which the batch can be cut."""
        return next((parts for parts in range(least, self.batch) if self.batch % parts == 0), self.batch)

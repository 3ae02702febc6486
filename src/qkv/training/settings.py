"""The section [training] of a complete recipe, and the schedule of the learning rate.

`qkv train` chooses open settings by model, data and machine (`recipe/draft.py`); the defaults here are for code that
calls the training loop directly.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from qkv.config import Count, CountOrZero, PositiveOrZero, Share, strict

# (step, value): the value that a setting has from `step` on, after the time budget has changed it during the run
Changes = tuple[tuple[CountOrZero, CountOrZero], ...]
Schedule = Literal["linear", "cosine", "constant-decay"]


def fraction_done(step: int, steps: int, first: int = 0, changes: Changes = ()) -> float:
    """How much of the way from step `first` to the end is done, from 0 to 1.

    It grows linearly with the step. When the number of steps changes, it goes on from its value with another slope.
    """
    done, since = 0.0, first
    for at, new_steps in changes:
        if step < at:
            break
        if at > since:
            done += (1 - done) * (at - since) / max(1, steps - since)
            since = at
        steps = new_steps
    return done + (1 - done) * (step - since) / max(1, steps - since)


LearningRate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
PositiveShare = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]  # the product of two is finite in f32


@strict
class TrainingConfig:
    steps: Count  # of the optimizer
    batch: Count  # samples in a step: windows of text, examples, or planned batches of pairs
    accumulate: Count = 1  # parts in which a batch is computed; saves memory, changes nothing else
    # muon: Muon between embedding and head, AdamW for the rest; lbfgs: for convex losses on all examples at once
    optimizer: Literal["muon", "adamw", "lbfgs"]
    learning_rate: LearningRate  # of AdamW
    matrix_learning_rate: LearningRate = 0.02  # of Muon
    betas: tuple[Share, Share] = (0.9, 0.95)  # of AdamW
    momentum: Share = 0.95  # of Muon
    weight_decay: NonNegative = 0.0  # of matrices only
    warmup: CountOrZero = 0  # steps
    schedule: Schedule = "linear"  # how the learning rate falls after the warm-up
    final_fraction: Share = 0.03  # of the learning rate, at the end of the schedule
    decay: PositiveShare = 0.3  # fraction of the run in which the learning rate of the schedule constant-decay falls
    tolerance: PositiveOrZero = 3e-5  # of lbfgs: it has converged where no value of the gradient is larger
    clip: PositiveOrZero = 1.0  # largest norm of the gradient; 0: no limit
    seed: CountOrZero = 0  # of all randomness
    evaluate_every: Count = 100  # steps
    checkpoint_every: Count = 100  # steps
    keep: Count = 2  # checkpoints
    average: CountOrZero = 0  # number of last checkpoints whose mean is evaluated in the end, and kept if it is best
    patience: CountOrZero = 0  # evaluations without a better loss before stopping; 0: never
    device: str = "cpu"  # where to compute, such as cpu or cuda
    dtype: Literal["f32", "bf16"] = "f32"  # the number format of the computation
    threads: Annotated[int, Field(ge=1, le=4096)] = 1  # of the processor
    compile: Literal["off", "on"] = "off"  # on: with torch.compile
    start: str = ""  # the model that training starts from: a run, a model folder or a file
    frozen: Literal["none", "embeddings", "encoder"] = "none"  # what does not learn; encoder: only the head learns
    lora: CountOrZero = 0  # rank of the LoRA matrices that learn in place of the layers; 0: no LoRA
    layer_decay: PositiveShare = 1.0  # the learning rate of a layer as a fraction of that of the layer above it
    metrics: str = ""  # the Python file of the user's own metrics, and its sha256
    steps_changes: Changes = ()  # by the clock of a run with a time budget: [[at step, new number of steps], ...]
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
        """The learning rate at `step` (counted from 0) as a fraction of the full rate: a warm-up, then a decay."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        done, range_ = fraction_done(step, self.steps, self.warmup, self.steps_changes), 1 - self.final_fraction
        if self.schedule == "linear":
            return self.final_fraction + range_ * (1 - done)
        if self.schedule == "cosine":
            return self.final_fraction + range_ * 0.5 * (1 + math.cos(math.pi * done))
        return self.final_fraction + range_ * min(1.0, (1 - done) / self.decay)

    @property
    def current_evaluate_every(self) -> int:
        """The steps between evaluations, after all changes."""
        return self.evaluate_every_changes[-1][1] if self.evaluate_every_changes else self.evaluate_every

    @property
    def length(self) -> int:
        """The number of steps, after all changes."""
        return self.steps_changes[-1][1] if self.steps_changes else self.steps

    def equal_parts(self, least: int) -> int:
        """The smallest number of equal parts, at least `least`, that the batch can be split into."""
        return next((parts for parts in range(least, self.batch) if self.batch % parts == 0), self.batch)

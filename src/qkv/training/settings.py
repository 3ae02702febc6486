"""The `training` section of a recipe. A zero or "auto" is chosen for model, data and machine, then written down."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from qkv.config import Count, CountOrZero, PositiveOrZero, Share, strict
from qkv.training.schedules import Schedule, Turns

AboveZero = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]  # beyond it the product of two is no f32


@strict
class TrainingConfig:
    steps: CountOrZero = 0
    batch: CountOrZero = 0  # windows a step
    accumulate: Count = 1  # parts in which a batch is computed; saves memory, changes nothing else
    optimizer: Literal["auto", "muon", "adamw"] = "auto"
    rate: Rate = 0.0  # of AdamW
    matrix_rate: Rate = 0.0  # of Muon
    betas: tuple[Share, Share] = (0.9, 0.95)
    momentum: Share = 0.95
    weight_decay: Rate = 0.0  # of matrices only
    warmup: Annotated[int, Field(ge=-1, le=2**31)] = -1  # steps; -1: chosen
    schedule: Schedule = "linear"
    final: Share = 0.03  # share of the rate at the end
    decay: AboveZero = 0.3  # part of the run in which the schedule constant-decay falls
    clip: PositiveOrZero = 1.0  # largest norm of the gradient; 0: no bound
    seed: CountOrZero = 0
    evaluate_every: CountOrZero = 0
    evaluate_tokens: CountOrZero = 0  # validation tokens looked at during training; the last evaluation looks at more
    evaluate_last: CountOrZero = 0  # tokens looked at after training, or a tenth of the run's if that is more
    checkpoint_every: CountOrZero = 0
    keep: Count = 2  # checkpoints
    average: CountOrZero = 0  # of so many last checkpoints the mean is tried in the end, and kept if it is the best
    patience: CountOrZero = 0  # evaluations without a better loss before stopping; 0: never
    device: str = "auto"
    dtype: Literal["auto", "f32", "bf16"] = "auto"
    threads: Annotated[int, Field(ge=0, le=4096)] = 0
    compile: Literal["off", "on"] = "off"
    start: str = ""  # the model it starts from: a run, a model folder or a file
    frozen: Literal["none", "embeddings", "encoder"] = "none"  # encoder: only what decides learns
    lora: CountOrZero = 0  # the rank of what learns beside each linear or recurrent layer; 0: the layers themselves
    layer_decay: AboveZero = 1.0  # the rate of a layer beside that of the one above it
    turns: Turns = ()  # where the clock moved the end: [[at step, to so many steps], ...]
    evaluations: Turns = ()  # where the clock made evaluations rarer: [[after step, every so many steps], ...]

    def __post_init__(self) -> None:
        if self.batch and self.batch % self.accumulate:
            raise ValueError(f"batch = {self.batch} must be a multiple of accumulate = {self.accumulate}")

        for before, (at, steps) in zip(((0, 0), *self.turns), self.turns, strict=False):
            if not before[0] <= at <= steps:
                raise ValueError(f"turns = {self.turns}: expected pairs of a step and a later end, in order")

        if any(at < 0 or every < 1 for at, every in self.evaluations):
            raise ValueError(
                f"evaluations = {self.evaluations}: expected pairs of a step and a number of steps, from 1"
            )

    def evaluates(self, step: int) -> bool:
        """Whether the model is evaluated after this step; after the last one it is in any case."""
        since, every = next(
            ((at, every) for at, every in reversed(self.evaluations) if step > at), (0, self.evaluate_every)
        )
        return (step - since) % every == 0

    @property
    def rarest(self) -> int:
        """The steps from one evaluation to the next, as the clock has left them."""
        return self.evaluations[-1][1] if self.evaluations else self.evaluate_every

    @property
    def length(self) -> int:
        """The number of steps, after all turns."""
        return self.turns[-1][1] if self.turns else self.steps

    def parts(self, least: int) -> int:
        """The fewest parts, at least so many, into which the batch can be cut."""
        return next((parts for parts in range(least, self.batch) if self.batch % parts == 0), self.batch)

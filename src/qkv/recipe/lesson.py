"""What a task brings to a run: its data as they were prepared, its batches, its scores. One file each:

language.py (language modelling), masked.py (BERT), labelled.py (classifiers and taggers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import Recipe
from qkv.tasks.task import Task
from qkv.training.run import Scores

Values = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Costs:
    """What evaluations will take, in seconds."""

    in_all: float = 0.0  # those while the run goes on
    a_step: float = 0.0  # the same for each step, where there are as many as steps ask for
    evaluation: float = 0.0  # one of them
    scoring: float = 0.0  # the last scores, of all that is held out
    closing: float = 0.0  # what follows those


@runtime_checkable
class Lesson(Protocol):
    """The gaps of a recipe are filled in this order: `choose`, then steps, by a clock or as asked for."""

    @property
    def notes(self) -> tuple[str, ...]: ...

    def say(self, note: str) -> None: ...

    def choose(self, values: Values, ends_at: float | None) -> float:
        """Fill model and training, all but the steps; gives the epochs after which more would not help."""
        ...

    def steps_worth(self, values: Values, epochs: float) -> int: ...

    def choose_steps(self, values: Values, steps: int, *, timed: bool) -> None:
        """The number of steps and everything that follows from it."""
        ...

    def complete(self, values: Values) -> Recipe: ...

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        """What a model takes from the data before its first step."""
        ...

    def task(self, recipe: Recipe) -> Task: ...

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        """On held-out data, while the run goes on."""
        ...

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs: ...

    def made(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle: ...

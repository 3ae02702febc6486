"""What every task answers, and the session in which it is trained.

A task holds its prepared data. The gaps of a recipe are filled in this order: `choose`, then `choose_steps`, by a clock
or by the number asked for; `complete` gives the recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from torch import nn

from qkv.blocks import low_rank
from qkv.data.detect import Detected
from qkv.data.findings import Progress, silent
from qkv.doctor.examination import Doctor
from qkv.evaluation.timed_scoring import Pace
from qkv.models.language_model import count, learning
from qkv.objectives.objective import Objective
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import Recipe
from qkv.tasks.report import RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training.loop import TrainingState
from qkv.training.run import Run, Scores

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
class Task(Protocol):
    """A task with its data, as a run needs it."""

    kind: ClassVar[str]
    unit: ClassVar[str]  # what a step is counted in
    data: ClassVar[str]  # what it learns from, in words
    corpus: ClassVar[type]  # the config of the recipe's section

    @classmethod
    def open(cls, values: Values, where: str, progress: Progress | None, detected: Detected | None = None) -> Task:
        """Read and prepare what is to be learned from; a wrong key is reported before a long file is read."""
        ...

    @classmethod
    def resume(cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
        """Prepare the data of a run that goes on, and refuse other data."""
        ...

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

    def objective(self, recipe: Recipe) -> Objective: ...

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        """On held-out data, while the run goes on."""
        ...

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs: ...

    def made(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle: ...

    def examine(self, session: Session) -> Doctor | None:
        """Measure before training what a loss can be compared with, where the task has such baselines."""
        ...

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        """What is going to be done, in a few lines."""
        ...

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        """Score the best model on what was held out."""
        ...


if TYPE_CHECKING:
    TaskClass = type[Task]
else:
    TaskClass = type  # a protocol with attributes cannot be asked for its subclasses


@dataclass(frozen=True)
class Session:
    """A run that is ready to go on."""

    planned: Recipe
    task: Any
    objective: Objective
    state: TrainingState
    run: Run

    @property
    def recipe(self) -> Recipe:
        """As it stands now: a clock may have moved the end."""
        return replace(self.planned, training=self.run.config)

    @property
    def prepared(self) -> Any:
        return self.task.prepared

    @property
    def model(self) -> Any:
        return self.state.model

    @property
    def epochs(self) -> float:
        """How often the training data were seen."""
        return self.state.samples / self.objective.samples

    @property
    def parameters(self) -> int:
        """Of the model as it is kept: what LoRA puts beside it goes into its weights."""
        return count(self.model) - sum(learning(each) for each in low_rank.beside(self.model).values())

    @property
    def size(self) -> str:
        """The size of the model in words, and how much learns where not all of it does."""
        kept, moving = self.parameters, learning(self.model)
        how = " (LoRA)" if self.recipe.training.lora else ""
        return f"{kept:,} parameters" + (f"; {moving:,} learn{how}" if how or moving < kept else "")

    def pace(self, progress: Progress = silent) -> Pace:
        """The time that is left for the last scores."""
        clock = self.run.clock
        if clock is None:
            return Pace(progress=progress)
        return Pace(clock.ends_at - clock.after_scoring, progress, now=clock.now)

    def final_score(self, progress: Progress = silent) -> Any:
        """The best model on what was held out."""
        return self.task.final_score(self.recipe, self.run.folder, self.pace(progress))

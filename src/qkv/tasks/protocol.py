"""What every task answers, and the session in which it is trained.

A task holds its prepared data. A draft is closed in this order: `resolve`, then `resolve_steps`, by a clock or by the
number asked for; `complete` gives the recipe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from torch import nn

from qkv.blocks import low_rank
from qkv.config import LazyClasses, toml_values
from qkv.data.detect import Detected
from qkv.data.findings import Progress, no_progress
from qkv.data.prepare import Prepared
from qkv.errors import DataError
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.translation_metrics import Metric
from qkv.models.language_model import count, learning
from qkv.objectives.objective import Objective
from qkv.recipe import recipe as recipes
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, Recipe
from qkv.recipe.resolve import with_steps
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices, metrics_log
from qkv.training.loop import TrainingState
from qkv.training.run import Run, Scores
from qkv.training.settings import TrainingConfig
from qkv.visible import counted

if TYPE_CHECKING:
    from qkv.data.prepare_examples import PreparedExamples, PreparedPairs
    from qkv.doctor.examination import Doctor

T = TypeVar("T")
CLOSING = 1.0  # seconds for the card and the report


def expect(value: object, kind: type[T]) -> T:
    """The value as what it is known to be: a task meets recipes and parts of its own kind alone."""
    assert isinstance(value, kind), f"{type(value).__name__} where {kind.__name__} was expected"
    return value


@dataclass(frozen=True)
class Costs:
    """What evaluations will take, in seconds."""

    in_all: float = 0.0  # those during the run
    a_step: float = 0.0  # the same for each step, where there are as many as steps ask for
    evaluation: float = 0.0  # one of them
    scoring: float = 0.0  # the final scores, of all that is held out
    closing: float = 0.0  # what follows those


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How `qkv evaluate` scores a model. Each task names those that it has; others are refused."""

    window: int | None = None
    metric: Metric | None = None
    beams: int | None = None
    compare_with: str | None = None


@dataclass
class Task(ABC):
    """A task with its data, as a run needs it."""

    kind: ClassVar[str]
    unit: ClassVar[str]  # what a step is counted in
    data: ClassVar[str]  # what it learns from, in words
    models: ClassVar[LazyClasses]  # configs of the section [model], by kind
    corpus: ClassVar[type]  # the config of the section [corpus]
    config: ClassVar[type]  # the config of the section [task]
    options: ClassVar[tuple[str, ...]]  # keys of its corpus that other data may not have
    evaluation_options: ClassVar[tuple[str, ...]] = ()  # fields of `EvaluationOptions` that its `evaluate` reads
    example: ClassVar[str] = "book.txt"  # data, as messages name them
    labelled: ClassVar[bool] = False  # whether examples with labels are learned
    not_studied: ClassVar[str] = ""  # why `qkv compare` and `qkv tune` do not take it; {verb} is one of them
    default_model: ClassVar[str]
    warmup: ClassVar[int] = 200  # steps at most

    prepared: Prepared | PreparedExamples | PreparedPairs
    said: list[str] = field(default_factory=list, kw_only=True)
    evaluations: int = field(default=10, kw_only=True)  # during a run

    @classmethod
    @abstractmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> Task:
        """Read and prepare what is to be learned from; a wrong key is reported before a long file is read."""

    @classmethod
    @abstractmethod
    def resume(cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
        """Prepare the data of a run that goes on, and refuse other data."""

    @classmethod
    def default_model_for(cls, detected: Detected) -> str:
        """The model that is trained by default on these files."""
        return cls.default_model

    @property
    def kind_of_data(self) -> str:
        """The task that the data are for, known when they have been read."""
        return self.kind

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.prepared.notes, *self.said)

    def say(self, note: str) -> None:
        self.said.append(note)

    @abstractmethod
    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        """Model and training, all but the steps; and the epochs after which more would not help."""

    @abstractmethod
    def useful_steps(self, draft: Draft, epochs: float) -> int: ...

    def resolve_steps(self, draft: Draft, steps: int, *, timed: bool) -> Draft:
        """The number of steps and everything that follows from it."""
        steps = draft.training.steps or max(1, steps)
        every = max(1, -(-steps // self.evaluations) if timed else steps // self.evaluations)
        training = with_steps(draft.training, steps, self.warmup, every)
        return replace(draft, training=training, task={**self.evaluation_sizes(), **draft.task})

    def evaluation_sizes(self) -> dict[str, int]:
        """How much is evaluated, as the section [task] has it."""
        return {}

    def complete(self, draft: Draft) -> Recipe:
        prepared = self.prepared
        values = {
            "model": draft.model,
            "tokenizer": toml_values(prepared.tokenizer_config),
            "corpus": toml_values(prepared.corpus if isinstance(prepared, Prepared) else prepared.config),
            "task": {"kind": self.kind, **draft.task},
            "training": draft.training.values(),
        }
        return recipes.complete(values, self.models, self.corpus, self.config, draft.where)

    @classmethod  # noqa: B027
    def require_room(cls, recipe: Recipe) -> None:
        """Refuse what cannot fit into the memory, where the task can forecast that."""

    def begin(self, recipe: Recipe, model: nn.Module) -> None:  # noqa: B027
        """What a model takes from the data before its first step: nothing, where it starts from random weights."""

    @abstractmethod
    def objective(self, recipe: Recipe) -> Objective: ...

    @abstractmethod
    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        """On held-out data, during the run."""

    @abstractmethod
    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs: ...

    @abstractmethod
    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle: ...

    def examine(self, session: Session) -> Doctor | None:
        """Measure before training what a loss can be compared with, where the task has such baselines."""
        return None

    @abstractmethod
    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        """What is going to be done, in a few lines."""

    @classmethod
    @abstractmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        """Score any model of this task on other data, which `corpus`, a config of the section [corpus], describes."""

    @abstractmethod
    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        """Score the best model on what was held out."""


@dataclass(frozen=True)
class Session:
    """A run that is ready to go on."""

    planned: Recipe
    task: Task
    objective: Objective
    state: TrainingState
    run: Run

    @property
    def recipe(self) -> Recipe:
        """As it stands now: a clock may have moved the end."""
        return replace(self.planned, training=self.run.config)

    @property
    def model(self) -> nn.Module:
        return self.state.model

    @property
    def epochs(self) -> float:
        """How often the training data were seen."""
        return self.state.samples / self.objective.samples

    @property
    def parameters(self) -> int:
        """Of the model as it is kept: what LoRA learns is merged into its weights."""
        return count(self.model) - sum(learning(each) for each in low_rank.beside(self.model).values())

    @property
    def size(self) -> str:
        """The size of the model in words, and how much learns where not all of it does."""
        kept, moving = self.parameters, learning(self.model)
        how = " (LoRA)" if self.recipe.training.lora else ""
        return f"{kept:,} parameters" + (f"; {moving:,} learn{how}" if how or moving < kept else "")

    @property
    def values(self) -> dict[str, object]:
        """What the JSON document of every run has."""
        return {
            "run": str(self.run.folder),
            "model": self.recipe.model.kind,
            "parameters": self.parameters,
            "learning": learning(self.model),
            "steps": self.state.step,
            "seconds": round(metrics_log.elapsed(self.run.folder / "timings.jsonl"), 2),
            "notes": list(self.task.notes),
        }

    def plan_lines(self, step: str, samples: int) -> list[str]:
        """Lines of a plan that all tasks but language modelling share; `samples` of the objective are in a step."""
        training, clock = self.recipe.training, self.run.clock
        return [
            f"steps   of {step}, {training.optimizer}, {training.dtype} on {training.device} with "
            f"{counted(training.threads, 'thread')}",
            f"plan    {counted(training.length, 'step')}, "
            f"{training.length * samples / self.objective.samples:.1f} epochs"
            + (f", within {clock.minutes_left():.1f} min" if clock else ""),
        ]

    def pace(self, progress: Progress = no_progress) -> Pace:
        """The time that is left for the final scores."""
        clock = self.run.clock
        if clock is None:
            return Pace(progress=progress)
        return Pace(clock.ends_at - clock.after_scoring, progress, now=clock.now)


def autocast_of(training: TrainingConfig) -> Callable[[], AbstractContextManager[object]]:
    return partial(devices.autocast, training.device, training.dtype)


def require_same(fingerprint: str | None, recipe: Recipe, folder: Path) -> None:
    """Refuse to go on with other data than the run's."""
    if fingerprint != recipe.corpus.fingerprint:
        raise DataError(
            ", ".join(recipe.corpus.files),
            "the text is not the one this run was started with",
            f"Put the old text back, or start a new run without --resume (the recipe is {folder / 'recipe.toml'}).",
        )

"""The interface of a task, and the session in which a model is trained on it.

A task holds its prepared data, and turns a draft into a complete recipe in three calls: `resolve` chooses the model and
the training settings, `resolve_steps` the number of steps, and `complete` checks the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from torch import nn

from qkv.blocks import low_rank
from qkv.config import LazyClasses, toml_values
from qkv.data.descriptions import TrainingPlan
from qkv.data.detect import Detected
from qkv.data.findings import Progress, no_progress, ranked
from qkv.data.prepare import Prepared
from qkv.errors import DataError
from qkv.evaluation.own_metrics import OwnMetrics
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.translation_metrics import Metric
from qkv.models.language_model import count, learning
from qkv.objectives.objective import Objective
from qkv.recipe import recipe as recipes
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, Recipe, Section
from qkv.recipe.resolve import with_steps
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices, metrics_log
from qkv.training.loop import TrainingState
from qkv.training.run import Run, Scores
from qkv.training.settings import TrainingConfig
from qkv.visible import counted

if TYPE_CHECKING:
    from qkv.data.prepare_examples import PreparedExamples
    from qkv.data.prepare_pairs import PreparedPairs
    from qkv.doctor.examination import Doctor

T = TypeVar("T")
CLOSING_SECONDS = 1.0  # for the card and the report


def expect(value: object, kind: type[T]) -> T:
    """Narrow the type of `value` for mypy: the parts of a task's recipe are always of the task's own kinds."""
    assert isinstance(value, kind), f"{type(value).__name__} where {kind.__name__} was expected"
    return value


@dataclass(frozen=True)
class EvaluationCosts:
    """Forecast seconds of everything in a run that is not a training step."""

    during_run: float = 0.0  # all evaluations during the run, where their number is known
    per_step: float = 0.0  # all evaluations during the run, divided by its steps, where their number follows from these
    evaluation: float = 0.0  # one evaluation
    final_scoring: float = 0.0  # the scores of all held-out data after training
    closing: float = 0.0  # what follows the final scores


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The options of `qkv evaluate`. Each task names those that it reads; others are refused."""

    window: int | None = None
    metric: Metric | None = None
    beams: int | None = None
    compare_with: str | Bundle | None = None
    own: OwnMetrics = field(default_factory=OwnMetrics)  # of the user's own: every task takes them


@dataclass
class Task(ABC):
    """A task with its prepared data."""

    kind: ClassVar[str]
    unit: ClassVar[str]  # what the speed of training is counted in, per second
    data_name: ClassVar[str]  # the kind of data it learns from, in words
    model_configs: ClassVar[LazyClasses]  # configs of the section [model], by kind
    corpus_config: ClassVar[type]  # the config of the section [corpus]
    task_config: ClassVar[type]  # the config of the section [task]
    options: ClassVar[tuple[str, ...]]  # keys of the section [corpus] that not every task has
    evaluation_options: ClassVar[tuple[str, ...]] = ()  # the fields of `EvaluationOptions` that its `evaluate` reads
    example: ClassVar[str] = "book.txt"  # data that messages give as an example
    gives_predictions: ClassVar[bool] = False  # whether own metrics can take (true, predicted)
    labelled: ClassVar[bool] = False  # whether it learns from examples with labels
    study_refusal: ClassVar[str] = ""  # why `qkv compare` and `qkv tune` refuse the data; {verb} is one of the two
    max_warmup: ClassVar[int] = 200  # steps
    extends: ClassVar[bool] = False  # whether a run with time left goes on as long as the validation curve improves

    prepared: Prepared | PreparedExamples | PreparedPairs
    added_notes: list[str] = field(default_factory=list, kw_only=True)
    evaluation_count: int = field(default=10, kw_only=True)  # evaluations during a run
    own: OwnMetrics = field(default_factory=OwnMetrics, kw_only=True)
    solved: bool = field(default=False, kw_only=True)  # a solver ends the run where the optimum is

    @classmethod
    @abstractmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> Task:
        """Read and prepare the training data. Unknown keys are reported before a long file is read."""

    @classmethod
    @abstractmethod
    def resume(cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
        """Prepare the data of a resumed run. Data that have changed since its start are refused."""

    @property
    def kind_after_reading(self) -> str:
        """The kind of task that the data turned out to be for: examples may hold tagged words."""
        return self.kind

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on the data and on what was chosen, the most important first."""
        return ranked((*self.prepared.notes, *self.added_notes))

    def add_note(self, note: str) -> None:
        self.added_notes.append(note)

    def cheaper_models(self, given: Draft) -> Iterable[tuple[str, Section]]:
        """Models for a run whose time is not enough for an epoch of the default one, each cheaper than the one before:
        a name and its section [model]. None where the user chose a model."""
        return ()

    @abstractmethod
    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        """The draft with everything chosen but the number of steps; and how many epochs a run has at most by default. A
        run with a time budget ends at `ends_at`, a value of `time.perf_counter`."""

    @abstractmethod
    def useful_steps(self, draft: Draft, epochs: float) -> int:
        """The number of steps in this many epochs, which a run has at most by default."""

    def resolve_steps(self, draft: Draft, steps: int, *, timed: bool) -> Draft:
        """The draft with the number of steps and everything that follows from it."""
        steps = draft.training.steps or max(1, steps)
        evaluate_every = max(1, -(-steps // self.evaluation_count) if timed else steps // self.evaluation_count)
        training = with_steps(draft.training, steps, self.max_warmup, evaluate_every)
        return replace(draft, training=training, task={**self.evaluation_sizes(), **draft.task})

    def evaluation_sizes(self) -> dict[str, int]:
        """How much an evaluation scores: default keys of the section [task]."""
        return {}

    def complete(self, draft: Draft) -> Recipe:
        """The recipe of a draft in which nothing is open."""
        prepared = self.prepared
        values = {
            "model": draft.model,
            "tokenizer": toml_values(prepared.tokenizer_config),
            "corpus": toml_values(prepared.corpus if isinstance(prepared, Prepared) else prepared.config),
            "task": {"kind": self.kind, **draft.task},
            "training": draft.training.values(),
        }
        return recipes.parse_recipe(values, self.model_configs, self.corpus_config, self.task_config, draft.where)

    def model_name(self, recipe: Recipe) -> str:
        """The name of the model, as --model takes it."""
        return recipe.model.kind

    @abstractmethod
    def training_plan(self, recipe: Recipe) -> TrainingPlan:
        """What a run with this recipe does, and the first examples as the model gets them."""

    @classmethod  # noqa: B027
    def require_memory(cls, recipe: Recipe) -> None:
        """Refuse a run that would not fit into memory; tasks without a forecast refuse nothing."""

    def prepare_model(self, recipe: Recipe, model: nn.Module) -> None:  # noqa: B027
        """Set those weights and buffers of a new model that come from the data, such as the scales of columns."""

    @abstractmethod
    def objective(self, recipe: Recipe) -> Objective: ...

    @abstractmethod
    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        """Evaluate the model on validation data during the run."""

    @abstractmethod
    def costs(self, recipe: Recipe, model: nn.Module, step_seconds: float, seconds_left: float) -> EvaluationCosts:
        """Time a small evaluation, and choose how often and how much to evaluate in the time that is left."""

    @abstractmethod
    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle: ...

    def examine(self, session: Session) -> Doctor | None:
        """Measure the baselines that the loss is compared with; None for a task without them."""
        return None

    @abstractmethod
    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        """The lines that are printed before training."""

    @classmethod
    @abstractmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        """Score a model of this task on the data that `corpus` describes, a config of the section [corpus]."""

    @abstractmethod
    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        """Score the best model on the held-out data, and report on the run."""


@dataclass(frozen=True)
class Session:
    """A run that is ready for training, started or resumed."""

    planned: Recipe
    """The recipe as it was when the session began."""
    task: Task
    objective: Objective
    state: TrainingState
    run: Run

    @property
    def recipe(self) -> Recipe:
        """The present recipe: the clock may have changed the number of steps."""
        return replace(self.planned, training=self.run.config)

    @property
    def model(self) -> nn.Module:
        return self.state.model

    @property
    def epochs(self) -> float:
        """How many times the training data have been seen."""
        return self.state.samples / self.objective.samples

    @property
    def parameters(self) -> int:
        """The number of parameters of the saved model, in which the matrices of LoRA are merged into the weights."""
        return count(self.model) - sum(learning(adapter) for adapter in low_rank.adapters(self.model).values())

    @property
    def size(self) -> str:
        """The number of parameters in words, and how many of them learn if some are frozen."""
        total, trained = self.parameters, learning(self.model)
        method = " (LoRA)" if self.recipe.training.lora else ""
        return f"{total:,} parameters" + (f"; {trained:,} learn{method}" if method or trained < total else "")

    @property
    def values(self) -> dict[str, object]:
        """The values that the JSON document of every run has."""
        return {
            "run": str(self.run.folder),
            "model": self.recipe.model.kind,
            "parameters": self.parameters,
            "learning": learning(self.model),
            "steps": self.state.step,
            "seconds": round(metrics_log.elapsed_seconds(self.run.folder / "timings.jsonl"), 2),
            "notes": list(self.task.notes),
        }

    def plan_lines(self, step: str, samples: int) -> list[str]:
        """The lines about steps in the plan of every task but language modelling.

        `step` describes the content of a step, which has `samples` samples of the objective.
        """
        training, clock = self.recipe.training, self.run.clock
        return [
            f"steps   of {step}, {training.optimizer}, {training.dtype} on {training.device} with "
            f"{counted(training.threads, 'thread')}",
            f"plan    {counted(training.length, 'step')}, "
            f"{training.length * samples / self.objective.samples:.1f} epochs"
            + (f", within {clock.minutes_left():.1f} min" if clock else ""),
        ]

    def pace(self, progress: Progress = no_progress) -> Pace:
        """The pace of the final scoring, which ends in time for what follows it."""
        clock = self.run.clock
        if clock is None:
            return Pace(progress=progress)
        return Pace(clock.ends_at - clock.after_scoring, progress, now=clock.now)


def autocast_factory(training: TrainingConfig) -> Callable[[], AbstractContextManager[object]]:
    """A function that gives a new autocast context for the run's device and number format."""
    return partial(devices.autocast, training.device, training.dtype)


def require_same_data(fingerprint: str | None, recipe: Recipe, folder: Path) -> None:
    """Refuse to resume a run on data other than those it was started on."""
    if fingerprint != recipe.corpus.fingerprint:
        raise DataError(
            ", ".join(recipe.corpus.files),
            "the text is not the one this run was started with",
            f"Put the old text back, or start a new run without --resume (the recipe is {folder / 'recipe.toml'}).",
        )

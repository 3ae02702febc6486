"""The base of `qkv compare` and `qkv tune`: the plan of a study, and runs under a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from qkv import session as sessions
from qkv.data.examples import Labelled, TagExamples, TextExamples
from qkv.data.findings import Progress, first_notes
from qkv.errors import InputError, InterruptedRun, QkvError
from qkv.evaluation.class_metrics import ComparedMetric
from qkv.models.language_model import count
from qkv.recipe import bundle
from qkv.recipe.draft import Values
from qkv.tasks import named_task
from qkv.tasks.classification import systems
from qkv.tasks.curve import curve_diagnosis
from qkv.tasks.protocol import Session
from qkv.training import devices
from qkv.training.diagnosis import Diagnosis
from qkv.training.loop import training_flops
from qkv.training.run import Event

Result = TypeVar("Result")
MIN_TRAINING_SECONDS = 2.0

# the default models of comparisons and searches
LABELLED_MODELS = {"tagging": ("cnn", "lstm", "encoder"), "images": ("cnn", "vision")}
TEXT_CLASSIFIERS = ("linear", "bag", "cnn", "lstm", "encoder")


def labelled_models(data: Labelled, plan: StudyPlan, chosen: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The models to train on labelled examples: the `chosen` ones of the option, or by default those that fit."""
    if plan.tokenizer and not isinstance(data.train, TextExamples | TagExamples):
        raise InputError(f"--tokenizer {plan.tokenizer['kind']}: does not apply, because these data contain no text.")
    default = systems.NUMBER_SYSTEMS if data.numeric else LABELLED_MODELS.get(data.task, TEXT_CLASSIFIERS)
    names = chosen or tuple(default)
    for name in names:
        if data.numeric:
            systems.number_section({"kind": name}, option)
        else:
            systems.find_system(name, data.task, option)
    return names


@dataclass(frozen=True)
class StudyPlan:
    """The data, the folder and the options that comparisons and searches have in common."""

    corpus: dict[str, Any]
    folder: Path
    seed: int = 0
    tokenizer: dict[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    note: Callable[[str], None] = lambda line: None
    task: dict[str, Any] = field(default_factory=dict)  # the section [task]

    def __post_init__(self) -> None:
        corpus, task = named_task(self.corpus)
        object.__setattr__(self, "corpus", corpus)
        object.__setattr__(self, "task", {**self.task, **task})

    def note_data(self, notes: Iterable[str]) -> None:
        """Report the most important notes on the data."""
        for note in first_notes(notes, "the description of these data"):
            self.note(note)

    def start(self, values: Values, run: Path, minutes: float, seed: int | None = None) -> Session:
        """Start a run as `qkv train` does; its minutes count from now."""
        training = {**values.get("training", {}), "seed": self.seed if seed is None else seed}
        task = {**self.task, **values.get("task", {})}
        values = {"corpus": self.corpus, **values, "task": task, "training": training}
        if self.tokenizer and "start" not in training:
            values["tokenizer"] = self.tokenizer
        return sessions.start(values, run, numbered=False, minutes=minutes, progress=self.progress)


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: its costs, and the run folder with its best model."""

    folder: Path
    parameters: int
    context: int
    flops: float
    seconds: float
    steps: int
    epochs: float
    diagnosis: Diagnosis
    values: dict[str, Any]  # for JSON


@dataclass(frozen=True)
class ComparisonPlan(StudyPlan):
    """A comparison; its total minutes count from `started_at`."""

    minutes: float = 10.0
    models: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    seeds: int = 1
    metric: ComparedMetric = "auto"
    equal: Literal["time", "parameters"] = "time"
    started_at: float = field(default_factory=time.perf_counter)
    watch: Callable[[Iterable[Event], Session], Iterable[Event]] = lambda events, session: events

    def minutes_per_run(self, runs: int) -> float:
        """Divide the minutes that are left. A plan is refused only if its own minutes are too few: on a busy machine,
        where few are left, each run gets the minimum."""
        if 60 * self.minutes / max(1, runs) < MIN_TRAINING_SECONDS:
            raise InputError(
                f"--minutes {self.minutes:g}: {60 * self.minutes:.0f} seconds for {runs} runs; expected at "
                f"least {MIN_TRAINING_SECONDS:g} for each. Give more minutes, or fewer systems with --models."
            )
        seconds_left = self.started_at + 60 * self.minutes - time.perf_counter()
        return max(MIN_TRAINING_SECONDS, seconds_left / max(1, runs)) / 60

    def train_seeds(
        self,
        name: str,
        values: Values,
        minutes: float,
        score: Callable[[TrainedRun, Session, Any], Result],
        prepare: Callable[[Session], None] = lambda session: None,
    ) -> list[Result]:
        """Train one run per seed, and return the result of `score` for each run, its session and its best model.
        `prepare` may change a session before its first step."""
        results = []
        for seed in range(self.seed, self.seed + self.seeds):
            self.note(f"{name}, seed {seed}: {minutes:.2f} minutes")
            started_at, folder_name = time.perf_counter(), name.replace(" ", "-")
            run = self.folder / "runs" / (folder_name if self.seeds == 1 else f"{folder_name}-{seed}")
            session = self.start(values, run, minutes, seed)
            prepare(session)
            for _ in self.watch(session.run.events(session.state, session.objective), session):
                pass
            seconds, training = time.perf_counter() - started_at, session.recipe.training
            model: Any = bundle.load(run, training.device).model
            flops = training_flops(model, session.objective, training.batch, session.state.samples)
            steps, epochs, diagnosis = session.state.step, session.epochs, curve_diagnosis(session)
            run_values = {"run": str(run), "seed": seed, "steps": steps, "epochs": epochs, "curve": diagnosis.kind}
            context = session.recipe.model.context
            trained = TrainedRun(run, count(model), context, flops, seconds, steps, epochs, diagnosis, run_values)
            results.append(score(trained, session, model))
            del session, model
            devices.trim_heap()
        return results

    def train_all(
        self, names: Iterable[str], train: Callable[[str], Result]
    ) -> tuple[dict[str, Result], dict[str, str]]:
        """Call `train` for every name; return the results, and the error messages of those that failed, by name."""
        results: dict[str, Result] = {}
        failed: dict[str, str] = {}
        for name in names:
            try:
                results[name] = train(name)
            except InterruptedRun:
                raise
            except QkvError as error:
                failed[name] = str(error)
                self.note(f"{name} is left out: {error}")
        return results, failed

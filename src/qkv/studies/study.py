"""What `qkv compare` and `qkv tune` share: the data, the folder, the seed, and a training under a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from qkv import session as sessions
from qkv.data.examples import Labelled, TagExamples, TextExamples
from qkv.data.findings import Progress
from qkv.errors import InputError, InterruptedRun, QkvError
from qkv.evaluation.class_metrics import ComparedMetric
from qkv.models.language_model import count
from qkv.recipe import bundle
from qkv.recipe.draft import Values
from qkv.tasks import named_task
from qkv.tasks.classification import systems
from qkv.tasks.protocol import Session
from qkv.training import devices
from qkv.training.loop import training_flops
from qkv.training.run import Event

T = TypeVar("T")
LEAST = 2.0  # seconds, for each training

# what is searched and compared by default
LABELLED_MODELS = {"tagging": ("cnn", "lstm", "encoder"), "images": ("cnn", "vision")}
TEXT_CLASSIFIERS = ("linear", "bag", "cnn", "lstm", "encoder")


def labelled_models(data: Labelled, plan: Study, given: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The systems that are tried on labelled examples: those given by the option, or those that fit the data."""
    if plan.tokenizer and not isinstance(data.train, TextExamples | TagExamples):
        raise InputError(f"--tokenizer {plan.tokenizer['kind']}: does not apply, because these data hold no text.")
    default = systems.NUMBER_SYSTEMS if data.numeric else LABELLED_MODELS.get(data.task, TEXT_CLASSIFIERS)
    names = given or tuple(default)
    for name in names:
        if data.numeric:
            systems.number_section({"kind": name}, option)
        else:
            systems.find_system(name, data.task, option)
    return names


@dataclass(frozen=True)
class Study:
    """What was asked for."""

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

    def start(self, values: Values, run: Path, minutes: float, seed: int | None = None) -> Session:
        """A run as `qkv train` starts it; its minutes count from now on."""
        training = {**values.get("training", {}), "seed": self.seed if seed is None else seed}
        task = {**self.task, **values.get("task", {})}
        values = {"corpus": self.corpus, **values, "task": task, "training": training}
        if self.tokenizer and "start" not in training:
            values["tokenizer"] = self.tokenizer
        return sessions.start(values, run, numbered=False, minutes=minutes, progress=self.progress)


@dataclass(frozen=True)
class TrainedRun:
    """A training that is over: what it cost, and where its best model is."""

    folder: Path
    parameters: int
    context: int
    flops: float
    seconds: float
    values: dict[str, Any]  # for JSON


@dataclass(frozen=True)
class ComparisonPlan(Study):
    """A comparison. The minutes are for everything, from `began` on."""

    minutes: float = 10.0
    models: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    seeds: int = 1
    metric: ComparedMetric = "auto"
    equal: Literal["time", "parameters"] = "time"
    began: float = field(default_factory=time.perf_counter)
    watch: Callable[[Iterable[Event], Session], Iterable[Event]] = lambda events, session: events

    def share(self, trainings: int) -> float:
        """The minutes of each training, of those that are left; on a busy machine, where reading and baselines took
        longer, the least there is: what is refused depends on the command alone."""
        if 60 * self.minutes / max(1, trainings) < LEAST:
            raise InputError(
                f"--minutes {self.minutes:g}: {60 * self.minutes:.0f} seconds for {trainings} trainings; expected at "
                f"least {LEAST:g} for each. Give more minutes, or fewer systems with --models."
            )
        left = self.began + 60 * self.minutes - time.perf_counter()
        return max(LEAST, left / max(1, trainings)) / 60

    def trained(
        self,
        name: str,
        values: Values,
        minutes: float,
        score: Callable[[TrainedRun, Session, Any], T],
        prepare: Callable[[Session], None] = lambda session: None,
    ) -> list[T]:
        """Train with every seed to the end; gives what `score` makes of each run, its session and its best model.
        `prepare` may change a session before its first step."""
        scores = []
        for seed in range(self.seed, self.seed + self.seeds):
            self.note(f"{name}, seed {seed}: {minutes:.2f} minutes")
            began, stem = time.perf_counter(), name.replace(" ", "-")
            run = self.folder / "runs" / (stem if self.seeds == 1 else f"{stem}-{seed}")
            session = self.start(values, run, minutes, seed)
            prepare(session)
            for _ in self.watch(session.run.events(session.state, session.objective), session):
                pass
            seconds, training = time.perf_counter() - began, session.recipe.training
            model: Any = bundle.load(run, training.device).model
            flops = training_flops(model, session.objective, training.batch, session.state.samples)
            facts = {"run": str(run), "seed": seed, "steps": session.state.step, "epochs": session.epochs}
            trained = TrainedRun(run, count(model), session.recipe.model.context, flops, seconds, facts)
            scores.append(score(trained, session, model))
            del session, model
            devices.trim_heap()
        return scores

    def each(self, names: Iterable[str], train: Callable[[str], T]) -> tuple[dict[str, T], dict[str, str]]:
        """The results by name, and the reasons of those that failed."""
        results: dict[str, T] = {}
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

"""One trial of a search: a run as `qkv train` makes it; its scores are told as they come, and it may be cut short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qkv import session as sessions
from qkv.data.findings import Progress
from qkv.recipe.draft import Values
from qkv.session import fresh_state
from qkv.storage import remove_folder
from qkv.studies import space
from qkv.tasks.protocol import Session
from qkv.training.loop import train
from qkv.training.run import Evaluation

LOOKS = 12  # of a run, by which trials are compared
PARTS = 8  # of the minutes: a trial gets one at most
A_TEXT = 1.0  # minutes of a trial on text, when nothing is said
KNOWN_STEPS, KNOWN_SECONDS = 5, 1.0  # after which the speed of a trial is known
NEVER = 1_000_000_000  # steps
FAR = 1.15  # times the time of a trial: what takes longer starts again with fewer steps


@dataclass(frozen=True)
class Search:
    """What was asked for."""

    corpus: dict[str, Any]
    folder: Path
    model: str | None = None
    trials: int | None = None
    minutes: float | None = None
    each: float | None = None  # minutes of a trial
    store: str | None = None
    seed: int = 0
    tokenizer: dict[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    say: Callable[[str], None] = lambda line: None


@dataclass(frozen=True)
class Subject:
    """What is searched over: the task, the systems, and what a score is called."""

    task: str
    names: tuple[str, ...]
    examples: int
    lower: bool
    numeric: bool = False  # a table of numbers

    @property
    def labelled(self) -> bool:
        return not self.lower

    def values(self, trial: space.Drawing) -> Values:
        name = self.names[0] if len(self.names) == 1 else trial.suggest_categorical("system", self.names)
        if self.numeric:
            return space.table(trial, name, self.examples)
        return space.labelled(trial, name, self.task, self.examples) if self.labelled else space.writing(trial, name)

    def usual(self) -> list[dict[str, Any]]:
        if not self.labelled:
            return []
        several = len(self.names) > 1
        figures = {n: space.usual_table(n) if self.numeric else space.usual_labelled(n, self.task) for n in self.names}
        return [{**({"system": name} if several else {}), **figures[name]} for name in self.names]


class Scores:
    """The development scores of a run as they come."""

    def __init__(self, lower: bool) -> None:
        self.lower, self.name = lower, ""
        self.best: float | None = None

    def take(self, scores: dict[str, Any]) -> float:
        self.name = "bits_per_byte" if self.lower else next(key for key in scores if key not in ("loss", "judged"))
        value = float(scores[self.name])
        if self.best is None or (value < self.best if self.lower else value > self.best):
            self.best = value
        return value


def attempt(
    search: Search, subject: Subject, values: Values, run: Path, left: float, trial: Any, scores: Scores
) -> bool:
    """A run to its end, or until it is cut short: then True."""
    each = search.each or (search.minutes / PARTS if search.minutes else None) or (None if subject.labelled else A_TEXT)
    values = {**values, "corpus": search.corpus, "training": {**values["training"], "seed": search.seed}}
    values["training"]["checkpoint_every"] = NEVER
    if search.tokenizer:
        values["tokenizer"] = search.tokenizer
    began = time.perf_counter()

    def start() -> Session:
        return sessions.start(values, run, numbered=False, minutes=each or A_TEXT, progress=search.progress)

    session = start()
    if subject.labelled and each is not None and (steps := _fitting(session, 60 * each)):
        remove_folder(run)
        values["training"]["steps"] = steps
        session = start()
    looked: set[int] = set()
    events = session.run.events(session.state, session.objective)
    try:
        for event in _evaluations(events):
            value = scores.take(event.scores)
            look = max(1, round(LOOKS * event.step / session.run.config.length))
            if look not in looked:
                looked.add(look)
                trial.report(value, look)
                if trial.should_prune():
                    return True
            if time.perf_counter() - began > left:
                return event.step < session.run.config.length
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
    return False


def _evaluations(events: Iterable[Any]) -> Iterator[Evaluation]:
    yield from (event for event in events if isinstance(event, Evaluation))


def _fitting(session: Session, seconds: float) -> int | None:
    """How many steps fit into the time, where the run has far more: measured on a copy, which is then forgotten."""
    config = session.run.config
    marks: list[float] = []
    mark = time.perf_counter()
    for step in train(fresh_state(session.recipe), session.objective, config):
        now = time.perf_counter()
        marks.append(now - mark)
        mark = now
        if (len(marks) > KNOWN_STEPS and sum(marks) > KNOWN_SECONDS) or step.number >= config.length:
            break
    a_step = sorted(marks)[len(marks) // 2]
    return max(1, int(seconds / a_step)) if a_step * config.length > FAR * seconds else None

"""What a comparison was asked for, and what came out of it: the table, and what may be said about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from qkv import session as sessions
from qkv.data.progress import Progress
from qkv.errors import InputError
from qkv.evaluation.intervals import Difference
from qkv.studies.standing import NAMES, Entry, Metric, difference
from qkv.tasks.protocol import Session
from qkv.training.run import Event
from qkv.version import __version__

Watching = Callable[[Iterable[Event], Session], Iterable[Event]]
LEAST = 2.0  # seconds, for each training


def unseen(events: Iterable[Event], session: Session) -> Iterable[Event]:
    return events


@dataclass(frozen=True)
class Plan:
    """What was asked for. The minutes are for everything, from `began` on."""

    corpus: dict[str, Any]
    folder: Path
    minutes: float = 10.0
    models: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    seeds: int = 1
    seed: int = 0
    tokenizer: dict[str, Any] = field(default_factory=dict)
    metric: Metric = "auto"
    equal: Literal["time", "parameters"] = "time"
    began: float = field(default_factory=time.perf_counter)
    progress: Progress | None = None
    say: Callable[[str], None] = lambda line: None
    watch: Watching = unseen

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

    def trained(self, values: dict[str, Any], name: str, seed: int, minutes: float) -> tuple[Session, float]:
        """A run as `qkv train` makes it, to its end, and its seconds."""
        began = time.perf_counter()
        run = self.folder / "runs" / (name if self.seeds == 1 else f"{name}-{seed}")
        values = {"corpus": self.corpus, **values, "training": {**values.get("training", {}), "seed": seed}}
        if self.tokenizer and "start" not in values["training"]:
            values["tokenizer"] = self.tokenizer
        session = sessions.start(values, run, numbered=False, minutes=minutes, began=began, progress=self.progress)
        self.before(session)
        for _ in self.watch(session.run.events(session.state, session.objective), session):
            pass
        return session, time.perf_counter() - began

    def before(self, session: Session) -> None:
        """A place to look at a run before its first step."""

    def all_seeds(self) -> Iterator[int]:
        yield from range(self.seed, self.seed + self.seeds)


@dataclass(frozen=True)
class Verdict:
    """Two systems on the reported rows."""

    first: str
    second: str
    found: Difference

    def sentence(self, metric: str) -> str:
        gap = self.found
        end = "noise, other rows of this kind may turn it around" if gap.noise else "more than noise"
        interval = f"95 % interval {gap.low:+.4f} to {gap.high:+.4f}"
        return f"{self.first} less {self.second}: {gap.difference:+.4f} {metric} ({interval}), {end}."


@dataclass(frozen=True)
class Comparison:
    """Entries are sorted by the reported figure, the best first; what is called best was chosen on other rows."""

    data: tuple[str, ...]
    task: str
    entries: tuple[Entry, ...]
    failed: dict[str, str]
    reported: int
    chosen_on: int
    unit: str  # of what is reported and chosen on
    minutes_each: float
    notes: tuple[str, ...]
    yardstick: str | None  # the system without a network that the best is held against
    lower: bool = False  # whether a lower figure is better

    @property
    def metric(self) -> str:
        return self.entries[0].measures[0].name

    @property
    def ranked(self) -> list[Entry]:
        """By the rows that nothing is reported of."""
        known = [entry for entry in self.entries if entry.chosen_by is not None]
        return sorted(known, key=lambda entry: entry.chosen_by or 0.0, reverse=not self.lower)

    @property
    def best(self) -> Entry:
        return self.ranked[0] if self.ranked else self.entries[0]

    def verdicts(self) -> list[Verdict]:
        """The best beside the second, and beside the yardstick."""
        ranked = self.ranked
        others = ranked[1:2] + [entry for entry in ranked if entry.name == self.yardstick]
        found = []
        for other in dict.fromkeys(entry.name for entry in others if entry.name != self.best.name):
            entry = next(each for each in ranked if each.name == other)
            if (gap := difference(self.best, entry)) is not None:
                found.append(Verdict(self.best.name, other, gap))
        return found

    def sentences(self) -> list[str]:
        name = NAMES[self.metric]
        best = self.best
        said = [
            f"Best on {self.chosen_on:,} {self.unit} held out of the training side: {best.name} "
            f"({name} {best.chosen_by:.4f}); on the {self.reported:,} {self.unit} reported here: "
            f"{'undefined' if best.figure.value is None else f'{best.figure.value:.4f}'}."
        ]
        return [*said, *(each.sentence(name) for each in self.verdicts())]

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": "qkv-compare/1",
            "version": __version__,
            "data": list(self.data),
            "task": self.task,
            "metric": self.metric,
            "lower_is_better": self.lower,
            "best": self.best.name,
            "reported": self.reported,
            "held_out": self.chosen_on,
            "unit": self.unit,
            "minutes_each": self.minutes_each,
            "systems": [entry.values() for entry in self.entries],
            "failed": self.failed,
            "differences": [
                {"first": each.first, "second": each.second, **each.found.values()} for each in self.verdicts()
            ],
            "sentences": self.sentences(),
            "notes": list(self.notes),
        }


def in_order(entries: Iterable[Entry], *, lower: bool) -> tuple[Entry, ...]:
    """The best reported figure first; what has none comes last."""

    def key(entry: Entry) -> tuple[bool, float]:
        value = entry.figure.value
        return value is None, 0.0 if value is None else value if lower else -value

    return tuple(sorted(entries, key=key))

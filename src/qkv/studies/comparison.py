"""What a comparison was asked for, and what came out of it: the table, and what may be said about it.

Systems side by side on the same rows: a figure with its interval for each, and which differences are noise.

What a row gives to a figure is a few numbers whose totals make it (`Measure`), so that drawing rows again is adding
them up again. A system that was trained with several seeds has the mean of their figures.

    accuracy   right                         F1    right, said, true          words     right, words
    macro-F1, Matthews   right, said, true of each class                      Pearson   y, p, y², p², y p
    bits       nats, tokens
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from qkv import session as sessions
from qkv.data.examples import Examples, TagExamples
from qkv.data.findings import Progress
from qkv.errors import InputError
from qkv.evaluation import classification_metrics, labelled_evaluation
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore
from qkv.evaluation.intervals import Difference, Estimate, bootstrap, mean, paired
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.regression import NumberScore
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


Array = NDArray[Any]
Totals = Callable[[Array, int], Array]  # totals of the rows (B, K) and their number -> figures (B,)
Metric = Literal["auto", "accuracy", "f1", "macro_f1", "matthews"]
NAMES = {**labelled_evaluation.NAMES, "bits_per_byte": "bits per byte"}


@dataclass(frozen=True)
class Measure:
    """What each row gives, (N, K), and what their totals make."""

    name: str
    rows: Array = field(repr=False)
    score: Totals

    @property
    def value(self) -> float:
        """The figure itself; nan where it is not defined."""
        with np.errstate(all="ignore"):
            return float(self.score(self.rows.sum(0, dtype=np.float64)[None], len(self.rows))[0])


@dataclass(frozen=True)
class Entry:
    """A system and what became of it: a line of the table."""

    name: str
    learned: bool
    measures: tuple[Measure, ...] = field(repr=False)  # on the reported rows, one for each seed
    chosen_by: float | None  # the figure on rows held out of the training side, the mean over seeds
    macro_f1: float | None
    parameters: int | None
    flops: float | None  # of a training
    train_seconds: float  # of a training
    predictions_per_second: float | None
    more: dict[str, Any] = field(default_factory=dict)  # all other scores, and where the runs are

    @cached_property
    def figure(self) -> Estimate:
        return estimate(self.measures)

    def values(self) -> dict[str, Any]:
        """For JSON."""
        by_seed = [each.value for each in self.measures]
        return {
            "system": self.name,
            "learned": self.learned,
            **self.figure.values(self.measures[0].name),
            "by_seed": by_seed if len(by_seed) > 1 else None,
            "held_out": self.chosen_by,
            "macro_f1": self.macro_f1,
            "parameters": self.parameters,
            "training_flops": self.flops,
            "training_seconds": self.train_seconds,
            "predictions_per_second": self.predictions_per_second,
            **self.more,
        }


def measure(judgement: LabelledScore, examples: Examples, metric: Metric = "auto") -> Measure:
    """What every row of the examples gives to the figure that they are judged by."""
    score = judgement.score
    if metric != "auto" and metric != judgement.name and not isinstance(score, ClassScore):
        raise InputError(f"--metric {metric}: these examples are judged by {NAMES[judgement.name]}. Leave it out.")
    if isinstance(score, NumberScore):
        y = examples.targets - float(np.mean(examples.targets))
        p = y + score.errors
        return Measure("pearson", np.stack([y, p, y * y, p * p, y * p], axis=1), _pearson)
    if not isinstance(score, ClassScore):
        name = "micro_f1" if isinstance(score, MultilabelScore) else "span_f1"
        return Measure(name, score.counts, lambda totals, rows: classification_metrics.f1(*totals.T))
    if metric == "f1" and len(score.names) != 2:
        raise InputError(f"--metric f1: is for two classes, and here are {len(score.names)}. Take macro_f1.")
    by_class: dict[str, Totals] = {"f1": _second, "macro_f1": _macro, "matthews": _matthews}
    if metric in by_class:
        return Measure(metric, _by_class(score, examples), by_class[metric])
    if isinstance(examples, TagExamples):
        rows = np.stack([_summed(score.correct, examples), examples.lengths], axis=1)
        return Measure("accuracy", rows, lambda totals, rows: totals[:, 0] / totals[:, 1])
    return Measure("accuracy", score.correct[:, None].astype(np.int64), mean)


def _summed(each: Array, examples: TagExamples) -> Array:
    """Of each sentence, from words."""
    starts = np.concatenate([[0], np.cumsum(examples.lengths)[:-1]])
    return np.add.reduceat(each.astype(np.int64), starts)


def _by_class(score: ClassScore, examples: Examples) -> Array:
    """For each row and class whether answer and truth were it, the answer, the truth; (N, 3 C)."""
    classes = np.arange(len(score.names))
    found, there = (each[:, None] == classes for each in (score.predictions, score.targets))
    table = np.concatenate([found & there, found, there], axis=1)
    return (
        np.stack([_summed(column, examples) for column in table.T], 1) if isinstance(examples, TagExamples) else table
    )


def _second(totals: Array, rows: int) -> Array:
    """Of the second of two classes, which is called 1 or yes."""
    return classification_metrics.f1(*totals[:, 1::2].T)


def _macro(totals: Array, rows: int) -> Array:
    both, found, there = np.split(totals, 3, axis=1)
    return classification_metrics.f1(both, found, there).mean(1)


def _matthews(totals: Array, rows: int) -> Array:
    both, found, there = np.split(totals.astype(np.float64), 3, axis=1)
    all_rows = there.sum(1)
    spread = (all_rows**2 - (found**2).sum(1)) * (all_rows**2 - (there**2).sum(1))
    return (both.sum(1) * all_rows - (found * there).sum(1)) / np.sqrt(np.where(spread > 0, spread, np.inf))


def _pearson(totals: Array, rows: int) -> Array:
    y, p, yy, pp, yp = totals.T
    with np.errstate(all="ignore"):
        spread = (yy - y * y / rows) * (pp - p * p / rows)
        flat = spread <= 1e-24 * np.abs(yy * pp)
        return np.where(flat, np.nan, (yp - y * p / rows) / np.sqrt(np.abs(spread)))


def _joined(measures: Sequence[Measure], times: int) -> tuple[Array, Totals]:
    """The rows of all seeds beside each other, repeated up to so many, and the mean of their figures."""
    rows = [measures[number % len(measures)].rows for number in range(times)]
    width, score = rows[0].shape[1], measures[0].score

    def together(totals: Array, count: int) -> Array:
        parts = [score(totals[:, at : at + width], count) for at in range(0, times * width, width)]
        return np.mean(parts, axis=0)

    return np.hstack(rows).astype(np.float64), together


def estimate(measures: Sequence[Measure]) -> Estimate:
    """The mean figure of all seeds, and how far it would move on other rows."""
    table, score = _joined(measures, len(measures))
    kinds, counts = np.unique(table, axis=0, return_counts=True)
    with np.errstate(all="ignore"):
        return bootstrap(counts, lambda drawn: score(drawn @ kinds, len(table))[:, None])[0]


def difference(first: Entry, second: Entry) -> Difference | None:
    """Two systems on the same rows; None where one of them has no figure."""
    if first.figure.value is None or second.figure.value is None:
        return None
    times = max(len(first.measures), len(second.measures))
    ours, score = _joined(first.measures, times)
    theirs, _ = _joined(second.measures, times)
    return paired(ours, theirs, score)

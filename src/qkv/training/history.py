"""What a run's metrics show, in a form for diagnosis: stages, each ending in an evaluation, and training losses.

Noise is separated from change twice. Losses of single steps scatter: their noise is taken from the differences of
neighbours, σ² = Σ (l_t - l_{t-1})² / 2n (von Neumann et al. 1941), which a trend leaves alone. Evaluations see the same
text each time, so two are compared part by part: the error of a difference is that of the parts' differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LogLine = Mapping[str, Any]  # a line of metrics.jsonl
MOST_BINS = 96
MOST_STAGES = 24  # groups of evaluations that are compared, at most: among many, one is always low by chance
RECENT, LATELY = 5, 20  # steps


@dataclass
class Losses:
    """Training losses of neighbouring steps."""

    number: int = 0
    total: float = 0.0
    squares: float = 0.0  # of the differences of neighbours
    norms: float = 0.0  # of the gradients

    def add(self, loss: float, before: float | None, norm: float) -> None:
        self.number += 1
        self.total += loss
        self.squares += 0.0 if before is None else (loss - before) ** 2
        self.norms += norm

    def __add__(self, other: Losses) -> Losses:
        sums = (self.total + other.total, self.squares + other.squares, self.norms + other.norms)
        return Losses(self.number + other.number, *sums)

    @property
    def mean(self) -> float:
        return self.total / self.number if self.number else math.nan

    @property
    def noise(self) -> float:
        """The standard deviation of one step's loss, without its trend."""
        return math.sqrt(self.squares / (2 * self.number)) if self.number else math.nan

    @property
    def error(self) -> float:
        return self.noise / math.sqrt(self.number) if self.number else math.nan


@dataclass(frozen=True)
class Stage:
    """The steps since the evaluation before, and what the evaluation found."""

    step: int
    training: Losses
    validation: float
    parts: tuple[float, ...] = ()


@dataclass(frozen=True)
class Change:
    """The difference of two validation losses, later minus earlier, with its standard error."""

    mean: float
    error: float

    def above(self, least: float, errors: float = 3.0) -> bool:
        """Larger than `least`, and not by chance."""
        return self.mean > least and self.mean > errors * self.error


def change(earlier: Stage, later: Stage) -> Change:
    """Compare two evaluations of the same text part by part; where there are few parts, chance is given more room."""
    pairs = list(zip(earlier.parts, later.parts, strict=False))
    mean = later.validation - earlier.validation
    if len(pairs) < 3 or len(earlier.parts) != len(later.parts):
        return Change(mean, math.inf)
    differences = [two - one for one, two in pairs]
    wide = 1 + 2 / (len(differences) - 1)  # Student's factor, roughly
    return Change(mean, wide * error_of(differences))


def error(stage: Stage) -> float:
    """The standard error of an evaluation alone: how much another text of the same kind would differ."""
    return error_of(stage.parts) if len(stage.parts) > 2 else math.inf


def error_of(values: Sequence[float]) -> float:
    """The standard error of a mean."""
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((each - middle) ** 2 for each in values) / (len(values) - 1) / len(values))


@dataclass
class Rise:
    """The highest that training losses rose above what they had been: a spike, or the way out."""

    since: int = 0  # the step at which they were lowest
    start: float = 0.0
    top: float = 0.0

    @property
    def height(self) -> float:
        return self.top - self.start


@dataclass
class History:
    """Takes the lines of a log one by one. What it keeps of the steps does not grow with the run."""

    steps: int = 0
    stages: list[Stage] = field(default_factory=list)
    bins: list[Losses] = field(default_factory=list)  # all training losses, in order, the same number of steps in each
    broken: int | None = None  # the step at which a loss was no number
    first: float = math.nan  # the loss before anything was learned
    all: Losses = field(default_factory=Losses)
    rise: Rise = field(default_factory=Rise)
    _width: int = 1
    _since: Losses = field(default_factory=Losses)
    _last: float | None = None
    _latest: list[float] = field(default_factory=list)
    _lowest: float = math.inf
    _lowest_at: int = 0

    @classmethod
    def of(cls, lines: Iterable[LogLine]) -> History:
        history = cls()
        for line in lines:
            history.add(line)
        return history

    def add(self, line: LogLine) -> None:
        if "loss" in line:
            self._step(line["step"], line["loss"], line.get("gradient_norm") or 0.0)
        if line.get("validation_loss") is not None:
            parts = tuple(line.get("validation_parts") or ())
            self.stages.append(Stage(line["step"], self._since, line["validation_loss"], parts))
            self._since = Losses()

    def _step(self, step: int, loss: float | None, norm: float) -> None:
        if loss is None or not math.isfinite(loss):
            self.broken = step
            return
        self.steps = step
        if not self.all.number:
            self.first = loss
        if not self.bins or self.bins[-1].number >= self._width:
            if len(self.bins) == MOST_BINS:
                self.bins = [one + two for one, two in zip(self.bins[::2], self.bins[1::2], strict=True)]
                self._width *= 2
            self.bins.append(Losses())
        for each in (self.bins[-1], self._since, self.all):
            each.add(loss, self._last, norm)
        self._last = loss
        self._watch(step, loss)

    def _watch(self, step: int, loss: float) -> None:
        """Notice a rise of the last few losses above the lowest mean that was ever held for some steps."""
        self._latest = [*self._latest[-LATELY + 1 :], loss]
        if len(self._latest) < LATELY:
            return
        now = math.fsum(self._latest[-RECENT:]) / RECENT
        noise = self.all.noise / math.sqrt(RECENT)
        if now - self._lowest > max(8 * noise, self.rise.height):
            self.rise = Rise(self._lowest_at, self._lowest, now)
        if (lately := math.fsum(self._latest) / LATELY) < self._lowest:
            self._lowest, self._lowest_at = lately, step

    def training(self, start: float, end: float) -> Losses:
        """The training losses of a part of the run, as in (2/3, 1)."""
        first = min(int(start * len(self.bins)), len(self.bins) - 1)
        return sum(self.bins[first : max(first + 1, math.ceil(end * len(self.bins)))], Losses())

    @property
    def best(self) -> Stage | None:
        return min(self.stages, key=lambda stage: stage.validation, default=None)

    def groups(self) -> list[Stage]:
        """The stages, neighbours taken together where there are many."""
        size = -(-len(self.stages) // MOST_STAGES) or 1
        # counted from the end, so that the newest evaluations are a whole group
        starts = range(len(self.stages) % size, len(self.stages), size)
        head = [together(self.stages[: starts[0]])] if starts and starts[0] else []
        return head + [together(self.stages[start : start + size]) for start in starts]


def together(stages: Sequence[Stage]) -> Stage:
    if len(stages) == 1:
        return stages[0]
    parts = tuple(math.fsum(each) / len(stages) for each in zip(*(stage.parts for stage in stages), strict=False))
    mean = math.fsum(stage.validation for stage in stages) / len(stages)
    return Stage(stages[-1].step, sum((stage.training for stage in stages), Losses()), mean, parts)

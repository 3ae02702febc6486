"""The metrics of a run, summarised for diagnosis: its training losses, and its stages, each of which ends in an
evaluation.

Noise is estimated in two ways. The noise of training losses comes from the differences of neighbouring steps,
σ² = Σ (l_t - l_{t-1})² / 2n (von Neumann et al. 1941), which a trend hardly changes. Evaluations score the same text
each time, so two of them are compared part by part, and the error of their difference comes from the parts'
differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LogLine = Mapping[str, Any]  # a line of metrics.jsonl
MAX_BINS = 96
MAX_GROUPS = 24  # of evaluations that are compared; among more, one would always be low by chance
SHORT_WINDOW, LONG_WINDOW = 5, 20  # steps whose mean loss is the present one, and the one to compare it with


@dataclass
class Losses:
    """Statistics of the training losses of consecutive steps."""

    count: int = 0
    total: float = 0.0
    squared_differences: float = 0.0  # of neighbouring steps

    def add(self, loss: float, previous: float | None) -> None:
        self.count += 1
        self.total += loss
        self.squared_differences += 0.0 if previous is None else (loss - previous) ** 2

    def __add__(self, other: Losses) -> Losses:
        squared_differences = self.squared_differences + other.squared_differences
        return Losses(self.count + other.count, self.total + other.total, squared_differences)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def noise(self) -> float:
        """The standard deviation of a step's loss around its trend."""
        return math.sqrt(self.squared_differences / (2 * self.count)) if self.count else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.noise / math.sqrt(self.count) if self.count else math.nan


@dataclass(frozen=True)
class Stage:
    """An evaluation, and the training steps since the evaluation before it."""

    step: int
    training: Losses
    validation: float
    parts: tuple[float, ...] = ()  # the losses of parts of the validation text


@dataclass(frozen=True)
class Change:
    """The difference of two validation losses, later minus earlier, with its standard error."""

    mean: float
    error: float

    def is_above(self, least: float, errors: float = 3.0) -> bool:
        """Whether the change is larger than `least`, and larger than chance explains."""
        return self.mean > least and self.mean > errors * self.error


def compare(earlier: Stage, later: Stage) -> Change:
    """The change between two evaluations of the same text; with few parts its error is enlarged."""
    if len(earlier.parts) < 3 or len(earlier.parts) != len(later.parts):
        return Change(later.validation - earlier.validation, math.inf)
    differences = [after - before for before, after in zip(earlier.parts, later.parts, strict=True)]
    factor = 1 + 2 / (len(differences) - 1)  # about Student's factor
    return Change(later.validation - earlier.validation, factor * standard_error(differences))


def sampling_error(stage: Stage) -> float:
    """The standard error of an evaluation: how much it would differ on another text of the same kind."""
    return standard_error(stage.parts) if len(stage.parts) > 2 else math.inf


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the values' mean."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


@dataclass
class Rise:
    """The largest rise of the training loss above its lowest mean so far: a spike, or a divergence."""

    since: int = 0  # the step with the lowest mean
    start: float = 0.0
    top: float = 0.0

    @property
    def height(self) -> float:
        return self.top - self.start


@dataclass
class History:
    """Takes the lines of metrics.jsonl one by one. Apart from the stages, its memory does not grow with the run."""

    steps: int = 0
    stages: list[Stage] = field(default_factory=list)
    bins: list[Losses] = field(default_factory=list)  # the training losses in order, equally many steps in each bin
    not_finite_at: int | None = None  # the last step whose loss was not finite
    first_loss: float = math.nan
    all_losses: Losses = field(default_factory=Losses)
    rise: Rise = field(default_factory=Rise)
    _bin_size: int = 1  # steps
    _since_evaluation: Losses = field(default_factory=Losses)
    _previous: float | None = None
    _recent: list[float] = field(default_factory=list)  # the losses of the last LONG_WINDOW steps
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
            self._add_loss(line["step"], line["loss"])
        if line.get("validation_loss") is not None:
            parts = tuple(line.get("validation_parts") or ())
            self.stages.append(Stage(line["step"], self._since_evaluation, line["validation_loss"], parts))
            self._since_evaluation = Losses()

    def _add_loss(self, step: int, loss: float | None) -> None:
        if loss is None or not math.isfinite(loss):
            self.not_finite_at = step
            return
        self.steps = step
        if not self.all_losses.count:
            self.first_loss = loss
        if not self.bins or self.bins[-1].count >= self._bin_size:
            if len(self.bins) == MAX_BINS:
                self.bins = [first + second for first, second in zip(self.bins[::2], self.bins[1::2], strict=True)]
                self._bin_size *= 2
            self.bins.append(Losses())
        for losses in (self.bins[-1], self._since_evaluation, self.all_losses):
            losses.add(loss, self._previous)
        self._previous = loss
        self._note_rise(step, loss)

    def _note_rise(self, step: int, loss: float) -> None:
        """Compare the mean loss of the last few steps with the lowest mean of a longer window so far."""
        self._recent = [*self._recent[-LONG_WINDOW + 1 :], loss]
        if len(self._recent) < LONG_WINDOW:
            return
        now = math.fsum(self._recent[-SHORT_WINDOW:]) / SHORT_WINDOW
        noise = self.all_losses.noise / math.sqrt(SHORT_WINDOW)
        if now - self._lowest > max(8 * noise, self.rise.height):
            self.rise = Rise(self._lowest_at, self._lowest, now)
        if (mean := math.fsum(self._recent) / LONG_WINDOW) < self._lowest:
            self._lowest, self._lowest_at = mean, step

    def training_losses(self, start: float, end: float) -> Losses:
        """The training losses between two fractions of the run, such as 2/3 and 1."""
        first = min(int(start * len(self.bins)), len(self.bins) - 1)
        return sum(self.bins[first : max(first + 1, math.ceil(end * len(self.bins)))], Losses())

    @property
    def best(self) -> Stage | None:
        return min(self.stages, key=lambda stage: stage.validation, default=None)

    def groups(self) -> list[Stage]:
        """The stages; if there are many, groups of neighbouring stages merged into one each."""
        size = -(-len(self.stages) // MAX_GROUPS) or 1
        starts = range(len(self.stages) % size, len(self.stages), size)  # only the first group may be smaller
        first = [merge(self.stages[: starts[0]])] if starts and starts[0] else []
        return first + [merge(self.stages[start : start + size]) for start in starts]


def merge(stages: Sequence[Stage]) -> Stage:
    """One stage with the mean losses of several."""
    if len(stages) == 1:
        return stages[0]
    parts = tuple(math.fsum(losses) / len(stages) for losses in zip(*(stage.parts for stage in stages), strict=False))
    mean = math.fsum(stage.validation for stage in stages) / len(stages)
    return Stage(stages[-1].step, sum((stage.training for stage in stages), Losses()), mean, parts)

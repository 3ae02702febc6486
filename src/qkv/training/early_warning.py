"""A look at a run while it goes on: one warning, at the evaluation where it is established that it goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from qkv.training.diagnosis import diverged, overfitting
from qkv.training.history import History


class Watch:
    """Looks on while a run goes; says once, at the evaluation where it is established, that it goes wrong."""

    def __init__(self, epoch: float, before: Iterable[Mapping[str, Any]] = ()) -> None:
        """`before`: lines of the journal from an earlier sitting; those that will be done again do not count."""
        self.epoch = epoch
        self.history = History()
        self.said = False
        self.before = list(before)

    def take(self, line: Mapping[str, Any]) -> str:
        """A line of the journal in, a warning or nothing out."""
        earlier, self.before = self.before, []
        for old in earlier:
            if old["step"] < line["step"]:
                self.take(old)
        self.history.add(line)
        number = len(self.history.stages)
        if self.said or "validation_loss" not in line or number % (1 + number // 40):
            return ""
        warning = self._diverging() or self._overfitting() or self._by_heart()
        self.said = bool(warning)
        return warning

    def _diverging(self) -> str:
        if diverged(self.history) is None:
            return ""
        now = self.history.stages[-1].training.mean if self.history.stages else math.nan
        was = self.history.rise.start or self.history.first
        return f"the training loss went up, from {was:.3f} to {now:.3f}: the rate may be too high"

    def _overfitting(self) -> str:
        since, best = overfitting(self.history, self.epoch), self.history.best
        if since is None or best is None:
            return ""
        last = self.history.stages[-1]
        return (
            f"overfitting: since step {since:,} the validation loss went from {best.validation:.3f} to "
            f"{last.validation:.3f} while the training loss fell; the model of step {since:,} is kept"
        )

    def _by_heart(self) -> str:
        """The gap alone: far better on the training text than at the best evaluation, and no better on other text."""
        last, best = self.history.stages[-1], self.history.best
        if best is None or best is last or self.history.steps <= self.epoch:
            return ""
        if last.training.mean > min(0.5 * last.validation, 0.75 * best.training.mean):
            return ""
        return (
            f"the training text is being learned by heart: loss {last.training.mean:.3f} on it, "
            f"{last.validation:.3f} on the validation text; the model of step {best.step:,} is kept"
        )

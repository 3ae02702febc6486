"""Warns once during a run, at the evaluation that shows that it goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable

from qkv.training.diagnosis import divergence_step, overfitting_step
from qkv.training.history import History, LogLine


class EarlyWarning:
    def __init__(self, epoch: float, earlier: Iterable[LogLine] = ()) -> None:
        """`earlier` are the log lines of earlier sessions; steps that are done again after a resume are ignored."""
        self.epoch = epoch
        self.history = History()
        self.warned = False
        self.earlier = list(earlier)

    def take(self, line: LogLine) -> str:
        """Take a line of the log; a warning is returned if it is due, else an empty string."""
        earlier, self.earlier = self.earlier, []
        for old in earlier:
            if old["step"] < line["step"]:
                self.take(old)
        self.history.add(line)
        evaluations = len(self.history.stages)
        # in long runs not every evaluation is examined
        if self.warned or "validation_loss" not in line or evaluations % (1 + evaluations // 40):
            return ""
        warning = self._diverging() or self._overfitting() or self._memorising()
        self.warned = bool(warning)
        return warning

    def _diverging(self) -> str:
        if divergence_step(self.history) is None:
            return ""
        now = self.history.stages[-1].training.mean if self.history.stages else math.nan
        before = self.history.rise.start or self.history.first_loss
        return f"the training loss went up, from {before:.3f} to {now:.3f}: the learning rate may be too high"

    def _overfitting(self) -> str:
        since, best = overfitting_step(self.history, self.epoch), self.history.best
        if since is None or best is None:
            return ""
        last = self.history.stages[-1]
        return (
            f"overfitting: since step {since:,} the validation loss went from {best.validation:.3f} to "
            f"{last.validation:.3f} while the training loss fell; the model of step {since:,} is kept"
        )

    def _memorising(self) -> str:
        """A warning by the training loss alone: it is far lower than the validation loss, and than it was at the best
        evaluation."""
        last, best = self.history.stages[-1], self.history.best
        if best is None or best is last or self.history.steps <= self.epoch:
            return ""
        if last.training.mean > min(0.5 * last.validation, 0.75 * best.training.mean):
            return ""
        return (
            f"the training text is being memorised: loss {last.training.mean:.3f} on it, "
            f"{last.validation:.3f} on the validation text; the model of step {best.step:,} is kept"
        )

"""The clock of a run with a time budget: it moves the end when steps turn out slower or faster than planned.

Only how many steps there will be, and how often they are evaluated, is decided here. Each decision is written into the
recipe (`training.steps_changes`, `training.evaluate_every_changes`), so that the recipe alone gives the same run again.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable

RECENT, LONG_AGO = 50, 400  # steps that give the present speed, near the end and while much is left
EARLY = 5  # steps before which little is known
BLIND = 0.1  # of the time: by then even fewer steps must do
SHORTER, LONGER = 0.015, 0.04  # of all steps: smaller moves of the end are not worth a line in the recipe
EVALUATING = 0.1  # of the time, about, at most goes into evaluations while the run goes on
RARER = 1.5  # times: evaluations that are rarer by less are not worth a line
SCORING = 0.15  # of the time at most is kept for the last scores: what does not fit is scored on a sample
SLOWEST = 8.0  # times as long as measured, at most, the last scores are expected to take


class Clock:
    """Measures steps and evaluations, and says where the end must be so that all is over at `ends_at`.

    After the last step `scoring` seconds are kept for the last scores and `closing` for what follows them. Both were
    measured before the run, when an evaluation took `evaluation` seconds: as that changes, so do they. No run gets
    longer than `longest` steps.
    """

    def __init__(
        self,
        ends_at: float,
        *,
        closing: float,
        longest: int,
        scoring: float = 0.0,
        evaluation: float = 0.0,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.ends_at, self.closing, self.longest, self.now = ends_at, closing, longest, now
        self.scoring, self.expected = scoring, evaluation
        self.steps: deque[float] = deque(maxlen=LONG_AGO)
        self.evaluation = evaluation
        self.mark = self.began = now()

    def minutes_left(self) -> float:
        return max(0.0, self.ends_at - self.now()) / 60

    def begin(self) -> None:
        """The first step starts now."""
        self.mark = self.now()

    def stepped(self) -> None:
        self.steps.append(self._lap())

    def evaluated(self) -> None:
        self.evaluation = self._lap()

    def _lap(self) -> float:
        before, self.mark = self.mark, self.now()
        return self.mark - before

    @property
    def slower(self) -> float:
        """How much longer an evaluation takes than before the run."""
        return min(SLOWEST, self.evaluation / self.expected) if self.expected > 0 else 1.0

    @property
    def after_scoring(self) -> float:
        """Seconds for what follows the last scores."""
        return self.closing * max(1.0, self.slower)

    @property
    def reserve(self) -> float:
        """Seconds for all that follows the last evaluation of the run."""
        return self.after_scoring + min(self.scoring * self.slower, SCORING * (self.ends_at - self.began))

    def a_step(self, ahead: int) -> float | None:
        """Seconds of a step; None while they are not known. One stumble tells nothing about the rest, and a slow minute
        little about an hour: with many steps ahead there is time to see."""
        if len(self.steps) >= EARLY:
            return statistics.median(list(self.steps)[-max(RECENT, ahead // 8) :])
        late = sum(self.steps) > BLIND * (self.ends_at - self.began)
        return min(self.steps) if late and len(self.steps) > 1 else None

    def end(self, step: int, end: int, every: int, *, may_grow: bool) -> int:
        """How many steps the run should have, given `step` done, `end` planned and an evaluation `every` so many."""
        alone = self.a_step(end - step)
        if alone is None:
            return end
        left = self.ends_at - self.reserve - self.evaluation - self.now()
        fits = step + max(
            int(may_grow), int(left / (alone + self.evaluation / every))
        )  # one more is due after an evaluation
        fits = min(self.longest, fits)
        moves = end - fits > SHORTER * end or (may_grow and fits - end > LONGER * end)
        return fits if moves else end

    def every(self, step: int, end: int, every: int) -> int:
        """After how many steps to evaluate next: rarer where evaluations take more than their share of the time."""
        alone = self.a_step(end - step)
        if alone is None or not self.evaluation:
            return every
        wanted = math.ceil(self.evaluation * (1 - EVALUATING) / (EVALUATING * max(alone, 1e-9)))
        return min(wanted, max(1, end)) if wanted > RARER * every else every

"""The clock of a run that has only so much time: it moves the end when steps turn out slower or faster than planned.

Only how many steps there will be is decided here. Each decision is written into the recipe (`training.turns`), so that
the recipe alone gives the same run again.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

RECENT, LONG_AGO = 50, 400  # steps that tell the present speed, near the end and while much is left
EARLY = 5  # steps before which nothing is known
SHORTER, LONGER = 0.015, 0.04  # of all steps: smaller moves of the end are not worth a line in the recipe


class Clock:
    """Measures steps and evaluations, and says where the end must be so that all is over at `ends_at`.

    `closing` seconds are kept for what comes after the last step; no run gets longer than `longest` steps.
    """

    def __init__(
        self, ends_at: float, *, closing: float, longest: int, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self.ends_at, self.closing, self.longest, self.now = ends_at, closing, longest, now
        self.steps: deque[float] = deque(maxlen=LONG_AGO)
        self.evaluation = 0.0
        self.mark = now()

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

    def end(self, step: int, end: int, every: int, *, may_grow: bool) -> int:
        """How many steps the run should have, given `step` done, `end` planned and an evaluation `every` so many."""
        if len(self.steps) < EARLY:
            return end
        # one stumble tells nothing about the rest, and a slow minute little about an hour: there is time to see
        recent = list(self.steps)[-max(RECENT, (end - step) // 8) :]
        a_step = statistics.median(recent) + self.evaluation / every
        left = self.ends_at - self.closing - self.evaluation - self.now()
        fits = min(self.longest, step + max(int(may_grow), int(left / a_step)))  # after an evaluation one more is due
        moves = end - fits > SHORTER * end or (may_grow and fits - end > LONGER * end)
        return fits if moves else end

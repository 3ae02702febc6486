"""The clock of a run with a time budget. It changes the number of steps when they are slower or faster than planned.

It decides nothing but the number of steps and how often to evaluate. Every decision is written into the recipe
(`training.steps_changes`, `training.evaluate_every_changes`), so that the recipe alone can repeat the run.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable

MIN_WINDOW, MAX_WINDOW = 50, 400  # last steps that give the present speed: fewer near the end
MIN_STEPS = 5  # that must have been timed to know the speed
IMPATIENCE = 0.1  # of the time: after it two steps are enough
MIN_SHORTENING, MIN_LENGTHENING = 0.015, 0.04  # of all steps: smaller changes of their number are not made
EVALUATION_SHARE = 0.1  # of the time, about, may be spent on evaluations during the run
MIN_INTERVAL_FACTOR = 1.5  # by which the interval of evaluations grows at least, if it does
MAX_SCORING_SHARE = 0.15  # of the time is reserved for the final scores; if they take longer, a sample is scored
MAX_SLOWDOWN = 8.0  # of the final scores compared with their measurement before the run
FIRST_STEP = 0.6  # of the first step's time; it also loads kernels and takes memory, so later ones are faster
LONG_STEP = 0.4  # of the time: a first step that takes longer gives the speed
FLAT_SHARE = 0.25  # of a run's steps: without a better model in that last part, the validation curve is flat


class ProcessorShare:
    """The share of the time since it was created that the calling thread spent on the processor.

    A thread that computes all the time has about 1 on a quiet machine, and less where it waits for others.
    """

    def __init__(
        self, now: Callable[[], float] = time.perf_counter, on_processor: Callable[[], float] = time.thread_time
    ) -> None:
        self.now, self.on_processor = now, on_processor
        self.began = now(), on_processor()

    @property
    def value(self) -> float:
        passed = self.now() - self.began[0]
        return min(1.0, max(0.01, (self.on_processor() - self.began[1]) / passed)) if passed > 0 else 1.0


class Clock:
    """Times steps and evaluations, and decides how many steps fit until `ends_at`.

    After the last step, `scoring` seconds are reserved for the final scores and `closing` seconds for what follows.
    Both were measured before the run, when an evaluation took `evaluation` seconds; if evaluations become slower, more
    time is reserved. A run has no more than `longest` steps, but where it `extends`, while the validation curve still
    improves, it may have twice as many as it has had.
    """

    def __init__(
        self,
        ends_at: float,
        *,
        closing: float,
        longest: int,
        scoring: float = 0.0,
        evaluation: float = 0.0,
        extends: bool = False,
        share: float = 1.0,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.ends_at, self.closing, self.longest, self.now = ends_at, closing, longest, now
        self.scoring, self.expected_evaluation = scoring, evaluation
        self.extends, self.share = extends, share  # of the processor, measured before the run
        self.flat: tuple[int, int] | None = None  # a step at which the validation curve was flat, and the best step
        self.step_times: deque[float] = deque(maxlen=MAX_WINDOW)
        self.evaluation = evaluation
        self.lap_began = self.began = now()

    def minutes_left(self) -> float:
        return max(0.0, self.ends_at - self.now()) / 60

    def start_lap(self) -> None:
        """Call this right before the first step."""
        self.lap_began = self.now()

    def step_done(self) -> None:
        self.step_times.append(self._lap())

    def evaluation_done(self) -> None:
        self.evaluation = self._lap()

    def _lap(self) -> float:
        before, self.lap_began = self.lap_began, self.now()
        return self.lap_began - before

    @property
    def slowdown(self) -> float:
        """How many times longer an evaluation takes now than before the run."""
        return min(MAX_SLOWDOWN, self.evaluation / self.expected_evaluation) if self.expected_evaluation > 0 else 1.0

    @property
    def after_scoring(self) -> float:
        """The seconds for what follows the final scores."""
        return self.closing * max(1.0, self.slowdown)

    @property
    def reserve(self) -> float:
        """The seconds for everything after the last evaluation of the run."""
        longest = MAX_SCORING_SHARE * (self.ends_at - self.began)
        return self.after_scoring + min(self.scoring * self.slowdown, longest)

    def step_seconds(self, steps_left: int) -> float | None:
        """The seconds of a step; None while too few steps were timed.

        It is a median, so that one slow step changes little. With many steps left it is taken over more steps, so that
        a slow minute does not decide about an hour.
        """
        if len(self.step_times) >= MIN_STEPS:
            return statistics.median(list(self.step_times)[-max(MIN_WINDOW, steps_left // 8) :])
        spent, time = sum(self.step_times), self.ends_at - self.began
        if len(self.step_times) == 1:
            return FIRST_STEP * spent if spent > LONG_STEP * time else None
        return min(self.step_times) if spent > IMPATIENCE * time else None

    def observe(self, step: int, best_step: int) -> None:
        """After an evaluation: the run may become longer unless the validation curve is flat."""
        if self.extends and best_step > (1 - FLAT_SHARE) * step:
            self.longest, self.flat = max(self.longest, 2 * step), None
        elif self.extends:
            self.flat = (step, best_step)

    def total_steps(self, step: int, planned: int, every: int, *, may_grow: bool) -> int:
        """How many steps the run should have, after `step` of the `planned` ones, with one evaluation in `every`.

        The number may only grow right after an evaluation, and then at least one step follows.
        """
        step_seconds = self.step_seconds(planned - step)
        if step_seconds is None:
            return planned
        left = self.ends_at - self.reserve - self.evaluation - self.now()
        fitting = step + max(int(may_grow), int(left / (step_seconds + self.evaluation / every)))
        fitting = min(self.longest, fitting)
        shorten = planned - fitting > MIN_SHORTENING * planned
        lengthen = may_grow and fitting - planned > MIN_LENGTHENING * planned
        return fitting if shorten or lengthen else planned

    def evaluation_interval(self, step: int, planned: int, every: int) -> int:
        """The steps until the next evaluation: more than `every` if evaluations take more than their share of time."""
        step_seconds = self.step_seconds(planned - step)
        if step_seconds is None or not self.evaluation:
            return every
        wanted = math.ceil(self.evaluation * (1 - EVALUATION_SHARE) / (EVALUATION_SHARE * max(step_seconds, 1e-9)))
        return min(wanted, max(1, planned)) if wanted > MIN_INTERVAL_FACTOR * every else every

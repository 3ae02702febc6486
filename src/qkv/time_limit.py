"""The time that reading may take in a run with a time budget. Readers call `check` now and then; when most of the time
has passed before the training could begin, the run is refused, so that it does not take several times what was asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from qkv.errors import InputError

READING_SHARE = 0.7  # of the time, counted from its start: reading that takes longer leaves too little to train
MORE_TIME = 4  # times the given minutes are advised
BUSY = 0.7  # a thread that computes and gets less of the processor is on a busy machine


@dataclass(frozen=True)
class ReadingLimit:
    started_at: float
    minutes: float
    now: Callable[[], float] = time.perf_counter
    on_processor: Callable[[], float] = time.process_time

    def check(self) -> None:
        passed = self.now() - self.started_at
        if passed < READING_SHARE * 60 * self.minutes:
            return
        share = self.on_processor() / passed
        busy = f" The machine is busy: qkv got {share:.0%} of a processor." if share < BUSY else ""
        raise InputError(
            f"{self.minutes:g} min are too short for these data: {passed:.0f} s passed, and they are not read yet."
            f"{busy} Give more time, as --minutes {MORE_TIME * self.minutes:g}, or less data."
        )


_limit: ContextVar[ReadingLimit | None] = ContextVar("reading_limit", default=None)


@contextmanager
def reading_within(limit: ReadingLimit | None) -> Iterator[None]:
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def check() -> None:
    """Refuse to read on where the time for reading is over."""
    if (limit := _limit.get()) is not None:
        limit.check()

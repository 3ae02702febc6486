"""The time at which the command started, before most imports: its time budget counts from here."""

from __future__ import annotations

import time

_started_at = time.perf_counter()


def started_at() -> float:
    """The start of the command by `time.perf_counter`; that of the process until `restart` is called."""
    return _started_at


def restart() -> None:
    """Record the start of another command in this process."""
    global _started_at
    _started_at = time.perf_counter()

"""When the command started, imports included: its time budget counts from here."""

from __future__ import annotations

import time

_started_at = time.perf_counter()


def started_at() -> float:
    """The start of the command, as `time.perf_counter` counts; at first that of the process."""
    return _started_at


def restart() -> None:
    """Another command starts in this process."""
    global _started_at
    _started_at = time.perf_counter()

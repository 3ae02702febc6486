"""SIGTERM, SIGINT and SIGHUP ask the run to stop after the current step; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Set to the signal's number once one has come."""

    signal: int | None = None


@contextmanager
def listening() -> Iterator[Stop]:
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread hears signals
        return

    def hear(number: int, frame: FrameType | None) -> None:
        if stop.signal is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.signal = number

    names = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, hear) for number in names}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Signals that stop a command (Ctrl-C, SIGTERM, SIGHUP): one line and exit code 128 + signal, never a traceback.

While a verb runs, a signal raises `SignalReceived`, a KeyboardInterrupt, so that `with` and `finally` clean up. But an
exception raised during an import may be swallowed there, or abort the process with SIGABRT, because torch and others
run Python code from C++. So during imports, before a verb starts, after it has ended, and at a second signal, the
process exits immediately instead. That is safe at any time: files get their names only when they are complete
(storage.py).

Training installs its own handlers while it runs (training/run.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as `signal`, whose enums take longer to import than this whole file
import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes equally long to import
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class _State:
    """How the next signal is handled."""

    raises = False  # whether it raises an exception, because a verb is running
    exit_code: int | None = None  # of a command that has finished


def install() -> None:
    """Install the handlers, except for signals that are ignored, for example by nohup."""
    _State.raises, _State.exit_code = False, None
    try:
        for number in _signal_numbers():
            if _signal.getsignal(number) is not _signal.SIG_IGN:
                _signal.signal(number, _handle)
    except ValueError:  # only the main thread can install handlers
        return
    sys.unraisablehook = _handle_unraisable


class signals_raise:  # noqa: N801  (used like a function of contextlib, which takes longer to import)
    """A context in which the first signal raises `SignalReceived`."""

    def __enter__(self) -> None:
        _State.raises = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _State.raises = False


def command_finished(exit_code: int) -> None:
    """Make a signal end the process immediately from now on, with this code."""
    _State.exit_code = exit_code


def message(number: int) -> str:
    numbers = zip(SIGNAL_NAMES, _signal_numbers(), strict=False)
    name = next((name for name, other in numbers if other == number), str(number))
    event = "interrupted" if name == "SIGINT" else f"stopped by {name}"
    return f"{event}; nothing was left half-written."


def _signal_numbers() -> list[int]:
    return [getattr(_signal, name) for name in SIGNAL_NAMES if hasattr(_signal, name)]


def _handle(number: int, frame: FrameType | None) -> None:
    if not _State.raises or _is_importing(frame):
        _exit(number)
    from qkv.errors import SignalReceived

    _State.raises = False
    raise SignalReceived(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _exit(number: int) -> None:
    if _State.exit_code is not None:
        os._exit(_State.exit_code)
    try:
        os.write(2, f"qkv: {message(number)}\n".encode())
    finally:  # also if standard error is closed
        os._exit(128 + number)


def _handle_unraisable(unraisable: Any) -> None:
    """Exit if a signal was raised in `__del__` or in a callback from C, where the interpreter drops exceptions."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _exit(getattr(unraisable.exc_value, "number", _signal.SIGINT))
    sys.__unraisablehook__(unraisable)

"""Ctrl-C and its kin, from the first moment of the command on: one line and exit code 128 + signal, no traceback.

Inside a verb a signal raises `SignalReceived`, a KeyboardInterrupt, so that everything cleans up behind itself. But an
exception raised while modules are imported may be swallowed there, or end the process by SIGABRT: torch and others
run Python code from C++. During imports, before a verb has begun and after it has ended, and at a second signal, the
process ends at once instead. That is safe at any time: files get their names only when they are whole (storage.py).

A training has its own handlers while it runs (training/run.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, whose import takes longer than all this
import os
import sys

TYPE_CHECKING = False  # as in `typing`, whose import takes as long
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class _State:
    """What a signal does now."""

    raises = False  # raise an exception: a verb is at work
    code: int | None = None  # the exit code of a command that is over


def install() -> None:
    """Handle signals from now on, but leave alone those that are ignored, as under nohup."""
    _State.raises, _State.code = False, None
    try:
        for number in _numbers():
            if _signal.getsignal(number) is not _signal.SIG_IGN:
                _signal.signal(number, _handle)
    except ValueError:  # only the main thread can
        return
    sys.unraisablehook = _unraisable


class raising:  # noqa: N801  (used as a function, as contextlib's own; importing that takes longer)
    """Within it, the first signal raises `SignalReceived`."""

    def __enter__(self) -> None:
        _State.raises = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _State.raises = False


def over(code: int) -> None:
    """All is done; a signal can only make the process end sooner."""
    _State.code = code


def message(number: int) -> str:
    name = next((name for name, value in zip(NAMES, _numbers(), strict=False) if value == number), str(number))
    what = "interrupted" if name == "SIGINT" else f"stopped by {name}"
    return f"{what}; nothing was left half-written."


def _numbers() -> list[int]:
    return [getattr(_signal, name) for name in NAMES if hasattr(_signal, name)]


def _handle(number: int, frame: FrameType | None) -> None:
    if not _State.raises or _importing(frame):
        _leave(number)
    from qkv.errors import SignalReceived

    _State.raises = False
    raise SignalReceived(number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _leave(number: int) -> None:
    if _State.code is not None:
        os._exit(_State.code)
    try:
        os.write(2, f"qkv: {message(number)}\n".encode())
    finally:  # also where nobody can read it
        os._exit(128 + number)


def _unraisable(unraisable: Any) -> None:
    """The interpreter drops what is raised in `__del__` and in callbacks from C; a request to stop must not be lost."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave(getattr(unraisable.exc_value, "number", _signal.SIGINT))
    sys.__unraisablehook__(unraisable)

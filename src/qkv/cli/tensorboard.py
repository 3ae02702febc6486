"""TensorBoard files of a run, for `--tensorboard`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.output import print_notes
from qkv.errors import require_package

if TYPE_CHECKING:
    from qkv.training.run import Event


def require_tensorboard() -> None:
    """Refuse --tensorboard without its package before the text is read."""
    require_package("tensorboard", "--tensorboard")


@contextmanager
def tensorboard_writer(folder: Path, enabled: bool) -> Iterator[Callable[[Event], None]]:
    """Yield a function that writes an event to TensorBoard files or, if not enabled, does nothing. If a file cannot be
    written, a note is printed once and the run continues."""
    if not enabled:
        yield lambda event: None
        return
    require_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    from qkv.training.loop import Step
    from qkv.training.run import Evaluation

    failed = False

    def attempt(call: Callable[[], Any]) -> Any:
        nonlocal failed
        try:
            return None if failed else call()
        except OSError as error:
            failed = True
            reason = error.strerror or str(error)
            print_notes(f"{folder / 'tensorboard'}: {reason}; the run continues without TensorBoard files")

    def write_scalar(name: str, value: float, step: int) -> None:
        attempt(lambda: writer.add_scalar(name, value, step))

    def write_event(event: Event) -> None:
        if isinstance(event, Step):
            for name in ("loss", "gradient_norm", "rate_share"):
                write_scalar(f"training/{name}", getattr(event, name), event.number)
        elif isinstance(event, Evaluation):
            for name, value in event.scores.items():
                if not isinstance(value, list):
                    write_scalar(f"validation/{name}", value, event.step)

    def handle_thread_error(error: threading.ExceptHookArgs) -> None:
        if not isinstance(error.exc_value, OSError):  # the next call raises an OSError again
            previous_hook(error)

    # tensorboard writes the files in a thread, whose errors would be printed as tracebacks
    previous_hook, threading.excepthook = threading.excepthook, handle_thread_error
    writer = attempt(lambda: SummaryWriter(str(folder / "tensorboard")))
    try:
        yield write_event
    finally:
        attempt(lambda: writer.close())
        threading.excepthook = previous_hook

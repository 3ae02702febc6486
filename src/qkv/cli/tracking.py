"""TensorBoard files of a run, on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.output import notes
from qkv.errors import require_package

if TYPE_CHECKING:
    from qkv.training.run import Event


def require() -> None:
    """Say at once that the package is missing, not after the text was read."""
    require_package("tensorboard", "--tensorboard")


@contextmanager
def board(folder: Path, wanted: bool) -> Iterator[Callable[[Event], None]]:
    """A place for events; without --tensorboard they go nowhere. Where it cannot be written, the run goes on."""
    if not wanted:
        yield lambda event: None
        return
    require()
    from torch.utils.tensorboard import SummaryWriter

    from qkv.training.loop import Step
    from qkv.training.run import Evaluation

    with _forgiving(folder) as write:
        writer = write(lambda: SummaryWriter(str(folder / "tensorboard")))

        def scalar(name: str, value: float, step: int) -> None:
            write(lambda: writer.add_scalar(name, value, step))

        def record(event: Event) -> None:
            if isinstance(event, Step):
                for name in ("loss", "gradient_norm", "rate_share"):
                    scalar(f"training/{name}", getattr(event, name), event.number)
            elif isinstance(event, Evaluation):
                for name, value in event.scores.items():
                    if not isinstance(value, list):
                        scalar(f"validation/{name}", value, event.step)

        try:
            yield record
        finally:
            write(lambda: writer.close())


@contextmanager
def _forgiving(folder: Path) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Calls things until one of them cannot write; then it says so, once, and calls nothing more."""
    import threading

    failed = False

    def write(call: Callable[[], Any]) -> Any:
        nonlocal failed
        if failed:
            return None
        try:
            return call()
        except OSError as error:
            failed = True
            reason = error.strerror or str(error)
            notes([f"{folder / 'tensorboard'}: {reason}; the run goes on without TensorBoard files"])

    def failing(thread: threading.ExceptHookArgs) -> None:
        if not isinstance(thread.exc_value, OSError):  # else the next call is told of it
            before(thread)

    # the files are written by a thread of their own, whose failures would be shown as tracebacks
    before, threading.excepthook = threading.excepthook, failing
    try:
        yield write
    finally:
        threading.excepthook = before

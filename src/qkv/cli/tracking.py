"""TensorBoard files of a run, on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from qkv import extras

if TYPE_CHECKING:
    from qkv.training.run import Event


def require() -> None:
    """Say at once that the package is missing, not after the text was read."""
    extras.require("tensorboard", "--tensorboard")


@contextmanager
def board(folder: Path, wanted: bool) -> Iterator[Callable[[Event], None]]:
    """A place for events; without --tensorboard they go nowhere."""
    if not wanted:
        yield lambda event: None
        return
    require()
    from torch.utils.tensorboard import SummaryWriter

    from qkv.training.loop import Step
    from qkv.training.run import Evaluation

    writer = SummaryWriter(str(folder / "tensorboard"))

    def record(event: Event) -> None:
        if isinstance(event, Step):
            for name in ("loss", "gradient_norm", "rate_share"):
                writer.add_scalar(f"training/{name}", getattr(event, name), event.number)
        elif isinstance(event, Evaluation):
            for name, value in event.scores.items():
                if not isinstance(value, list):
                    writer.add_scalar(f"validation/{name}", value, event.step)

    try:
        yield record
    finally:
        writer.close()

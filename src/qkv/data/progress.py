"""Long work reports how far it is: the stage, what is done, and the whole where it is known."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
Watch = Callable[[int], None]
"""Called with the number of bytes that were just read."""


def silent(stage: str, done: int, total: int | None) -> None:
    pass


def counted(progress: Progress, stage: str, total: int | None = None) -> Watch:
    """Report the sum of the bytes that were read so far."""
    done = 0

    def watch(count: int) -> None:
        nonlocal done
        done += count
        progress(stage, done, total)

    return watch

"""How long work says how far it is: the stage, what is done, and the whole where it is known."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
Watch = Callable[[int], None]
"""Called with the number of bytes that were just read."""


def silent(stage: str, done: int, total: int | None) -> None:
    pass

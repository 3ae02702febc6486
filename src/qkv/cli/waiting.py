"""How far long work is: a bar on a terminal, elsewhere a line now and then. What is over soon shows nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qkv.cli.output import console, print_message

SOON = 2.0  # seconds; what is over by then needs no line
BETWEEN = 5.0  # seconds from line to line


class Lines:
    """Progress as plain lines: the first after SOON seconds of a stage, then one every BETWEEN seconds."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = time.perf_counter) -> None:
        self.write, self.now = write, now
        self.stage = ""
        self.due = now() + SOON  # work that reports late has been silent since it began

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self.stage:
            self.due = max(self.due, self.now() + SOON) if self.stage else self.due
            self.stage = stage
        if self.now() < self.due or (total is not None and done >= total):
            return
        self.due = self.now() + BETWEEN
        self.write(f"{stage}: {done:,}" + ("" if total is None else f" of {total:,}"))


@contextmanager
def waiting() -> Iterator[Callable[[str, int, int | None], None]]:
    """Who is told how far the work is, and shows it on standard error."""
    screen = console()
    if not screen.is_terminal:
        yield Lines(print_message)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        stages: dict[str, Any] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            bar.update(stages[stage], completed=done, total=total)

        yield report

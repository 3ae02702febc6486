"""How far a long call is, where somebody looks on: in a notebook, or on a terminal.

A script whose output goes to a file or to another program shows nothing. What is over soon shows nothing either.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qkv.tasks.protocol import Session
from qkv.training.loop import Step
from qkv.training.run import Evaluation, Event, StepsChanged
from qkv.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

SOON = 0.5  # seconds; nothing is shown before
BETWEEN = 0.2  # seconds between two pictures


class Board:
    """Bars, one for each stage; of a training with its losses. This one shows nothing."""

    def report(self, stage: str, done: int, total: int | None) -> None:
        """How far a stage is, as everything that takes long reports it."""

    def note(self, line: str) -> None:
        """What is begun now."""

    def watch(self, events: Iterable[Event], session: Session) -> Iterator[Event]:
        """Pass the events of a training on, and show them on the way."""
        yield from events

    def end(self) -> None:
        """Show nothing more."""


class BarBoard(Board):
    """Bars of rich, which `draw` shows."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.stages: dict[str, TaskID] = {}
        self.drawn = time.perf_counter() - BETWEEN + SOON

    def report(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self.stages:
            self.stages[stage] = self.bars.add_task(visible(stage), total=total)
        self.bars.update(self.stages[stage], completed=done, total=total)
        self._draw_in_time()

    def note(self, line: str) -> None:
        self._clear()
        self.stages[line] = self.bars.add_task(visible(line), total=None)
        self._draw_in_time()

    def watch(self, events: Iterable[Event], session: Session) -> Iterator[Event]:
        self._clear()
        total, losses, validation = session.recipe.training.length, "", ""
        stage = self.stages["training"] = self.bars.add_task("training", total=total)
        for event in events:
            if isinstance(event, Step):
                losses = f", loss {event.loss:.3f}"
                self.bars.update(stage, completed=event.number)
            elif isinstance(event, Evaluation):
                validation = f", validation {event.scores['loss']:.3f}"
            elif isinstance(event, StepsChanged):
                self.bars.update(stage, total=event.after)
            self.bars.update(stage, description=f"training{losses}{validation}")
            self._draw_in_time()
            yield event
        self.draw()

    def _clear(self) -> None:
        """The stages before are over."""
        for task in self.stages.values():
            self.bars.remove_task(task)
        self.stages.clear()

    def _draw_in_time(self) -> None:
        now = time.perf_counter()
        if now - self.drawn > BETWEEN:
            self.drawn = now
            self.draw()

    def draw(self) -> None:
        raise NotImplementedError


class NotebookBoard(BarBoard):
    """In an output of the cell, which is drawn again and again, and stays."""

    def __init__(self, bars: Bars) -> None:
        super().__init__(bars)
        self.output: Any = None

    def draw(self) -> None:
        from IPython.display import display

        table = self.bars.make_tasks_table(self.bars.tasks)  # which says itself how a notebook shows it
        if self.output is None:
            self.output = display(table, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self.output.update(table)

    def end(self) -> None:
        if self.output is not None:
            self.draw()


class TerminalBoard(BarBoard):
    """On standard error; gone when the call is over."""

    started = False

    def draw(self) -> None:
        if not self.started:
            self.started = True
            self.bars.start()
        self.bars.refresh()

    def end(self) -> None:
        if self.started:
            self.bars.stop()


@contextmanager
def board(wanted: bool) -> Iterator[Board]:
    """Where a call shows how far it is: nowhere unless that is wanted and somebody looks on."""
    shown = _board() if wanted else Board()
    try:
        yield shown
    finally:
        shown.end()


def _board() -> Board:
    notebook = in_notebook()
    if not notebook and not sys.stderr.isatty():
        return Board()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = Console(stderr=True)
    bars = Progress(*columns, console=screen, transient=True, auto_refresh=False)
    if notebook:
        return NotebookBoard(bars)
    return TerminalBoard(bars) if screen.is_terminal and not screen.is_dumb_terminal else Board()


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which displays what it is given."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")

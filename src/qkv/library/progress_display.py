"""Shows the progress of a long call in a notebook or on a terminal.

A script whose output goes to a file or to another program shows nothing, and neither does a short call.
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

FIRST_DRAW_SECONDS = 0.5  # before the display is drawn for the first time
REDRAW_SECONDS = 0.2


class ProgressDisplay:
    """The interface of a display, with a bar for each stage, and the losses of a training run; it shows nothing."""

    def report(self, stage: str, done: int, total: int | None) -> None:
        """Show the progress of a stage."""

    def note(self, line: str) -> None:
        """Show what begins now, in place of the earlier stages."""

    def watch(self, events: Iterable[Event], session: Session) -> Iterator[Event]:
        """Pass on the events of a run, and show them."""
        yield from events

    def end(self) -> None:
        """End the display."""


class BarDisplay(ProgressDisplay):
    """The progress bars of rich, which `draw` shows."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.stages: dict[str, TaskID] = {}
        self.drawn_at = time.perf_counter() - REDRAW_SECONDS + FIRST_DRAW_SECONDS

    def report(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self.stages:
            self.stages[stage] = self.bars.add_task(visible(stage), total=total)
        self.bars.update(self.stages[stage], completed=done, total=total)
        self._draw_if_due()

    def note(self, line: str) -> None:
        self._clear()
        self.stages[line] = self.bars.add_task(visible(line), total=None)
        self._draw_if_due()

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
            self._draw_if_due()
            yield event
        self.draw()

    def _clear(self) -> None:
        """Remove the earlier stages."""
        for task in self.stages.values():
            self.bars.remove_task(task)
        self.stages.clear()

    def _draw_if_due(self) -> None:
        now = time.perf_counter()
        if now - self.drawn_at > REDRAW_SECONDS:
            self.drawn_at = now
            self.draw()

    def draw(self) -> None:
        raise NotImplementedError


class NotebookDisplay(BarDisplay):
    """A display in the output of a cell, which is updated and stays."""

    def __init__(self, bars: Bars) -> None:
        super().__init__(bars)
        self.output: Any = None

    def draw(self) -> None:
        from IPython.display import display

        table = self.bars.make_tasks_table(self.bars.tasks)  # it knows how a notebook shows it
        if self.output is None:
            self.output = display(table, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self.output.update(table)

    def end(self) -> None:
        if self.output is not None:
            self.draw()


class TerminalDisplay(BarDisplay):
    """A display on standard error, which disappears when the call ends."""

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
def progress_display(wanted: bool) -> Iterator[ProgressDisplay]:
    """The display of a call: on a notebook or terminal if it is wanted, else one that shows nothing."""
    display = _display() if wanted else ProgressDisplay()
    try:
        yield display
    finally:
        display.end()


def _display() -> ProgressDisplay:
    notebook = in_notebook()
    if not notebook and not sys.stderr.isatty():
        return ProgressDisplay()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = Console(stderr=True)
    bars = Progress(*columns, console=screen, transient=True, auto_refresh=False)
    if notebook:
        return NotebookDisplay(bars)
    return TerminalDisplay(bars) if screen.is_terminal and not screen.is_dumb_terminal else ProgressDisplay()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")

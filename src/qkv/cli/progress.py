"""Shows the progress of a training run: a live chart on a terminal, plain lines elsewhere.

Other long operations get a bar on a terminal, a line every few seconds elsewhere, and nothing if they are short.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from qkv.cli.command_start import started_at
from qkv.cli.output import print_message, stderr_console
from qkv.visible import visible

if TYPE_CHECKING:
    from rich.console import Group

    from qkv.data.findings import Progress
    from qkv.tasks.protocol import Session
    from qkv.training.early_warning import EarlyWarning
    from qkv.training.run import Event

REFRESH_SECONDS = 0.5
LINE_SECONDS = 5.0  # between two plain lines
FIRST_LINE_SECONDS = 2.0  # shorter work needs no line
MIN_TIMED_STEPS, MIN_TIMED_SECONDS = 5, 1.0  # before the length of a run is predicted
MIN_FORECAST_SECONDS = 5.0  # a shorter run needs no prediction
MIN_STEPS_CHANGE = 0.15  # share of the steps; a smaller change needs no line


def progress_in_bytes() -> AbstractContextManager[Progress]:
    """A bar for reading, tokenizing and downloading; without a terminal nothing is shown."""
    return _progress(lambda stage, done, total: None, in_bytes=True)


def progress_in_items() -> AbstractContextManager[Progress]:
    """A bar for scoring; without a terminal, a line every few seconds."""
    return _progress(ProgressLines(print_message), in_bytes=False)


@contextmanager
def _progress(without_terminal: Progress, *, in_bytes: bool) -> Iterator[Progress]:
    console = stderr_console()
    if not console.is_terminal:
        yield without_terminal
        return
    from rich import progress as rich

    amount = rich.DownloadColumn() if in_bytes else rich.MofNCompleteColumn()
    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), amount)
    with rich.Progress(*columns, rich.TimeRemainingColumn(), console=console, transient=True) as bar:
        stages: dict[str, rich.TaskID] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(visible(stage), total=total)
            bar.update(stages[stage], completed=done, total=total)

        yield report


def show_training(events: Iterable[Event], session: Session, watch: EarlyWarning | None = None) -> Iterator[Event]:
    """Show the events of a run and pass them on; `watch` adds a warning when the run goes wrong."""
    console = stderr_console()
    display = TrainingDisplay(session, watch)
    if not console.is_terminal:
        for event in events:
            for line in display.lines(event):
                print_message(line)
            yield event
        display.end()
        return
    from rich.live import Live
    from rich.text import Text

    refreshed_at = 0.0
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for event in events:
            for remark in display.add(event):
                console.print(Text(visible(remark)))
            now = time.perf_counter()
            if now - refreshed_at > REFRESH_SECONDS:
                live.update(display.chart(console.width), refresh=True)
                refreshed_at = now
            yield event
        if display.step:
            live.update(display.chart(console.width), refresh=True)
    display.end()


class TrainingDisplay:
    """The state of a run, to be shown as one status line and a chart of the losses."""

    def __init__(self, session: Session, watch: EarlyWarning | None = None) -> None:
        from qkv.tasks.report import LossCurve

        self.session, self.watch = session, watch
        # the times at which the first steps ended, until they give a forecast; a run with a clock needs none
        self.step_times: list[float] | None = [] if session.run.clock is None else None
        self.total_steps = session.recipe.training.length
        self.evaluate_every = session.recipe.training.evaluate_every
        self.started_at = self.printed_at = time.perf_counter()
        self.resumed_step: int | None = None
        self.step = 0
        self.tokens = 0
        self.unit = session.task.unit
        self.curve = LossCurve()
        self.recent_losses: deque[float] = deque(maxlen=5)
        self.validation_loss: float | None = None
        self.validation_scores = ""

    def add(self, event: Event) -> list[str]:
        """Update the display with an event, and return the lines to print, often none."""
        from qkv.training.loop import Step
        from qkv.training.run import DamagedCheckpoint, Evaluation, StepsChanged, Stopped

        remarks = []
        if isinstance(event, Step):
            if self.resumed_step is None:
                self.resumed_step = event.number - 1
                if self.resumed_step:
                    remarks.append(f"continuing after step {self.resumed_step:,}")
            self.step = event.number
            self.tokens += event.tokens
            self.recent_losses.append(event.loss)
            remarks += self._add_losses({"step": event.number, "loss": event.loss})
            remarks += self._forecast()
        elif isinstance(event, Evaluation):
            self.validation_loss = event.scores["loss"]
            self.validation_scores = _main_scores(event.scores)
            losses = {"validation_loss": event.scores["loss"], "validation_parts": event.scores.get("parts")}
            remarks += self._add_losses({"step": event.step, **losses})
        elif isinstance(event, StepsChanged):
            self.total_steps = event.after
            if abs(event.after - event.before) > MIN_STEPS_CHANGE * event.before:
                pace = "slower" if event.after < event.before else "faster"
                remarks.append(
                    f"steps are {pace} than measured: the run will have {event.after:,}, not {event.before:,}"
                )
        elif isinstance(event, Stopped):
            remarks.append(f"stopped early: nothing better since step {event.best_step:,}")
        elif isinstance(event, DamagedCheckpoint):
            remarks.append(f"skipped a damaged checkpoint, now in {event.folder} ({event.reason})")
        return remarks

    def _forecast(self) -> list[str]:
        """Report once how long the run will take, after some steps without the first one, which is slower."""
        if self.step_times is None or self.unit != "tokens":
            return []
        from qkv.tasks.language_modelling.report import seconds_left

        now = time.perf_counter()
        self.step_times.append(now)
        elapsed = now - self.step_times[0]
        if len(self.step_times) <= MIN_TIMED_STEPS or elapsed < MIN_TIMED_SECONDS:
            return []
        timed_steps, self.step_times = len(self.step_times) - 1, None
        remaining = seconds_left(self.session, self.step, elapsed / timed_steps)
        if remaining <= MIN_FORECAST_SECONDS:
            return []
        total = duration_text(now - started_at() + remaining)
        return [f"time    about {total} in all, by the first {timed_steps + 1} steps"]

    def _add_losses(self, losses: dict[str, Any]) -> list[str]:
        """Add losses of a step to the curve, and return a warning, if there is one."""
        self.curve.add(losses)
        warning = self.watch.take(losses) if self.watch else ""
        return [f"warning: {warning}"] if warning else []

    def end(self) -> None:
        if not self.step:
            print_message("nothing was left to train: the run had already ended")

    def status(self) -> str:
        elapsed = time.perf_counter() - self.started_at
        done = self.step - (self.resumed_step or 0)
        remaining = elapsed / max(done, 1) * (self.total_steps - self.step)
        parts = [f"step {self.step:,}/{self.total_steps:,}"]
        if self.recent_losses:
            parts.append(f"loss {sum(self.recent_losses) / len(self.recent_losses):.3f}")
        if self.validation_loss is not None:
            parts.append(f"validation {self.validation_loss:.3f} ({self.validation_scores})")
        parts.append(f"{self.tokens / max(elapsed, 1e-9):,.0f} {self.unit}/s")
        unfinished = self.step < self.total_steps
        parts.append(f"{duration_text(remaining)} left" if unfinished else f"{duration_text(elapsed)} in all")
        return "  ".join(parts)

    def lines(self, event: Event) -> list[str]:
        """Update the display with an event, and return plain lines, with a status line at every evaluation and every
        few seconds."""
        from qkv.training.loop import Step
        from qkv.training.run import Evaluation

        lines = self.add(event)
        now = time.perf_counter()
        status_due = isinstance(event, Evaluation)
        if isinstance(event, Step) and event.number % self.evaluate_every and event.number < self.total_steps:
            status_due = now - self.printed_at > LINE_SECONDS  # the other steps are followed by an evaluation
        if status_due:
            self.printed_at = now
            lines.append(self.status())
        return lines

    def chart(self, terminal_width: int) -> Group:
        from rich.console import Group
        from rich.text import Text

        width = min(terminal_width, 80)
        curve = Text(self.curve.draw(width, 14))
        filled = round(width * self.step / self.total_steps)
        bar = Text.assemble(("━" * filled, "green"), ("━" * (width - filled), "bright_black"))
        return Group(curve, bar, Text(self.status()))


def _main_scores(scores: dict[str, Any]) -> str:
    """The one or two scores that matter most, with their names."""
    if "bits_per_byte" in scores:
        return f"{scores['bits_per_byte']:.3f} bits per byte"
    from qkv.evaluation.labelled_evaluation import LABELLED_TITLES

    named = [
        (LABELLED_TITLES.get(key, key.replace("_", " ")), value)
        for key, value in scores.items()
        if key not in ("loss", "criterion", "parts") and isinstance(value, float)
    ]
    count = 2 if len(named) > 1 and named[1][0] == LABELLED_TITLES["macro_f1"] else 1
    return ", ".join(f"{name} {value:.4f}" for name, value in named[:count])


def duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class ProgressLines:
    """Progress as plain lines: the first after FIRST_LINE_SECONDS of a stage, then one every LINE_SECONDS."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = time.perf_counter) -> None:
        self.write, self.now = write, now
        self.stage = ""
        self.next_line_at = now() + FIRST_LINE_SECONDS  # counted from here: the first report may come late

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self.stage:
            if self.stage:
                self.next_line_at = max(self.next_line_at, self.now() + FIRST_LINE_SECONDS)
            self.stage = stage
        if self.now() < self.next_line_at or (total is not None and done >= total):
            return
        self.next_line_at = self.now() + LINE_SECONDS
        self.write(f"{stage}: {done:,}" + ("" if total is None else f" of {total:,}"))

"""Progress of a training: a live picture on a terminal, plain lines elsewhere; TensorBoard files on request.

Of other long work: a bar on a terminal, elsewhere a line now and then. What is over soon shows nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.output import STARTED, console, notes, print_message
from qkv.errors import require_package
from qkv.visible import visible

if TYPE_CHECKING:
    from rich.console import Group

    from qkv.data.findings import Progress
    from qkv.tasks.protocol import Session
    from qkv.training.diagnosis import EarlyWarning
    from qkv.training.run import Event

REFRESH_SECONDS = 0.5
MOVED = 0.15  # a move of the end by more than this share is worth a line
LINE_SECONDS = 5.0
ENOUGH, ENOUGH_SECONDS = 5, 1.0  # steps and seconds after which the speed of a run is known
LONG = 5.0  # seconds; what is over sooner needs no forecast


def reading() -> AbstractContextManager[Progress]:
    """A bar for reading and tokenizing long texts; short ones are over before it would show."""
    return _bar(lambda stage, done, total: None, of_bytes=True)


def waiting() -> AbstractContextManager[Progress]:
    """A bar for scoring, on a terminal; elsewhere a line now and then."""
    return _bar(Lines(print_message), of_bytes=False)


@contextmanager
def _bar(elsewhere: Progress, *, of_bytes: bool) -> Iterator[Progress]:
    screen = console()
    if not screen.is_terminal:
        yield elsewhere
        return
    from rich import progress as rich

    amount = rich.DownloadColumn() if of_bytes else rich.MofNCompleteColumn()
    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), amount)
    with rich.Progress(*columns, rich.TimeRemainingColumn(), console=screen, transient=True) as bar:
        stages: dict[str, rich.TaskID] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(visible(stage), total=total)
            bar.update(stages[stage], completed=done, total=total)

        yield report


def show(events: Iterable[Event], session: Session, watch: EarlyWarning | None = None) -> Iterator[Event]:
    """Pass the events on, and draw them on the way; `watch` warns where a run goes wrong."""
    screen = console()
    display = Display(session, watch)
    if not screen.is_terminal:
        for event in events:
            for line in display.lines(event):
                print_message(line)
            yield event
        display.end()
        return
    from rich.live import Live
    from rich.text import Text

    drawn = 0.0
    with Live(console=screen, auto_refresh=False, transient=False) as live:
        for event in events:
            for remark in display.take(event):
                screen.print(Text(visible(remark)))
            now = time.perf_counter()
            if now - drawn > REFRESH_SECONDS:
                live.update(display.picture(screen.width), refresh=True)
                drawn = now
            yield event
        if display.number:
            live.update(display.picture(screen.width), refresh=True)
    display.end()


class Display:
    """What is known so far, as one status line and a curve."""

    def __init__(self, session: Session, watch: EarlyWarning | None = None) -> None:
        from qkv.tasks.report import LossCurve

        self.session, self.watch = session, watch
        self.laps: list[float] | None = [] if session.run.clock is None else None  # a clock knows when it will be over
        self.total = session.recipe.training.length
        self.every = session.recipe.training.evaluate_every
        self.began = self.printed = time.perf_counter()
        self.first: int | None = None
        self.number = 0
        self.tokens = 0
        self.unit = session.task.unit
        self.curve = LossCurve()
        self.losses: deque[float] = deque(maxlen=5)
        self.validation: float | None = None
        self.figure = ""

    def take(self, event: Event) -> list[str]:
        """Remember an event; what is worth a line of its own."""
        from qkv.training.loop import Step
        from qkv.training.run import DamagedCheckpoint, Evaluation, StepsChanged, Stopped

        remarks = []
        if isinstance(event, Step):
            if self.first is None:
                self.first = event.number - 1
                if self.first:
                    remarks.append(f"going on after step {self.first:,}")
            self.number = event.number
            self.tokens += event.tokens
            self.losses.append(event.loss)
            remarks += self._note({"step": event.number, "loss": event.loss})
            remarks += self._forecast()
        elif isinstance(event, Evaluation):
            self.validation = event.scores["loss"]
            self.figure = _figure(event.scores)
            parts = event.scores.get("parts")
            remarks += self._note({"step": event.step, "validation_loss": self.validation, "validation_parts": parts})
        elif isinstance(event, StepsChanged):
            self.total = event.after
            if abs(event.after - event.before) > MOVED * event.before:
                pace = "slower" if event.after < event.before else "faster"
                remarks.append(
                    f"steps are {pace} than measured: the run will have {event.after:,}, not {event.before:,}"
                )
        elif isinstance(event, Stopped):
            remarks.append(f"stopped early: nothing better since step {event.best_step:,}")
        elif isinstance(event, DamagedCheckpoint):
            remarks.append(f"passed over a damaged checkpoint, now in {event.folder} ({event.reason})")
        return remarks

    def _forecast(self) -> list[str]:
        """How long it will take, once, when some steps have been timed; the first is slower than the rest."""
        if self.laps is None or self.unit != "tokens":
            return []
        from qkv.tasks.language_modelling.report import seconds_left

        now = time.perf_counter()
        self.laps.append(now)
        spent = now - self.laps[0]
        if len(self.laps) <= ENOUGH or spent < ENOUGH_SECONDS:
            return []
        steps, self.laps = len(self.laps) - 1, None
        left = seconds_left(self.session, self.number, spent / steps)
        total = now - STARTED + left
        return [f"time    about {clock(total)} in all, by the first {steps + 1} steps"] if left > LONG else []

    def _note(self, line: dict[str, Any]) -> list[str]:
        """Draw a line of the journal, and let the watch see it."""
        self.curve.add(line)
        warning = self.watch.take(line) if self.watch else ""
        return [f"warning: {warning}"] if warning else []

    def end(self) -> None:
        if not self.number:
            print_message("nothing was left to train; the run was over already")

    def status(self) -> str:
        spent = time.perf_counter() - self.began
        done = self.number - (self.first or 0)
        left = spent / max(done, 1) * (self.total - self.number)
        parts = [f"step {self.number:,}/{self.total:,}"]
        if self.losses:
            parts.append(f"loss {sum(self.losses) / len(self.losses):.3f}")
        if self.validation is not None:
            parts.append(f"validation {self.validation:.3f} ({self.figure})")
        parts.append(f"{self.tokens / max(spent, 1e-9):,.0f} {self.unit}/s")
        parts.append(f"{clock(left)} left" if self.number < self.total else f"{clock(spent)} in all")
        return "  ".join(parts)

    def lines(self, event: Event) -> list[str]:
        """Plain lines: one at every evaluation, and one every few seconds between."""
        from qkv.training.loop import Step
        from qkv.training.run import Evaluation

        lines = self.take(event)
        now = time.perf_counter()
        between = isinstance(event, Step) and event.number % self.every and event.number < self.total
        if isinstance(event, Evaluation) or (between and now - self.printed > LINE_SECONDS):
            self.printed = now
            lines.append(self.status())
        return lines

    def picture(self, width: int) -> Group:
        from rich.console import Group
        from rich.text import Text

        wide = min(width, 80)
        chart = Text(self.curve.draw(wide, 14))
        full = round(wide * self.number / self.total)
        bar = Text.assemble(("━" * full, "green"), ("━" * (wide - full), "bright_black"))
        return Group(chart, bar, Text(self.status()))


def _figure(scores: dict[str, Any]) -> str:
    """What is looked at first, in words."""
    if "bits_per_byte" in scores:
        return f"{scores['bits_per_byte']:.3f} bits per byte"
    from qkv.evaluation.labelled_evaluation import NAMES

    told = ((name, value) for name, value in scores.items() if name not in ("loss", "criterion", "parts"))
    shown = [(NAMES.get(name, name.replace("_", " ")), value) for name, value in told if isinstance(value, float)]
    beside = shown[1:] if shown[1:] and shown[1][0] == NAMES["macro_f1"] else []
    return ", ".join(f"{name} {value:.4f}" for name, value in [shown[0], *beside])


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


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


def require_tensorboard() -> None:
    """Report at once that the package is missing, not after the text was read."""
    require_package("tensorboard", "--tensorboard")


@contextmanager
def board(folder: Path, wanted: bool) -> Iterator[Callable[[Event], None]]:
    """Writes events into TensorBoard files; without --tensorboard into none. Where a file cannot be written, that is
    noted once, and the run goes on."""
    if not wanted:
        yield lambda event: None
        return
    require_tensorboard()
    import threading

    from torch.utils.tensorboard import SummaryWriter

    from qkv.training.loop import Step
    from qkv.training.run import Evaluation

    failed = False

    def write(call: Callable[[], Any]) -> Any:
        nonlocal failed
        try:
            return None if failed else call()
        except OSError as error:
            failed = True
            reason = error.strerror or str(error)
            notes([f"{folder / 'tensorboard'}: {reason}; the run goes on without TensorBoard files"])

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

    def failing(thread: threading.ExceptHookArgs) -> None:
        if not isinstance(thread.exc_value, OSError):  # which the next call raises again
            before(thread)

    # the files are written by a thread of their own, whose failures would be shown as tracebacks
    before, threading.excepthook = threading.excepthook, failing
    writer = write(lambda: SummaryWriter(str(folder / "tensorboard")))
    try:
        yield record
    finally:
        write(lambda: writer.close())
        threading.excepthook = before

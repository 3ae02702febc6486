"""A run: the training loop with evaluations, the best model, checkpoints, logs and signals. It yields events.

A run folder has:   recipe.toml  best/  checkpoints/  metrics.jsonl  timings.jsonl  card.md

SIGTERM, SIGINT and SIGHUP stop the run after the current step; a second signal ends the process at once.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from qkv.errors import DivergedError, InputError, InterruptedRun, RefusedError
from qkv.objectives.objective import Objective
from qkv.own_files import named_again
from qkv.storage import recover_folder, storage_remedy, try_lock
from qkv.training import checkpoints
from qkv.training.clock import Clock
from qkv.training.devices import HeapTrimmer, choose_device, enough_memory
from qkv.training.loop import Step, TrainingState, require_finite, train
from qkv.training.metrics_log import REMEDY, MetricsLog, TimingsLog
from qkv.training.settings import TrainingConfig

Scores = dict[str, Any]
"""Numbers by name, and under `parts` a list of losses. The best model has the lowest `criterion`, or else `loss`."""


@dataclass(frozen=True)
class Evaluation:
    """Scores on the validation data after a step; `best` if they are better than all earlier ones."""

    step: int
    scores: Scores
    best: bool


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Stopped:
    """The run ended before its last step: `patience` evaluations brought nothing better, or the caller asked for it."""

    step: int
    best_step: int


@dataclass(frozen=True)
class StepsChanged:
    """The clock changed the number of steps, because they are slower or faster than measured before the run."""

    step: int
    before: int
    after: int


@dataclass(frozen=True)
class DamagedCheckpoint:
    """A checkpoint was damaged. It was renamed to `folder`, and the run goes on from the one before it."""

    folder: Path
    reason: str


Event = Step | Evaluation | Saved | Stopped | StepsChanged | DamagedCheckpoint


@dataclass
class RunMemory:
    """What a checkpoint holds about the run besides the training state."""

    best_loss: float = math.inf
    best_step: int = 0
    waiting: int = 0  # evaluations since the best one
    metrics_bytes: int = 0


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock a run's folder; refuse if another training has locked it."""
    with storage_remedy(REMEDY), try_lock(folder) as held:
        if not held:
            raise InputError(f"{folder}: another training is writing here. Wait for it, or choose another --run.")
        yield


@dataclass
class Run:
    """A run's folder and config, and functions that evaluate a model, save it as the best one, and save the config.

    With a clock, `config` changes during the run: the clock changes the number of steps.
    """

    folder: Path
    config: TrainingConfig
    evaluate: Callable[[nn.Module], Scores]
    keep_best: Callable[[nn.Module, int], None]
    save_config: Callable[[TrainingConfig], None] = lambda config: None
    clock: Clock | None = None
    stop_asked: bool = False  # the caller may set it at an evaluation, after which the run then ends

    def events(self, state: TrainingState, objective: Objective) -> Iterator[Event]:
        """Train from the newest checkpoint, or from the start, and yield what happens. The folder is locked."""
        choose_device(self.config.device)
        with hold_folder(self.folder), enough_memory(self.config, getattr(state.model, "context", "context")):
            recover_folder(self.folder)
            recover_folder(self.folder / "checkpoints")
            memory, refusals = self._restore(state)
            for damaged, refusal in refusals.items():
                yield DamagedCheckpoint(checkpoints.rename_damaged(damaged), str(refusal))
            metrics = MetricsLog(self.folder / "metrics.jsonl", memory.metrics_bytes)
            timings = TimingsLog(self.folder / "timings.jsonl")
            try:
                yield from self._steps(state, objective, memory, metrics, timings)
                yield from self._evaluate_average(state, memory, metrics)
            except DivergedError:
                metrics.write(step=state.step + 1, loss=math.nan)
                raise
            finally:
                metrics.close()
                timings.close()

    def _restore(self, state: TrainingState) -> tuple[RunMemory, dict[Path, RefusedError]]:
        """Load the newest intact checkpoint into `state`; and give the errors of newer, damaged ones.

        If all checkpoints are damaged, the error of the newest is raised.
        """
        refusals: dict[Path, RefusedError] = {}
        for folder in reversed(checkpoints.list_checkpoints(self.folder / "checkpoints")):
            try:
                return _parse_memory(folder, checkpoints.load(folder, state, self.config.device)), refusals
            except RefusedError as error:
                refusals[folder] = error
        for refusal in refusals.values():
            raise refusal
        torch.manual_seed(self.config.seed)  # random numbers may have been drawn since the model was built
        return RunMemory(), refusals

    def _steps(
        self, state: TrainingState, objective: Objective, memory: RunMemory, metrics: MetricsLog, timings: TimingsLog
    ) -> Iterator[Event]:
        with stop_signals(f"stopped at once; the last checkpoint is whole. {self.resume_hint()}") as stop:
            if self._stops_early(memory):
                return
            if self.clock is not None:
                self.clock.start_lap()
            for step in self._train(state, objective):
                values = {"loss": step.loss, "gradient_norm": step.gradient_norm, "rate_share": step.rate_share}
                metrics.write(step=step.number, **values)
                timings.add_step(step.number, step.tokens)
                yield step
                if step.converged:
                    self._end_at(step.number)
                yield from self._ask_clock(step.number, evaluated=False)
                last = step.number == self.config.length
                due = self.config.evaluates(step.number)
                if last or due:
                    yield self._evaluation(state, memory, metrics, "validation")
                over = last or self._stops_early(memory)
                if over or stop.signal or step.number % self.config.checkpoint_every == 0:
                    yield self._checkpoint(state, memory, metrics)
                if stop.signal:
                    name, saved = signal.Signals(stop.signal).name, f"after step {step.number}; the state is saved"
                    raise InterruptedRun(f"stopped by {name} {saved}. {self.resume_hint()}", stop.signal)
                if over:
                    if not last:
                        yield Stopped(step.number, memory.best_step)
                    return
                if due:
                    yield from self._ask_clock(step.number, evaluated=True, best_step=memory.best_step)

    def _train(self, state: TrainingState, objective: Objective) -> Iterator[Step]:
        """Train to the last step, with the new config whenever the clock changes it."""
        trimmer = HeapTrimmer()
        while state.step < self.config.length:
            config = self.config
            for step in train(state, objective, config):
                yield step
                trimmer.trim()
                if self.config is not config:
                    break

    def _ask_clock(self, step: int, *, evaluated: bool, best_step: int = 0) -> Iterator[StepsChanged]:
        """Let the clock change the number of steps and, after an evaluation, their interval; save the new config."""
        if self.clock is None:
            return
        changed, before = self.config, self.config.length
        if not evaluated:
            self.clock.step_done()
        else:
            self.clock.evaluation_done()
            self.clock.observe(step, best_step)
            every = self.clock.evaluation_interval(step, before, changed.current_evaluate_every)
            if every != changed.current_evaluate_every:
                changed = replace(changed, evaluate_every_changes=(*changed.evaluate_every_changes, (step, every)))
        after = self.clock.total_steps(step, before, changed.current_evaluate_every, may_grow=evaluated)
        if after != before:
            changed = replace(changed, steps_changes=(*changed.steps_changes, (step, after)))
        if changed is not self.config:
            self.save_config(changed)
            self.config = changed
        if after != before:
            yield StepsChanged(step, before, after)

    def _end_at(self, step: int) -> None:
        """Make a step the last one, because the optimum is found; the recipe says so to a run that is resumed."""
        if step < self.config.length:
            self.config = replace(self.config, steps_changes=(*self.config.steps_changes, (step, step)))
            self.save_config(self.config)

    def _evaluation(self, state: TrainingState, memory: RunMemory, metrics: MetricsLog, name: str) -> Evaluation:
        scores = self.evaluate(state.model)
        criterion = scores["criterion" if "criterion" in scores else "loss"]
        best = criterion < memory.best_loss
        memory.waiting = 0 if best else memory.waiting + 1
        if best:
            memory.best_loss, memory.best_step = criterion, state.step
            self.keep_best(state.model, state.step)
        metrics.write(step=state.step, **{f"{name}_{key}": value for key, value in scores.items()})
        return Evaluation(state.step, scores, best)

    def _checkpoint(self, state: TrainingState, memory: RunMemory, metrics: MetricsLog) -> Saved:
        require_finite(state)
        memory.metrics_bytes = metrics.length()
        # JSON has no infinity: without an evaluation yet, the best loss is written as a very large number
        values = asdict(replace(memory, best_loss=min(memory.best_loss, 1e300)))
        folder, protected = self.folder / "checkpoints", self._averaged_steps(state.step)
        path = checkpoints.save(folder, state, values, self.config.device, self.config.keep, protected)
        return Saved(state.step, path)

    def _averaged_steps(self, step: int) -> list[int]:
        """The steps whose weights would be averaged if the run ended now: only regular checkpoints, so that the average
        of a run that was interrupted is the same."""
        every, average = self.config.checkpoint_every, self.config.average
        regular = [*range(every, step + 1, every)]
        if step == self.config.length and step % every:
            regular.append(step)
        return regular[-average:] if average else []

    def _evaluate_average(self, state: TrainingState, memory: RunMemory, metrics: MetricsLog) -> Iterator[Evaluation]:
        """After the last step, evaluate the mean of the last checkpoints' weights, and keep it if it is the best model.

        The result follows from the checkpoints, so a run that is killed here gets the same when it is resumed.
        """
        wanted = self._averaged_steps(state.step)
        known = checkpoints.list_checkpoints(self.folder / "checkpoints")
        folders = [path for path in known if int(path.name) in wanted]
        if len(folders) < 2:
            return
        own = {name: tensor.clone() for name, tensor in state.model.state_dict().items()}
        state.model.load_state_dict(checkpoints.mean_weights(folders))
        evaluation = self._evaluation(state, memory, metrics, "averaged")
        state.model.load_state_dict(own)
        yield evaluation

    def _stops_early(self, memory: RunMemory) -> bool:
        return self.stop_asked or 0 < self.config.patience <= memory.waiting

    def resume_hint(self) -> str:
        words = ("qkv", "train", "--run", str(self.folder), "--resume", *named_again())
        return f"Continue with: {shlex.join(words)}"


def _parse_memory(folder: Path, values: dict[str, Any]) -> RunMemory:
    fresh = asdict(RunMemory())
    if values.keys() != fresh.keys() or any(type(values[key]) is not type(fresh[key]) for key in fresh):
        raise RefusedError(f"{folder / checkpoints.STATE}: 'memory' does not fit. The file was altered.")
    return RunMemory(**values)


STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


class StopRequest:
    """The number of the first signal, once there was one."""

    signal: int | None = None


@contextmanager
def stop_signals(last_words: str) -> Iterator[StopRequest]:
    """Note the first signal instead of ending; a second one prints `last_words` and ends the process."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # Python delivers signals to the main thread only
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop.signal = number

    # Python runs `handle` only between two of its own instructions, and a step may spend seconds inside torch. The
    # interpreter writes the number of every signal into the wakeup socket at once, from which a thread reads it.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    thread = threading.Thread(target=_end_at_second_signal, args=(reader, last_words), daemon=True)
    thread.start()
    previous_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    # signals that are ignored stay ignored, such as SIGHUP under nohup
    handled = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in handled}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        writer.close()
        thread.join()
        reader.close()


def _end_at_second_signal(reader: socket.socket, last_words: str) -> None:
    """End the process at the second signal. Files are written under temporary names first, so none is half-written."""
    received = 0
    while byte := reader.recv(1):
        received += byte[0] in STOP_SIGNALS
        if received == 2:
            with suppress(OSError):  # standard error is closed or full
                os.write(2, f"qkv: {last_words}\n".encode(errors="backslashreplace"))
            os._exit(128 + byte[0])

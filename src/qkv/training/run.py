"""A run: the loop, with evaluation, the best model, checkpoints, logs and signals around it. It yields what happened.

runs/NAME/   recipe.toml  best/  checkpoints/  metrics.jsonl  timings.jsonl  card.md       (product: "a run folder")

SIGTERM, SIGINT and SIGHUP ask the run to stop after the current step; a second one ends the process at once.
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
from qkv.storage import recover_folder, storage_remedy, try_lock
from qkv.training import checkpoints
from qkv.training.clock import Clock
from qkv.training.devices import HeapTrimmer, choose_device, enough_memory
from qkv.training.loop import Step, TrainingState, require_finite, train
from qkv.training.metrics_log import REMEDY, Journal, Timings
from qkv.training.settings import TrainingConfig

Scores = dict[str, Any]  # numbers by name; `parts` is a list of them; the lowest `criterion`, or else `loss`, is best


@dataclass(frozen=True)
class Evaluation:
    """Scores on validation text after a step; `best` says that no earlier ones were better."""

    step: int
    scores: Scores
    best: bool


@dataclass(frozen=True)
class Saved:
    step: int
    folder: Path


@dataclass(frozen=True)
class Stopped:
    """The run ended before its last step: nothing better came for `patience` evaluations."""

    step: int
    best_step: int


@dataclass(frozen=True)
class StepsChanged:
    """The clock moved the end of the run: steps take longer, or less long, than was measured before it."""

    step: int
    before: int
    after: int


@dataclass(frozen=True)
class PutAside:
    """A checkpoint was damaged; it now lies in `folder`, and the run goes on from the one before it."""

    folder: Path
    reason: str


Event = Step | Evaluation | Saved | Stopped | StepsChanged | PutAside


@dataclass
class Memory:
    """What a run remembers besides the training state."""

    best_loss: float = math.inf
    best_step: int = 0
    waiting: int = 0  # evaluations since the best
    metrics_bytes: int = 0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a run's folder; refuse where another training holds it."""
    with storage_remedy(REMEDY), try_lock(folder) as held:
        if not held:
            raise InputError(f"{folder}: another training is writing here. Wait for it, or choose another --run.")
        yield


@dataclass
class Run:
    """Where a run lives and what it needs from outside: scores of a model, and ways to keep the best one and the plan.

    With a clock, `config` changes while the run goes on: the end moves, and `keep_plan` writes it down.
    """

    folder: Path
    config: TrainingConfig
    evaluate: Callable[[nn.Module], Scores]
    keep_best: Callable[[nn.Module, int], None]
    keep_plan: Callable[[TrainingConfig], None] = lambda config: None
    clock: Clock | None = None
    stop_asked: bool = False  # by whoever iterates: the run ends after the evaluation that was yielded last

    def events(self, state: TrainingState, task: Objective) -> Iterator[Event]:
        """Train from where the run's checkpoints are, or from the start; hold the folder meanwhile."""
        choose_device(self.config.device)
        with alone(self.folder), enough_memory(self.config, getattr(state.model, "context", "context")):
            recover_folder(self.folder)
            recover_folder(self.folder / "checkpoints")
            memory, refusals = self._restore(state)
            for damaged, refusal in refusals.items():
                yield PutAside(checkpoints.put_aside(damaged), str(refusal))
            metrics = Journal(self.folder / "metrics.jsonl", memory.metrics_bytes)
            timings = Timings(self.folder / "timings.jsonl")
            try:
                yield from self._steps(state, task, memory, metrics, timings)
                yield from self._averaged(state, memory, metrics)
            except DivergedError:
                metrics.write(step=state.step + 1, loss=math.nan)
                raise
            finally:
                metrics.close()
                timings.close()

    def _restore(self, state: TrainingState) -> tuple[Memory, dict[Path, RefusedError]]:
        """The newest checkpoint that is whole, and the newer ones that are not. All damaged: nothing moves."""
        refusals: dict[Path, RefusedError] = {}
        for folder in reversed(checkpoints.numbered(self.folder / "checkpoints")):
            try:
                return _memory(folder, checkpoints.load(folder, state, self.config.device)), refusals
            except RefusedError as error:
                refusals[folder] = error
        for refusal in refusals.values():
            raise refusal
        torch.manual_seed(self.config.seed)  # whatever was drawn between the building of the model and now
        return Memory(), refusals

    def _steps(
        self, state: TrainingState, task: Objective, memory: Memory, metrics: Journal, timings: Timings
    ) -> Iterator[Event]:
        with listening(f"stopped at once; the last checkpoint is whole. {self.how_to_go_on()}") as stop:
            if self._exhausted(memory):
                return
            if self.clock is not None:
                self.clock.begin()
            for step in self._follow(state, task):
                values = {"loss": step.loss, "gradient_norm": step.gradient_norm, "rate_share": step.rate_share}
                metrics.write(step=step.number, **values)
                timings.take(step.number, step.tokens)
                yield step
                yield from self._watch(step.number, evaluated=False)
                last = step.number == self.config.length
                due = self.config.evaluates(step.number)
                if last or due:
                    yield self._evaluation(state, memory, metrics, "validation")
                over = last or self._exhausted(memory)
                if over or stop.signal or step.number % self.config.checkpoint_every == 0:
                    yield self._checkpoint(state, memory, metrics)
                if stop.signal:
                    name, saved = signal.Signals(stop.signal).name, f"after step {step.number}; the state is saved"
                    raise InterruptedRun(f"stopped by {name} {saved}. {self.how_to_go_on()}", stop.signal)
                if over:
                    if not last:
                        yield Stopped(step.number, memory.best_step)
                    return
                if due:
                    yield from self._watch(step.number, evaluated=True)

    def _follow(self, state: TrainingState, task: Objective) -> Iterator[Step]:
        """Steps until the end, wherever it is moved to meanwhile."""
        trimmer = HeapTrimmer()
        while state.step < self.config.length:
            planned = self.config
            for step in train(state, task, planned):
                yield step
                trimmer.trim()
                if self.config is not planned:
                    break

    def _watch(self, step: int, *, evaluated: bool) -> Iterator[StepsChanged]:
        """Ask the clock; where the end must move, write it down before the next step."""
        if self.clock is None:
            return
        changed, before = self.config, self.config.length
        if not evaluated:
            self.clock.stepped()
        else:
            self.clock.evaluated()
            if (every := self.clock.every(step, before, changed.rarest)) != changed.rarest:
                changed = replace(changed, evaluate_every_changes=(*changed.evaluate_every_changes, (step, every)))
        after = self.clock.end(step, before, changed.rarest, may_grow=evaluated)
        if after != before:
            changed = replace(changed, steps_changes=(*changed.steps_changes, (step, after)))
        if changed is not self.config:
            self.keep_plan(changed)
            self.config = changed
        if after != before:
            yield StepsChanged(step, before, after)

    def _evaluation(self, state: TrainingState, memory: Memory, metrics: Journal, name: str) -> Evaluation:
        scores = self.evaluate(state.model)
        criterion = scores["criterion" if "criterion" in scores else "loss"]
        best = criterion < memory.best_loss
        memory.waiting = 0 if best else memory.waiting + 1
        if best:
            memory.best_loss, memory.best_step = criterion, state.step
            self.keep_best(state.model, state.step)
        metrics.write(step=state.step, **{f"{name}_{key}": value for key, value in scores.items()})
        return Evaluation(state.step, scores, best)

    def _checkpoint(self, state: TrainingState, memory: Memory, metrics: Journal) -> Saved:
        require_finite(state)
        memory.metrics_bytes = metrics.length()
        # JSON has no infinity: a best loss that does not exist yet is written as a very large one
        values = asdict(replace(memory, best_loss=min(memory.best_loss, 1e300)))
        folder, spare = self.folder / "checkpoints", self._window(state.step)
        return Saved(state.step, checkpoints.save(folder, state, values, self.config.device, self.config.keep, spare))

    def _window(self, step: int) -> list[int]:
        """The steps whose weights are averaged, were the run over now: those at which every run has a checkpoint."""
        every, average = self.config.checkpoint_every, self.config.average
        planned = [*range(every, step + 1, every)]
        if step == self.config.length and step % every:
            planned.append(step)
        return planned[-average:] if average else []

    def _averaged(self, state: TrainingState, memory: Memory, metrics: Journal) -> Iterator[Evaluation]:
        """After the last step: the mean of the last weights, kept where no single step is better.

        What it finds follows from the checkpoints, so a run that is killed here finds the same when it goes on.
        """
        wanted = self._window(state.step)
        folders = [path for path in checkpoints.numbered(self.folder / "checkpoints") if int(path.name) in wanted]
        if len(folders) < 2:
            return
        own = {name: tensor.clone() for name, tensor in state.model.state_dict().items()}
        state.model.load_state_dict(checkpoints.mean_weights(folders))
        evaluation = self._evaluation(state, memory, metrics, "averaged")
        state.model.load_state_dict(own)
        yield evaluation

    def _exhausted(self, memory: Memory) -> bool:
        return self.stop_asked or 0 < self.config.patience <= memory.waiting

    def how_to_go_on(self) -> str:
        return f"Continue with: qkv train --run {shlex.quote(str(self.folder))} --resume"


def _memory(folder: Path, values: dict[str, Any]) -> Memory:
    fresh = asdict(Memory())
    if values.keys() != fresh.keys() or any(type(values[key]) is not type(fresh[key]) for key in fresh):
        raise RefusedError(f"{folder / checkpoints.STATE}: 'memory' does not fit. The file was altered.")
    return Memory(**values)


NUMBERS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


class Stop:
    """Set to the signal's number once one has come."""

    signal: int | None = None


@contextmanager
def listening(last_words: str) -> Iterator[Stop]:
    """Hear signals meanwhile; `last_words` are printed when a second one ends the process."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread hears signals
        return

    def hear(number: int, frame: FrameType | None) -> None:
        stop.signal = number

    # Python runs `hear` only between two of its own instructions, and one step may be seconds long inside torch.
    # The interpreter writes every signal's number here at once, and a thread can read it there.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    watcher = threading.Thread(target=_watch, args=(reader, last_words), daemon=True)
    watcher.start()
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    heard = [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]  # as SIGHUP under nohup
    before = {number: signal.signal(number, hear) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        writer.close()
        watcher.join()
        reader.close()


def _watch(reader: socket.socket, last_words: str) -> None:
    """End the process at the second signal. What is being written stands aside until it is whole, so nothing breaks."""
    heard = 0
    while byte := reader.recv(1):
        heard += byte[0] in NUMBERS
        if heard == 2:
            with suppress(OSError):  # a closed or full standard error
                os.write(2, f"qkv: {last_words}\n".encode(errors="backslashreplace"))
            os._exit(128 + byte[0])

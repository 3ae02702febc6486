"""The time budget: chooses the size of a language model by the minutes that a run may take.

The table of sizes comes from a study (decision 0007). Two short measurements apply it: a few steps of a fixed small
model show how fast this machine is compared with the study's, which decides the size; a few steps of the chosen model
show how many fit into the time. During the run the clock corrects that number.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from qkv.models.registry import LANGUAGE_MODELS, ModelConfig
from qkv.training import devices
from qkv.training.clock import FIRST_STEP
from qkv.training.loop import Step, initial_state, train
from qkv.training.settings import TrainingConfig

SPARE_FRACTION = 0.03  # of the time is left unused, in case the machine slows down at the end
REPORT_SECONDS = 2.5  # for two samples, the card, and compressing other validation windows than planned


@dataclass(frozen=True)
class SizePreset:
    """The best size for this number of seconds of training on the study's machine."""

    seconds: float
    layers: int
    heads: int
    width: int
    context: int
    batch: int
    speed: int = 0  # tokens per second on that machine

    def epochs(self, seconds: float, tokens: int) -> float:
        """How many times the study's machine goes through a text of this length in these seconds."""
        return seconds * self.speed / tokens

    @property
    def weights(self) -> int:
        """About the number of weights of the layers: twelve matrices of width x width in each."""
        return 12 * self.layers * self.width**2

    @property
    def shape(self) -> dict[str, int]:
        return {"layers": self.layers, "heads": self.heads, "width": self.width}

    @property
    def tokens(self) -> int:
        """The tokens of a step."""
        return self.batch * self.context


SIZES = (
    SizePreset(0.0, layers=2, heads=4, width=128, context=64, batch=16, speed=20_000),
    SizePreset(100.0, layers=2, heads=6, width=192, context=64, batch=32, speed=9_000),
    SizePreset(600.0, layers=4, heads=6, width=192, context=64, batch=32, speed=4_500),
    SizePreset(1800.0, layers=4, heads=8, width=256, context=128, batch=16, speed=2_800),
)
DEEP_SIZES = (
    SizePreset(0.0, layers=4, heads=4, width=128, context=64, batch=16, speed=8_500),
    SizePreset(0.0, layers=6, heads=4, width=128, context=64, batch=16, speed=6_500),
    SizePreset(0.0, layers=4, heads=6, width=192, context=64, batch=32, speed=4_800),
    SizePreset(0.0, layers=6, heads=6, width=192, context=64, batch=32, speed=3_500),
)
"""Deeper and slower models, for a text so short that the model of `SIZES` would go through it too often."""
DEFAULT_SIZE = SizePreset(0.0, layers=4, heads=4, width=128, context=128, batch=32)
"""The size of a run whose steps are given instead of its time."""

MANY_EPOCHS = 4.0  # a text that is seen more often than this is learned better by a deeper model
DEEP_EPOCHS = 3.2  # more epochs make a deep model memorise, with and without dropout
MAX_WEIGHTS_PER_TOKEN = 9  # weights of the layers for each token of the text; a larger deep model gains nothing
DROPOUT = ((MANY_EPOCHS, 0.1), (15.0, 0.2))  # (epochs, dropout from this number on)

REFERENCE = {"vocabulary": 1024, "layers": 2, "heads": 4, "width": 128, "context": 64}  # of a `modern` model
REFERENCE_BATCH = 16
REFERENCE_SECONDS = 0.05  # for a step of it on the study's machine: two cores, two threads


@dataclass(frozen=True)
class MachineSpeed:
    """The best number of threads on this machine, and its speed relative to the study's machine."""

    threads: int
    speed: float


def size_for(seconds: float, tokens: int) -> SizePreset:
    """The size for these seconds of the study's machine; for a text that it would see too often, a deeper one."""
    in_time = max((size for size in SIZES if size.seconds <= seconds), key=lambda size: size.seconds, default=SIZES[0])
    if in_time.epochs(seconds, tokens) < MANY_EPOCHS:
        return in_time
    small_enough = [size for size in DEEP_SIZES if size.weights <= MAX_WEIGHTS_PER_TOKEN * tokens]
    if not small_enough:
        return SIZES[0]
    fast_enough = [size for size in small_enough if size.epochs(seconds, tokens) >= DEEP_EPOCHS]
    return fast_enough[-1] if fast_enough else in_time


def useful_epochs(size: SizePreset) -> float:
    """The largest number of epochs of a run; in the study, more did not help."""
    return DEEP_EPOCHS if size in DEEP_SIZES else math.inf


def dropout(epochs: float) -> float:
    """The dropout for a text that is seen this often."""
    return max((share for least, share in DROPOUT if epochs >= least), default=0.0)


def measure_machine(device: str, dtype: str, patience: float = math.inf) -> MachineSpeed:
    """Time a few steps of the reference model, on a CPU with all threads and with one, and choose the faster.

    After `patience` seconds with either, no further step is begun.
    """
    from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig

    model: ModelConfig = LANGUAGE_MODELS["modern"](**REFERENCE)
    tokens = torch.randint(model.vocabulary, (20_000,), generator=torch.Generator().manual_seed(0))
    objective = LanguageModelling(LanguageModellingConfig(), tokens.numpy(), model.context, 0)
    settings = TrainingConfig(
        steps=1000,
        batch=REFERENCE_BATCH,
        optimizer="muon",
        learning_rate=1e-3,
        matrix_learning_rate=1e-3,
        device=device,
        dtype=dtype,  # type: ignore[arg-type]
    )
    state = initial_state(model.build().to(device), settings)
    steps = train(state, objective, settings)
    step_seconds: dict[int, float] = {}
    all_threads = devices.choose_threads()
    for threads in sorted({all_threads, 1} if device == "cpu" else {all_threads}, reverse=True):
        devices.set_threads(threads)
        step_seconds[threads] = median_step_seconds(steps, min_steps=4, seconds=0.4, patience=patience)
    best = min(step_seconds, key=lambda threads: step_seconds[threads])
    devices.set_threads(all_threads)
    return MachineSpeed(best, REFERENCE_SECONDS / step_seconds[best])


def median_step_seconds(
    steps: Iterator[Step],
    *,
    min_steps: int,
    seconds: float,
    max_steps: int = 50,
    patience: float = math.inf,
    now: Callable[[], float] = time.perf_counter,
) -> float:
    """The median time of a step, apart from the first one, which is slower.

    Steps are timed for `seconds`, and at least `min_steps` of them. After `patience` seconds no further step is begun;
    if only the first step was timed, a part of its time is returned.
    """
    began = now()
    next(steps)
    times = [now() - began]
    while len(times) <= min_steps or (sum(times[1:]) < seconds and len(times) <= max_steps):
        if sum(times) > patience:
            break
        began = now()
        next(steps)
        times.append(now() - began)
    return statistics.median(times[1:] or [FIRST_STEP * times[0]])

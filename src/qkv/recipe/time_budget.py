"""The time budget: from minutes to a model. Decision 0007 has the study behind the table.

Two short measurements decide. The first, a few steps of one fixed small model, tells how fast this machine is compared
with the study's, and so which size has the time it needs. The second, a few steps of the model that was chosen, tells
how many of them fit. During the run its clock corrects the number.
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
from qkv.training.loop import Step, start, train
from qkv.training.settings import TrainingConfig

SPARE = 0.03  # of the time is nobody's: the machine may stumble in the last moments
SAMPLES = 2.5  # seconds for two samples, the card, and compressors on other windows than planned


@dataclass(frozen=True)
class SizePreset:
    """The best size for this number of seconds of training on the study's machine."""

    seconds: float
    layers: int
    heads: int
    width: int
    context: int
    batch: int
    speed: int = 0  # tokens a second there

    def epochs(self, seconds: float, tokens: int) -> float:
        """How often a text of this many tokens is seen in these seconds of the study's machine."""
        return seconds * self.speed / tokens

    @property
    def weights(self) -> int:
        """Of the layers, about: twelve matrices of width x width each."""
        return 12 * self.layers * self.width**2

    @property
    def shape(self) -> dict[str, int]:
        return {"layers": self.layers, "heads": self.heads, "width": self.width}

    @property
    def tokens(self) -> int:
        """Of a step."""
        return self.batch * self.context


SIZES = (
    SizePreset(0.0, layers=2, heads=4, width=128, context=64, batch=16, speed=20_000),
    SizePreset(100.0, layers=2, heads=6, width=192, context=64, batch=32, speed=9_000),
    SizePreset(600.0, layers=4, heads=6, width=192, context=64, batch=32, speed=4_500),
    SizePreset(1800.0, layers=4, heads=8, width=256, context=128, batch=16, speed=2_800),
)
# For a text that the size of the time would see too often: deeper, and seen only a few times.
DEEP = (
    SizePreset(0.0, layers=4, heads=4, width=128, context=64, batch=16, speed=8_500),
    SizePreset(0.0, layers=6, heads=4, width=128, context=64, batch=16, speed=6_500),
    SizePreset(0.0, layers=4, heads=6, width=192, context=64, batch=32, speed=4_800),
    SizePreset(0.0, layers=6, heads=6, width=192, context=64, batch=32, speed=3_500),
)
DEFAULT_SIZE = SizePreset(
    0.0, layers=4, heads=4, width=128, context=128, batch=32
)  # where steps are given instead of a time

OFTEN = 4.0  # epochs: a text that would be seen more often than that teaches a deeper model more
ENOUGH = 3.2  # epochs of a deep model: after them it learns by heart, with dropout and without
LARGE = 9  # weights of the layers for each token of a text: more are not filled by it
DROPOUT = ((OFTEN, 0.1), (15.0, 0.2))  # from this number of epochs on, for a text too short for any deep model

REFERENCE = {"vocabulary": 1024, "layers": 2, "heads": 4, "width": 128, "context": 64}  # of a `modern` model
REFERENCE_BATCH = 16
REFERENCE_SECONDS = 0.05  # a step of it on the study's machine: two cores, two threads


@dataclass(frozen=True)
class MachineSpeed:
    """How fast this machine is: the threads that suit it, and its speed compared with the study's machine."""

    threads: int
    speed: float


def size_for(seconds: float, tokens: int) -> SizePreset:
    """The size for these seconds of the study's machine; where it sees the text too often, the deepest that fits."""
    in_time = max((size for size in SIZES if size.seconds <= seconds), key=lambda size: size.seconds, default=SIZES[0])
    if in_time.epochs(seconds, tokens) < OFTEN:
        return in_time
    filled = [size for size in DEEP if size.weights <= LARGE * tokens]
    if not filled:
        return SIZES[0]
    return max((size for size in filled if size.epochs(seconds, tokens) >= ENOUGH), key=DEEP.index, default=in_time)


def enough(size: SizePreset) -> float:
    """After how many epochs more time would not help."""
    return ENOUGH if size in DEEP else math.inf


def learned(model: ModelConfig, epochs: float) -> bool:
    """Whether a deep model has seen a text as often as helps it."""
    deep = {(size.layers, size.width) for size in DEEP}
    return model.kind == "modern" and (model.layers, model.width) in deep and epochs >= 0.97 * ENOUGH


def dropout(epochs: float) -> float:
    return max((share for least, share in DROPOUT if epochs >= least), default=0.0)


def machine_speed(device: str, dtype: str) -> MachineSpeed:
    """Time a few steps of the small model of reference, on all cores and on one; the faster way is taken."""
    from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig

    model: ModelConfig = LANGUAGE_MODELS["modern"](**REFERENCE)
    tokens = torch.randint(model.vocabulary, (20_000,), generator=torch.Generator().manual_seed(0))
    task = LanguageModelling(LanguageModellingConfig(), tokens.numpy(), model.context, 0)
    settings = TrainingConfig(
        steps=1000,
        batch=REFERENCE_BATCH,
        optimizer="muon",
        learning_rate=1e-3,
        matrix_learning_rate=1e-3,
        device=device,
        dtype=dtype,  # type: ignore[arg-type]
    )
    state = start(model.build().to(device), settings)
    steps = train(state, task, settings)
    found: dict[int, float] = {}
    most = devices.choose_threads()
    for threads in sorted({most, 1} if device == "cpu" else {most}, reverse=True):
        devices.set_threads(threads)
        found[threads] = typical(steps, least=4, seconds=0.4)
    best = min(found, key=lambda threads: found[threads])
    devices.set_threads(most)
    return MachineSpeed(best, REFERENCE_SECONDS / found[best])


def typical(
    steps: Iterator[Step],
    *,
    least: int,
    seconds: float,
    most: int = 50,
    patience: float = math.inf,
    now: Callable[[], float] = time.perf_counter,
) -> float:
    """The median seconds of a step; the first is slower than all that follow and does not count.

    Where steps take so long that more than `patience` seconds are gone, those so far must do.
    """
    mark = now()
    next(steps)
    spent = [now() - mark]
    while len(spent) <= least or (sum(spent[1:]) < seconds and len(spent) <= most):
        if sum(spent) > patience:
            break
        mark = now()
        next(steps)
        spent.append(now() - mark)
    return statistics.median(spent[1:] or spent)

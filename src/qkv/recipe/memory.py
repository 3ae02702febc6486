"""Forecasts the peak memory of a run, and refuses a run that would not fit, before it is built.

The memory that autograd keeps for the backward pass is measured on slices: small copies of the model with one or two
layers and rows and a narrow width run forward, and the kept bytes are counted. They grow linearly with layers, rows and
width, and linearly or, where attention keeps its weights, quadratically with the context, so the number for the whole
model follows from its slices. The C library also leaves gaps in the heap (fragmentation), which were measured for each
kind of model (bench/memory.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from qkv.blocks.bounded_state import LONG
from qkv.blocks.initialization import no_start, outline
from qkv.errors import InputError
from qkv.evaluation.perplexity import MAX_LOGITS, MAX_TOKENS
from qkv.models.language_model import count
from qkv.models.registry import ModelConfig, defaults
from qkv.objectives.objective import IN_PLACE_LOGITS, Forecastable, Objective
from qkv.recipe.recipe import Recipe
from qkv.training import devices
from qkv.training.optimizers import is_matrix

SyntheticObjective = Callable[[int], Objective]  # for a model with this context
F32_BYTES = 4


@dataclass(frozen=True)
class FormatMemory:
    """The memory measurements of bench/memory.py for a number format."""

    program: int  # bytes for torch's code, its buffers, and what learning a tokenizer leaves behind
    fragmentation: float  # heap over bytes in use, for models without a measurement of their own
    evaluation: float  # bytes of an evaluation over those of its logits and activations in f32


# for bf16, kernels are compiled when they are first used, and values that are kept as bf16 are computed with in f32
FORMAT_MEMORY = {
    "f32": FormatMemory(60 * 2**20, 1.4, 1.0),
    "bf16": FormatMemory(90 * 2**20, 1.9, 1.9),
}
MAPPED = 2.5  # bytes of address space that a process maps for each byte in use
ACCUMULATION_FRAGMENTATION = 1.25  # another factor, because gradients of one part lie between the values of the next
SLICE_CONTEXT = 32  # a slice of half this length is run as well
SLICE_WIDTH = 64  # kernels of recurrent layers round smaller widths up
SLICE_VOCABULARY = 8
SMALLER_MODEL = "Make the model smaller: --set model.layers=... or --set model.width=..."


@dataclass(frozen=True)
class MemoryForecast:
    """Bytes at the peak, beyond those of the program before the run."""

    program: int
    weights: int  # with gradients and the state of the optimizer
    values: int  # activations and logits of a part of a batch, or of an evaluation, whichever are more

    @property
    def total(self) -> int:
        return self.program + self.weights + self.values


def format_memory(recipe: Recipe) -> FormatMemory:
    return FORMAT_MEMORY[recipe.training.dtype]


def forecast(recipe: Recipe) -> MemoryForecast:
    weights, update = weight_bytes(recipe)
    values = max(training_bytes(recipe), evaluation_bytes(recipe), update)
    return MemoryForecast(format_memory(recipe).program, weights, values)


def weight_bytes(recipe: Recipe) -> tuple[int, int]:
    """The bytes in use throughout the run, and those in use only during an update or a checkpoint."""
    with outline():
        model = recipe.model.build()
    parameters = F32_BYTES * count(model)
    matrices = F32_BYTES * sum(p.numel() for name, p in model.named_parameters() if is_matrix(name, p))
    muon = matrices if recipe.training.optimizer == "muon" else 0
    state = 2 * parameters - muon  # AdamW keeps two numbers for each parameter, Muon one
    throughout = round(2.5 * parameters) + state + muon  # with gradients, Muon's buffers and heap fragmentation
    return throughout, state  # a checkpoint copies the optimizer's state


def training_bytes(recipe: Recipe) -> int:
    """The bytes at the start of the backward pass: the kept activations, and the logits.

    Small tables of logits count three times: as logits, as probabilities and as gradients.
    """
    model, training = recipe.model, recipe.training
    rows = training.batch // training.accumulate
    logits = rows * model.context * model.vocabulary
    fragmentation = defaults(model.kind).heap_fragmentation.get(training.dtype, format_memory(recipe).fragmentation)
    fragmentation *= ACCUMULATION_FRAGMENTATION if training.accumulate > 1 else 1
    inputs = logits if getattr(model, "input", "") == "one-hot" else 0
    small = kept_bytes(recipe, rows) + F32_BYTES * inputs
    if logits >= IN_PLACE_LOGITS:  # one table and the buffer of its product, which cause no fragmentation
        return round(fragmentation * small + 1.5 * F32_BYTES * logits)
    return round(fragmentation * (small + 3 * F32_BYTES * logits))


def evaluation_bytes(recipe: Recipe) -> int:
    """The bytes of the logits, and of the activations of one layer, most of which are its feed-forward's."""
    model, training = recipe.model, recipe.training
    tokens = min(MAX_TOKENS, MAX_LOGITS // model.vocabulary)
    if training.accumulate > 1:
        tokens = min(tokens, training.batch // training.accumulate * model.context)
    numbers = max(tokens, model.context) * (model.vocabulary + defaults(model.kind).evaluated_widths * model.width)
    return round(format_memory(recipe).evaluation * F32_BYTES * numbers)


def kept_bytes(recipe: Recipe, rows: int) -> int:
    """The bytes that autograd keeps for this number of windows, without the logits."""
    with devices.enough_memory(recipe.training, recipe.model.context):
        assert isinstance(recipe.task, Forecastable), f"{type(recipe.task).__name__} has no synthetic_objective"
        return _kept_bytes(recipe.model, recipe.task.synthetic_objective, recipe.training.dtype, rows)


@lru_cache(maxsize=8)  # a run needs the number twice, to check it and to print it
def _kept_bytes(model: ModelConfig, objective: SyntheticObjective, dtype: str, rows: int) -> int:
    # a multiple of 12, because hidden widths are 32 * round(width / 12) in some models
    width = math.lcm(12, 2 * model.heads) if hasattr(model, "heads") else SLICE_WIDTH
    ranges = ((1, 2, model.layers), (1, 2, rows), (width, 2 * width, model.width))
    window = getattr(model, "window", 0)
    length = SLICE_CONTEXT
    if 0 < LONG * window <= model.context:  # attention is computed in bands only for texts this long
        length = 2 * LONG * window
    half, full = (
        extrapolate(partial(slice_bytes, model, objective, dtype, context), *ranges)
        for context in (length // 2, length)
    )
    quadratic = (full - 2 * half) / (length**2 / 2)  # bytes = linear x context + quadratic x context²
    linear = full / length - quadratic * length
    return round(linear * model.context + quadratic * model.context**2)


def extrapolate(function: Callable[..., float], *ranges: tuple[int, int, int]) -> float:
    """The value of a function that is linear in each argument, from its values at smaller arguments.

    There is a range for each argument: two values at which the function is called, and the one that is wanted.
    """
    if not ranges:
        return float(function())
    (low, high, wanted), *rest = ranges
    at_low, at_high = (extrapolate(partial(function, argument), *rest) for argument in (low, high))
    return at_low + (at_high - at_low) * (wanted - low) / (high - low)


def slice_bytes(
    model: ModelConfig, objective: SyntheticObjective, dtype: str, context: int, layers: int, rows: int, width: int
) -> int:
    """The bytes that autograd keeps for a few windows of a small model of the same kind, without the logits."""
    config = replace(model, layers=layers, context=context, width=width, vocabulary=SLICE_VOCABULARY)
    synthetic = objective(context)
    with torch.random.fork_rng(devices=[]):  # leave the random state of the run as it is
        with no_start():
            small: nn.Module = config.build()
        with count_kept_bytes(small) as kept, devices.autocast("cpu", dtype):
            loss = synthetic.loss(small, synthetic.batch(0, rows))
    del loss
    return sum(kept.values()) - F32_BYTES * rows * context * SLICE_VOCABULARY


@contextmanager
def count_kept_bytes(model: nn.Module) -> Iterator[dict[int, int]]:
    """Collect the bytes of every tensor, other than weights, that autograd keeps inside the context, by address."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


def require_memory(recipe: Recipe) -> None:
    """Refuse a run that would not fit into the memory of its device, with a remedy."""
    available = devices.memory_bytes(recipe.training.device)
    if available is None:
        return
    weights, update = weight_bytes(recipe)
    least = format_memory(recipe).program + weights + update
    if least > available:
        raise _too_large(recipe, least, available, SMALLER_MODEL)
    _require_allocatable(recipe, least)  # before slices of the model are run
    needed = forecast(recipe)
    if needed.total <= available:
        _require_allocatable(recipe, needed.total)
        return
    training = recipe.training
    rows = training.batch // training.accumulate
    free = available - needed.program - needed.weights
    fitting_rows = int(free / needed.values * rows / ACCUMULATION_FRAGMENTATION)
    parts = training.equal_parts(math.ceil(training.batch / max(1, fitting_rows)))
    remedy = f"Compute a batch in parts: --set training.accumulate={parts}, or make model.context smaller."
    raise _too_large(recipe, needed.total, available, remedy if fitting_rows else SMALLER_MODEL)


def _require_allocatable(recipe: Recipe, size: int) -> None:
    """Refuse a run in bf16 that would exceed the process's memory limit: kernels for bf16 end the program there."""
    if recipe.training.dtype == "bf16":
        with devices.enough_memory(recipe.training, recipe.model.context):
            devices.require_allocatable(round(MAPPED * size))


def _too_large(recipe: Recipe, needed: int, available: int, remedy: str) -> InputError:
    model, training = recipe.model, recipe.training
    return InputError(
        f"{model.kind} with {model.layers} layers of {model.width} and a batch of {training.batch} x {model.context} "
        f"needs about {needed / 2**30:.1f} GiB; this machine has {available / 2**30:.1f}. {remedy}"
    )

"""How much memory a run will take at its peak, and whether that fits: known before anything of its size is built.

What a model keeps of a batch for the way back is not guessed: slices of it, a layer or two, a row or two, narrow, are
run forward, and what autograd holds is counted. It grows with layers, rows and width in straight lines, with the
context in a line or, where attention keeps its weights, in a parabola, so the slices tell the whole. Between what it
gives out the C library leaves gaps (heap fragmentation): how much was measured, by kind (bench/memory.py).
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
from qkv.evaluation.perplexity import NUMBERS, TOKENS
from qkv.models.language_model import count
from qkv.models.registry import ModelConfig, defaults
from qkv.objectives.objective import LARGE, Objective, Sampled
from qkv.recipe.recipe import Recipe
from qkv.training import devices
from qkv.training.optimizers import is_matrix

Sample = Callable[[int], Objective]  # the objective on made-up data, for a context
BYTES = 4  # of an f32 number


@dataclass(frozen=True)
class MemoryFigures:
    """What bench/memory.py found in one number format."""

    program: int  # torch's code as it comes into use, buffers, what learning a tokenizer leaves behind
    fragmentation: float  # of the heap, times what is in use, where a model has no figure of its own
    evaluated: float  # times the f32 numbers of an evaluation


# in bf16 kernels are made as they are asked for, and values that are kept in half the bytes are worked on in f32
MEASURED = {
    "f32": MemoryFigures(60 * 2**20, 1.4, 1.0),
    "bf16": MemoryFigures(90 * 2**20, 1.9, 1.9),
}
MAPPED = 2.5  # addresses that a process maps for each byte in use
PARTED = 1.25  # more where gradients of one part lie between the values of the next
CONTEXT = 32  # of a slice; half of it is run as well
NARROW = 64  # of a slice: kernels of recurrent layers round smaller widths up
PIECES = 8
SMALLER = "Make the model smaller: --set model.layers=... or --set model.width=..."


@dataclass(frozen=True)
class Needs:
    """Bytes beyond what the program takes before it starts."""

    program: int
    weights: int  # with gradients and the optimizer's memory
    values: int  # of one part of a batch, on the way forward and back, or of an evaluation

    @property
    def total(self) -> int:
        return self.program + self.weights + self.values


def measured(recipe: Recipe) -> MemoryFigures:
    return MEASURED[recipe.training.dtype]


def needs(recipe: Recipe) -> Needs:
    weights, update = weight_bytes(recipe)
    return Needs(measured(recipe).program, weights, max(trained_bytes(recipe), evaluated_bytes(recipe), update))


def weight_bytes(recipe: Recipe) -> tuple[int, int]:
    """What is there all the time, and what an update or a checkpoint takes for a moment."""
    with outline():
        model = recipe.model.build()
    own = BYTES * count(model)
    matrices = BYTES * sum(each.numel() for name, each in model.named_parameters() if is_matrix(name, each))
    turned = matrices if recipe.training.optimizer == "muon" else 0
    state = 2 * own - turned  # AdamW remembers two numbers for each, Muon one
    always = round(2.5 * own) + state + turned  # with gradients, what Muon works on, and heap fragmentation
    return always, state  # a copy of the optimizer's memory while it is written


def trained_bytes(recipe: Recipe) -> int:
    """At the start of the way back: what was kept, and the logits, small ones with their shares and gradients."""
    model, training = recipe.model, recipe.training
    rows = training.batch // training.accumulate
    numbers = rows * model.context * model.vocabulary
    known = measured(recipe)
    own = defaults(model.kind).heap_fragmentation.get(training.dtype, known.fragmentation)
    fragmentation = own * (PARTED if training.accumulate > 1 else 1)
    inputs = numbers if getattr(model, "input", "") == "one-hot" else 0
    small = kept_bytes(recipe, rows) + BYTES * inputs
    if numbers >= LARGE:  # one table, and what its product with the head works on: both are given back to the system
        return round(fragmentation * small + 1.5 * BYTES * numbers)
    return round(fragmentation * (small + 3 * BYTES * numbers))


def evaluated_bytes(recipe: Recipe) -> int:
    """Logits, and what one layer works on: its feed-forward's values, most of all."""
    model, training = recipe.model, recipe.training
    tokens = min(TOKENS, NUMBERS // model.vocabulary)
    if training.accumulate > 1:
        tokens = min(tokens, training.batch // training.accumulate * model.context)
    layer = defaults(model.kind).evaluated_widths * model.width
    return round(measured(recipe).evaluated * BYTES * max(tokens, model.context) * (model.vocabulary + layer))


def kept_bytes(recipe: Recipe, rows: int) -> int:
    """What autograd keeps of this number of windows, but for the logits."""
    with devices.enough_memory(recipe.training, recipe.model.context):
        assert isinstance(recipe.task, Sampled), f"{type(recipe.task).__name__} has no `sample`, which a forecast needs"
        return _kept_bytes(recipe.model, recipe.task.sample, recipe.training.dtype, rows)


@lru_cache(maxsize=8)  # a run asks twice: whether it fits, and what to say
def _kept_bytes(model: ModelConfig, sample: Sample, dtype: str, rows: int) -> int:
    narrow = math.lcm(12, 2 * model.heads) if hasattr(model, "heads") else NARROW  # hidden widths are rounded to 12ths
    spans = ((1, 2, model.layers), (1, 2, rows), (narrow, 2 * narrow, model.width))
    window = getattr(model, "window", 0)
    length = 2 * LONG * window if 0 < LONG * window <= model.context else CONTEXT  # a band is one in long texts only
    half, whole = (straight(partial(slice_bytes, model, sample, dtype, c), *spans) for c in (length // 2, length))
    bend = (whole - 2 * half) / (length**2 / 2)  # kept = slope x context + bend x context²
    slope = whole / length - bend * length
    return round(slope * model.context + bend * model.context**2)


def straight(value: Callable[..., float], *spans: tuple[int, int, int]) -> float:
    """What a function that is straight in each of its arguments is at some place, from its values at two others."""
    if not spans:
        return float(value())
    (low, high, wanted), *rest = spans
    one, two = (straight(partial(value, each), *rest) for each in (low, high))
    return one + (two - one) * (wanted - low) / (high - low)


def slice_bytes(
    model: ModelConfig, sample: Sample, dtype: str, context: int, layers: int, rows: int, width: int
) -> int:
    """What autograd keeps of a few windows of a small model of the same kind, but for the logits."""
    config = replace(model, layers=layers, context=context, width=width, vocabulary=PIECES)
    work = sample(context)
    with torch.random.fork_rng(devices=[]):  # a forecast takes no random numbers from the run
        with no_start():
            part: nn.Module = config.build()
        with keeping(part) as kept, devices.autocast("cpu", dtype):
            loss = work.loss(part, work.batch(0, rows))
    del loss
    return sum(kept.values()) - BYTES * rows * context * PIECES


@contextmanager
def keeping(model: nn.Module) -> Iterator[dict[int, int]]:
    """The bytes of every tensor that autograd keeps within it, weights aside, by their place in memory."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


def require_room(recipe: Recipe) -> None:
    """Refuse what cannot fit, with a remedy."""
    there = devices.memory_bytes(recipe.training.device)
    if there is None:
        return
    weights, update = weight_bytes(recipe)
    least = measured(recipe).program + weights + update
    if least > there:
        raise _refusal(recipe, least, there, SMALLER)
    _ask(recipe, least)  # before slices of the model are run
    found = needs(recipe)
    if found.total <= there:
        _ask(recipe, found.total)
        return
    training = recipe.training
    rows, room = training.batch // training.accumulate, there - found.program - found.weights
    fit = int(room / found.values * rows / PARTED)
    parts = training.parts(math.ceil(training.batch / max(1, fit)))
    remedy = f"Compute a batch in parts: --set training.accumulate={parts}, or make model.context smaller."
    raise _refusal(recipe, found.total, there, remedy if fit else SMALLER)


def _ask(recipe: Recipe, size: int) -> None:
    """Under a limit of the process, refuse a run in bf16 that it may not hold: its kernels would end the program."""
    if recipe.training.dtype == "bf16":
        with devices.enough_memory(recipe.training, recipe.model.context):
            devices.ask_for(round(MAPPED * size))


def _refusal(recipe: Recipe, needed: int, there: int, remedy: str) -> InputError:
    model, training = recipe.model, recipe.training
    return InputError(
        f"{model.kind} with {model.layers} layers of {model.width} and a batch of {training.batch} x {model.context} "
        f"needs about {needed / 2**30:.1f} GiB; this machine gives {there / 2**30:.1f}. {remedy}"
    )

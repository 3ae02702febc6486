"""The training loop, a plain generator: forward, backward, clip, step, yield. Whoever iterates prints, draws or saves.

Everything the loop remembers between two steps is in `TrainingState`, so that saving it saves the run.

`training_flops` is how much a training computes: the products and sums of all its forward and backward passes.

    FLOPs = 3 · (a forward pass)        the backward pass is two more (Kaplan et al. 2020: 6 · weights · tokens)

A forward pass is counted by torch on batches of the run itself: every matrix product, convolution and attention, two
operations for a product and its sum. Recurrent kernels that torch does not count (it takes some of them apart) have two
for each weight and token. Looking up rows of a table costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

from qkv.blocks.attention import open_attention
from qkv.blocks.fast_paths import evaluating
from qkv.blocks.tap import hooked
from qkv.errors import DivergedError
from qkv.objectives.objective import Objective
from qkv.training.devices import autocast
from qkv.training.optimizers import optimizers, set_rates
from qkv.training.settings import TrainingConfig


@dataclass
class TrainingState:
    """A model under training: its optimizers, and how many steps and samples are behind it."""

    model: nn.Module
    optimizers: dict[str, torch.optim.Optimizer]
    step: int = 0
    samples: int = 0


@dataclass(frozen=True)
class Step:
    """What one step did."""

    number: int
    loss: float
    gradient_norm: float
    rate_share: float
    tokens: int = field(compare=False)


def start(model: nn.Module, config: TrainingConfig) -> TrainingState:
    """The state before the first step."""
    return TrainingState(model, optimizers(model, config))


def train(state: TrainingState, task: Objective, config: TrainingConfig) -> Iterator[Step]:
    """Steps until `config.length`. Sample order is a function of the seed and of the samples consumed, nothing else."""
    model = state.model
    computed: nn.Module = torch.compile(model) if config.compile == "on" else model  # type: ignore[assignment]
    parameters = [p for p in model.parameters() if p.requires_grad]
    while state.step < config.length:
        model.train()
        batch = task.batch(state.samples, config.batch)
        total = batch.count
        loss_sum = 0.0
        for part in batch.split(config.accumulate):
            part = part.to(config.device)
            with autocast(config.device, config.dtype):
                loss = task.loss(computed, part) / total  # over the whole batch, so that splitting changes nothing
            loss.backward()  # type: ignore[no-untyped-call]
            loss_sum += loss.item()
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            raise DivergedError(_diagnosis(state, task, config, loss_sum))
        if config.clip:
            nn.utils.clip_grads_with_norm_(parameters, config.clip, norm)
        now = config.rate_share(state.step)
        set_rates(state.optimizers, now)
        for optimizer in state.optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        state.step += 1
        state.samples += config.batch
        yield Step(state.step, loss_sum, float(norm), now, total)


def require_finite(state: TrainingState) -> None:
    """The last update may have overflowed; the next step would notice, but a checkpoint must not keep it."""
    if bad := _first_bad(dict(state.model.named_parameters())):
        raise DivergedError(
            f"training diverged at step {state.step}: the update made the weight {bad} not finite. It was not saved; "
            "every checkpoint is good. Try a lower learning rate (--set training.learning_rate, "
            "--set training.matrix_learning_rate)."
        )


def _diagnosis(state: TrainingState, task: Objective, config: TrainingConfig, loss: float) -> str:
    """Name the first tensor that is not finite: a weight, then a value on the way forward, then a gradient."""
    if bad := _first_bad(dict(state.model.named_parameters())):
        where = f"the weight {bad}"
    elif not math.isfinite(loss):
        bad = _first_bad_output(state, task, config)
        where = f"the output of {bad}" if bad else "the loss itself"
    else:
        gradients = {name: p.grad for name, p in state.model.named_parameters() if p.grad is not None}
        where = f"the gradient of {_first_bad(gradients)}"
    first, last = state.samples, state.samples + config.batch - 1
    return (
        f"training diverged at step {state.step + 1}: {where} is not finite (loss {loss}; samples {first}-{last}). "
        "The update was not made; every checkpoint is good. Try a lower learning rate "
        f"(--set training.learning_rate={config.learning_rate / 3:.2g} "
        f"--set training.matrix_learning_rate={config.matrix_learning_rate / 3:.2g})."
    )


def _first_bad(tensors: dict[str, Tensor]) -> str | None:
    return next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None)


def _first_bad_output(state: TrainingState, task: Objective, config: TrainingConfig) -> str | None:
    """Run the batch again and check every module's output, in the order of the forward pass."""
    names = {module: name for name, module in state.model.named_modules() if name}
    bad: list[str] = []

    def hook(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and not output.isfinite().all():
            bad.append(names[module])

    hooks = [module.register_forward_hook(hook) for module in names]
    with hooked(hooks), torch.no_grad(), autocast(config.device, config.dtype):
        task.loss(state.model, task.batch(state.samples, config.batch).to(config.device))
    return bad[0] if bad else None


BATCHES = 4  # counted, spread over an epoch


def training_flops(model: nn.Module, task: Objective, batch: int, samples: int) -> float:
    """Of a training that saw `samples` samples in batches of this size."""
    device = str(next(model.parameters()).device)
    size = max(1, min(batch, task.samples))
    starts = sorted({task.samples * number // BATCHES // size * size for number in range(BATCHES)})
    with evaluating(model):
        batches = (task.batch(first, size).to(device) for first in starts)
        counts = [forward_flops(model, lambda: task.loss(model, batch))[""] for batch in batches]  # noqa: B023
    return 3 * float(sum(counts)) / len(counts) / size * samples


@torch.no_grad()
def forward_flops(model: nn.Module, forward: Callable[[], object]) -> dict[str, int]:
    """FLOPs of a forward pass, by the path of each part of the model; "" is all of it."""
    kernels, before = dict[str, int](), 0
    recurrent: dict[nn.Module, str] = {
        module: path for path, module in model.named_modules() if isinstance(module, nn.RNNBase)
    }

    def begin(module: nn.Module, inputs: object) -> None:
        nonlocal before
        before = counter.get_total_flops()

    def count(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if counter.get_total_flops() > before:
            return
        values = inputs[0].data if isinstance(inputs[0], PackedSequence) else inputs[0]
        assert isinstance(values, Tensor)
        weights = sum(p.numel() for name, p in module.named_parameters() if "weight" in name)
        path = recurrent[module]
        kernels[path] = kernels.get(path, 0) + 2 * weights * (values.numel() // values.size(-1))

    hooks = [module.register_forward_pre_hook(begin) for module in recurrent]
    hooks += [module.register_forward_hook(count) for module in recurrent]
    with hooked(hooks), open_attention(model), _without_gradients(model), FlopCounterMode(display=False) as counter:
        forward()
    own = type(model).__name__  # torch names parts from the model's class on: GPT.blocks.0
    counted = {name.removeprefix(own + "."): sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    counted[""] = counter.get_total_flops()
    return {
        path: counted.get(path, 0)
        + sum(flops for inside, flops in kernels.items() if not path or f"{inside}.".startswith(f"{path}."))
        for path, _ in model.named_modules()
    }


@contextmanager
def _without_gradients(model: nn.Module) -> Iterator[None]:
    """torch's counter follows whatever wants a gradient, and fails at a part that hands out its own parameter."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)

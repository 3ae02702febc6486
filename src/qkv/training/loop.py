"""The training loop, a plain generator: forward, backward, clip, step, yield. Whoever iterates prints, draws or saves.

Everything the loop remembers between two steps is in `TrainingState`, so that saving it saves the run.

How much a training computes: the products and sums of forward and backward passes over all examples it saw.

    FLOPs = 3 · (a forward pass)        the backward pass is two more (Kaplan et al. 2020: 6 · weights · tokens)

A forward pass is counted by torch on batches of the run itself: every matrix product, convolution and attention, two
operations for a product and its sum. Recurrent kernels that torch does not count (it takes some of them apart) have two
for each weight and token. Looking up rows of a table costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

from qkv.blocks.attention import open_attention
from qkv.errors import ConfigError, DivergedError
from qkv.objectives.objective import Objective
from qkv.training.devices import autocast
from qkv.training.optimizers import optimizers, set_rates
from qkv.training.settings import TrainingConfig, share


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


def require_complete(config: TrainingConfig) -> None:
    """Refuse settings that are still open: `qkv train` chooses them by model, data and machine, the loop does not."""
    open_ = (
        ["steps"] * (not config.length)
        + ["batch"] * (not config.batch)
        + ["learning_rate"] * (not config.learning_rate)
    )
    open_ += [name for name in ("optimizer", "device", "dtype") if getattr(config, name) == "auto"]
    open_ += ["matrix_learning_rate"] * (config.optimizer == "muon" and not config.matrix_learning_rate)
    if open_:
        values = ", ".join(f"training.{name} = {getattr(config, name)!r}" for name in open_)
        raise ConfigError(
            f"{values}: still to be chosen, which `qkv train` and qkv.train do; the training loop needs all of them. "
            'Give them, as in: TrainingConfig(steps=100, batch=32, optimizer="adamw", learning_rate=1e-3, '
            'device="cpu", dtype="f32").'
        )


def start(model: nn.Module, config: TrainingConfig) -> TrainingState:
    """The state before the first step."""
    require_complete(config)
    found = optimizers(
        model,
        kind=config.optimizer,
        learning_rate=config.learning_rate,
        matrix_learning_rate=config.matrix_learning_rate,
        betas=config.betas,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        layer_decay=config.layer_decay,
        dtype=config.dtype,
    )
    return TrainingState(model, found)


def train(state: TrainingState, task: Objective, config: TrainingConfig) -> Iterator[Step]:
    """Steps until `config.length`. Sample order is a function of the seed and of the samples consumed, nothing else."""
    require_complete(config)
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
        now = share(
            state.step,
            config.steps,
            config.schedule,
            config.warmup,
            config.final_fraction,
            config.decay,
            config.steps_changes,
        )
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
    bad = _first_bad(dict(state.model.named_parameters()))
    where = f"the weight {bad}" if bad else ""
    if not bad and not math.isfinite(loss):
        bad = _first_bad_output(state, task, config)
        where = f"the output of {bad}" if bad else "the loss itself"
    if not where:
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
    """Run the batch again with a look at every module's output, in the order of the forward pass."""
    found: list[str] = []

    def look(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name)

        return hook

    handles = [module.register_forward_hook(look(name)) for name, module in state.model.named_modules() if name]
    try:
        with torch.no_grad(), autocast(config.device, config.dtype):
            task.loss(state.model, task.batch(state.samples, config.batch).to(config.device))
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


BATCHES = 4  # looked at, spread over an epoch


def training_flops(model: nn.Module, task: Objective, batch: int, samples: int) -> float:
    """Of a training that saw so many samples in batches of this size."""
    device = str(next(model.parameters()).device)
    size = max(1, min(batch, task.samples))
    spread = [task.samples * number // BATCHES // size * size for number in range(BATCHES)]
    found = [_forward(model, task, first, size, device) for first in sorted(set(spread))]
    return 3 * sum(found) / len(found) / size * samples


def _forward(model: nn.Module, task: Objective, first: int, size: int, device: str) -> float:
    kernels = before = 0

    def begin(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        nonlocal before
        before = counter.get_total_flops()

    def count(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        nonlocal kernels
        if counter.get_total_flops() > before:
            return
        read = inputs[0]
        values: Tensor = read.data if isinstance(read, PackedSequence) else read
        weights = sum(each.numel() for name, each in module.named_parameters() if "weight" in name)
        kernels += 2 * weights * (values.numel() // values.size(-1))

    recurrent = [each for each in model.modules() if isinstance(each, nn.RNNBase)]
    hooks = [each.register_forward_pre_hook(begin) for each in recurrent]
    hooks += [each.register_forward_hook(count) for each in recurrent]
    was = model.training
    model.eval()
    try:
        with torch.no_grad(), open_attention(model), FlopCounterMode(display=False) as counter:
            task.loss(model, task.batch(first, size).to(device))
    finally:
        model.train(was)
        for hook in hooks:
            hook.remove()
    return float(counter.get_total_flops() + kernels)

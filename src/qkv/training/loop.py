"""The training loop, a plain generator: forward, backward, clip, step, yield. The caller prints, draws or saves.

Everything that the loop needs from one step to the next is in `TrainingState`, so saving that saves the run.

`training_flops` counts the floating-point operations of a training run:

    FLOPs = 3 · (a forward pass)        the backward pass counts as two (Kaplan et al. 2020: 6 · weights · tokens)

torch counts a forward pass on batches of the run: two operations for each multiplication and addition of a matrix
product, a convolution or attention. Recurrent kernels that torch does not count have two for each weight and token.
Looking up rows of an embedding is not counted; adding them with weights, as a linear model on n-grams does, is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

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
from qkv.training.optimizers import optimizers, set_learning_rates
from qkv.training.settings import TrainingConfig


@dataclass
class TrainingState:
    """A model in training, its optimizers, and the numbers of steps and samples that are done."""

    model: nn.Module
    optimizers: dict[str, torch.optim.Optimizer]
    step: int = 0
    samples: int = 0


@dataclass(frozen=True)
class Step:
    """The result of a training step."""

    number: int
    loss: float
    gradient_norm: float
    rate_share: float
    tokens: int = field(compare=False)
    converged: bool = False  # a solver has found the optimum


def initial_state(model: nn.Module, config: TrainingConfig) -> TrainingState:
    """The state before the first step."""
    return TrainingState(model, optimizers(model, config))


def train(state: TrainingState, objective: Objective, config: TrainingConfig) -> Iterator[Step]:
    """Train up to step `config.length`, and yield every step. The samples follow from the seed and `state.samples`."""
    model = state.model
    compiled: nn.Module = torch.compile(model) if config.compile == "on" else model  # type: ignore[assignment]
    parameters = [p for p in model.parameters() if p.requires_grad]
    while state.step < config.length:
        model.train()
        batch = objective.batch(state.samples, config.batch)
        total = batch.count
        loss_sum = 0.0
        for part in batch.split(config.accumulate):
            part = part.to(config.device)
            with autocast(config.device, config.dtype):
                # divide by the count of the whole batch, so that the sum over its parts is the batch's mean
                loss = objective.loss(compiled, part) / total
            loss.backward()  # type: ignore[no-untyped-call]
            loss_sum += loss.item()
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            raise DivergedError(_divergence_message(state, objective, config, loss_sum))
        if config.clip:
            nn.utils.clip_grads_with_norm_(parameters, config.clip, norm)
        rate_share = config.rate_share(state.step)
        set_learning_rates(state.optimizers, rate_share)
        for optimizer in state.optimizers.values():
            optimizer.step(partial(float, loss_sum))
            optimizer.zero_grad(set_to_none=True)
        state.step += 1
        state.samples += config.batch
        converged = any(getattr(optimizer, "converged", False) for optimizer in state.optimizers.values())
        yield Step(state.step, loss_sum, float(norm), rate_share, total, converged)


def require_finite(state: TrainingState) -> None:
    """Refuse weights that overflowed in the last update. The next step would fail, but a checkpoint comes before it."""
    if bad := _first_not_finite(dict(state.model.named_parameters())):
        raise DivergedError(
            f"training diverged at step {state.step}: the update made the weight {bad} not finite. It was not saved; "
            "every checkpoint is good. Try a lower learning rate (--set training.learning_rate, "
            "--set training.matrix_learning_rate)."
        )


def _divergence_message(state: TrainingState, objective: Objective, config: TrainingConfig, loss: float) -> str:
    """A message that names the first tensor that is not finite: a weight, an output of the forward pass, a gradient."""
    if bad := _first_not_finite(dict(state.model.named_parameters())):
        where = f"the weight {bad}"
    elif not math.isfinite(loss):
        bad = _first_bad_module(state, objective, config)
        where = f"the output of {bad}" if bad else "the loss itself"
    else:
        gradients = {name: p.grad for name, p in state.model.named_parameters() if p.grad is not None}
        where = f"the gradient of {_first_not_finite(gradients)}"
    first, last = state.samples, state.samples + config.batch - 1
    return (
        f"training diverged at step {state.step + 1}: {where} is not finite (loss {loss}; samples {first}-{last}). "
        "The update was not made; every checkpoint is good. Try a lower learning rate "
        f"(--set training.learning_rate={config.learning_rate / 3:.2g} "
        f"--set training.matrix_learning_rate={config.matrix_learning_rate / 3:.2g})."
    )


def _first_not_finite(tensors: dict[str, Tensor]) -> str | None:
    return next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None)


def _first_bad_module(state: TrainingState, objective: Objective, config: TrainingConfig) -> str | None:
    """Run the batch again, and give the first module in the forward pass whose output is not finite."""
    names = {module: name for name, module in state.model.named_modules() if name}
    bad: list[str] = []

    def hook(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and not output.isfinite().all():
            bad.append(names[module])

    hooks = [module.register_forward_hook(hook) for module in names]
    with hooked(hooks), torch.no_grad(), autocast(config.device, config.dtype):
        objective.loss(state.model, objective.batch(state.samples, config.batch).to(config.device))
    return bad[0] if bad else None


COUNTED_BATCHES = 4  # spread over an epoch


def training_flops(model: nn.Module, objective: Objective, batch: int, samples: int) -> float:
    """The FLOPs of training on `samples` samples in batches of this size, extrapolated from a few batches."""
    device = str(next(model.parameters()).device)
    size = max(1, min(batch, objective.samples))
    starts = sorted({objective.samples * i // COUNTED_BATCHES // size * size for i in range(COUNTED_BATCHES)})
    with evaluating(model):
        batches = (objective.batch(first, size).to(device) for first in starts)
        counts = [forward_flops(model, lambda: objective.loss(model, batch))[""] for batch in batches]  # noqa: B023
    return 3 * float(sum(counts)) / len(counts) / size * samples


@torch.no_grad()
def forward_flops(model: nn.Module, forward: Callable[[], object]) -> dict[str, int]:
    """The FLOPs of a forward pass by the dotted name of each module; those of the whole model are under ""."""
    kernel_flops, before = dict[str, int](), 0
    recurrent: dict[nn.Module, str] = {
        module: path for path, module in model.named_modules() if isinstance(module, nn.RNNBase)
    }

    def before_forward(module: nn.Module, inputs: object) -> None:
        nonlocal before
        before = counter.get_total_flops()

    def after_forward(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if counter.get_total_flops() > before:
            return  # torch has counted the products inside the kernel
        values = inputs[0].data if isinstance(inputs[0], PackedSequence) else inputs[0]
        assert isinstance(values, Tensor)
        weights = sum(p.numel() for name, p in module.named_parameters() if "weight" in name)
        path = recurrent[module]
        kernel_flops[path] = kernel_flops.get(path, 0) + 2 * weights * (values.numel() // values.size(-1))

    hooks = [module.register_forward_pre_hook(before_forward) for module in recurrent]
    hooks += [module.register_forward_hook(after_forward) for module in recurrent]
    with hooked(hooks), open_attention(model), _without_gradients(model), _counter() as counter:
        forward()
    prefix = f"{type(model).__name__}."  # torch's names begin with the model's class: GPT.blocks.0
    counted = {name.removeprefix(prefix): sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    counted[""] = counter.get_total_flops()
    return {
        path: counted.get(path, 0)
        + sum(flops for inside, flops in kernel_flops.items() if not path or f"{inside}.".startswith(f"{path}."))
        for path, _ in model.named_modules()
    }


def _counter() -> FlopCounterMode:
    """torch's counter, which knows sums of weighted rows, too: the product of sparse rows with a matrix."""

    def bag(matrix: torch.Size, columns: torch.Size, *others: object, out_shape: object = None, **named: object) -> int:
        return 2 * int(columns[0]) * int(matrix[-1])

    operations = (torch.ops.aten._embedding_bag, torch.ops.aten._embedding_bag_forward_only)
    return FlopCounterMode(display=False, custom_mapping=dict.fromkeys(operations, bag))


@contextmanager
def _without_gradients(model: nn.Module) -> Iterator[None]:
    """Let no parameter require a gradient: torch's counter would fail at a module whose output is its own parameter."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)

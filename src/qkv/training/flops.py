"""How much a training computes: the products and sums of forward and backward passes over all examples it saw.

    FLOPs = 3 · (a forward pass)        the backward pass is two more (Kaplan et al. 2020: 6 · weights · tokens)

A forward pass is counted by torch on batches of the run itself: every matrix product, convolution and attention, two
operations for a product and its sum. Recurrent kernels that torch does not count (it takes some of them apart) have two
for each weight and token. Looking up rows of a table costs nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.flop_counter import FlopCounterMode

from qkv.blocks.attention import open_attention
from qkv.objectives.objective import Objective

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

"""The loss of many predictions over a large vocabulary, without a second copy of the logits.

    L = Σ log Σ_v exp(z_v) - z_target          dL/dz = softmax(z) - [v = target]

torch's own keeps the logarithms of the probabilities beside the logits, and then their gradient: three tables of batch
x length x vocabulary. Here the gradient is written over the logits, some rows at a time, while they are in the cache.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

LARGE = 2**23  # numbers in the logits, from which on it pays
ROWS = 2**20  # numbers worked on at once


class InPlaceCrossEntropy(torch.autograd.Function):
    """The logits are gone after the way back: nobody else may need them."""

    @staticmethod
    def forward(context: Any, logits: Tensor, targets: Tensor) -> Tensor:
        total = torch.cat([part.logsumexp(-1) for part in torch.split(logits, max(1, ROWS // logits.size(-1)))])
        context.save_for_backward(logits, targets, total)
        return (total - logits.gather(1, targets.unsqueeze(1)).squeeze(1)).sum()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits: Tensor = context.saved_tensors[0]
        rows = max(1, ROWS // logits.size(-1))
        for part, target, own in zip(*(torch.split(each, rows) for each in context.saved_tensors), strict=True):
            part.sub_(own.unsqueeze(1)).exp_()
            part[torch.arange(len(part), device=part.device), target] -= 1
            part.mul_(gradient)
        return logits, None


def cross_entropy(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"]) -> Float[Tensor, ""]:
    """The sum of -log p(target). Small tables go the usual way, which is as fast for them."""
    logits = logits.float()
    if logits.numel() < LARGE or not logits.requires_grad:
        return F.cross_entropy(logits, targets, reduction="sum")
    return InPlaceCrossEntropy.apply(logits, targets)  # type: ignore[no-untyped-call]

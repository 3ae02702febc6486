"""What an objective offers to the loop: batches by position, and a loss. The loss lives here, never in the model.

The loss of many predictions over a large vocabulary, without a second copy of the logits.

    L = Σ log Σ_v exp(z_v) - z_target          dL/dz = softmax(z) - [v = target]

torch's own keeps the logarithms of the probabilities beside the logits, and then their gradient: three tables of batch
x length x vocabulary. Here the gradient is written over the logits, some rows at a time, while they are in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


@runtime_checkable
class Batch(Protocol):
    """What one step sees. `count` is the number of things the loss is summed over."""

    @property
    def count(self) -> int: ...
    def split(self, parts: int) -> Iterator[Batch]: ...
    def to(self, device: str) -> Batch: ...


@runtime_checkable
class Objective(Protocol):
    """`batch(first, size)` is a pure function: the same samples for the same seed, however the run is cut."""

    samples: int  # in one epoch

    def batch(self, first: int, size: int) -> Batch: ...
    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...


LARGE = 2**23  # numbers in the logits, from which on it pays
ROWS = 2**18  # numbers worked on at once


class InPlaceCrossEntropy(torch.autograd.Function):
    """The logits, of any number format, are gone at once: nobody else may need them."""

    @staticmethod
    def forward(context: Any, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The gradient is written on the way forward: a part is read once, and worked on in f32."""
        rows, pieces = max(1, ROWS // logits.size(-1)), logits.size(-1)
        losses = []
        for part, target in zip(torch.split(logits, rows), torch.split(targets, rows), strict=True):
            scores, place = part.float(), target.unsqueeze(1)
            top = scores.amax(-1, keepdim=True)
            loss = top - (1 - smoothing) * scores.gather(1, place)
            if smoothing:
                loss -= smoothing * scores.mean(-1, keepdim=True)
            shares = scores.sub_(top).exp_()  # the logits themselves, or a copy where their format is another
            total = shares.sum(-1, keepdim=True)
            losses.append((loss + total.log()).sum())
            shares.div_(total)
            if smoothing:
                shares.sub_(smoothing / pieces)
            shares.scatter_add_(1, place, torch.full_like(loss, smoothing - 1))
            if part.dtype != shares.dtype:
                part.copy_(shares)
        context.save_for_backward(logits)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits: Tensor = context.saved_tensors[0]
        return logits.mul_(gradient), None, None


def cross_entropy(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float = 0.0) -> Float[Tensor, ""]:
    """The sum of -log p(target), or with smoothing ε of (1 - ε) -log p(target) + ε / V Σ -log p. Small tables go the
    usual way, which is as fast for them."""
    if logits.numel() < LARGE or not logits.requires_grad:
        return F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)
    return InPlaceCrossEntropy.apply(logits, targets, smoothing)  # type: ignore[no-untyped-call]


def each(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    """-log p of every target, for evaluation: some rows at a time, so that there is no second table."""
    rows = max(1, ROWS // logits.size(-1))
    parts = zip(torch.split(logits, rows), torch.split(targets, rows), strict=True)
    return torch.cat([F.cross_entropy(part, own, reduction="none") for part, own in parts])

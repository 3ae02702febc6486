"""Dropout (Srivastava et al. 2014): some values become zero, the others are scaled up, so that the expected sum stays.

On a CPU torch draws one random number for each value, which takes longer than the matrix products around it. Here one
64-bit number serves four values, at a resolution of 1/65,536.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LEVELS = 1 << 16  # different values of 16 bits


def drop(x: Float[Tensor, "..."], share: float) -> Float[Tensor, "..."]:
    """`x` with a share of its values dropped."""
    if share == 0.0:
        return x
    if x.device.type != "cpu" or share >= 1.0:
        return F.dropout(x, share)
    return x * keep_mask(x, share).mul_(1.0 / (1.0 - share))


def keep_mask(x: Float[Tensor, "..."], share: float) -> Float[Tensor, "..."]:
    """1 for values of `x` to keep, 0 for those to drop, drawn by the CPU's generator."""
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    parts = drawn.view(torch.int16)[: x.numel()].view(x.shape)
    mask = torch.empty(x.shape, dtype=x.dtype)  # not booleans, which a product would convert first
    return torch.ge(parts, round(share * LEVELS) - LEVELS // 2, out=mask)


class Dropout(nn.Module):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return drop(x, self.share if self.training else 0.0)

    def extra_repr(self) -> str:
        return str(self.share)

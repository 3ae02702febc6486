"""Dropout (Srivastava et al. 2014): some values become zero, the others grow by as much, so that the sum stays.

On a CPU torch draws one number a value, and the drawing takes longer than the products around it. One draw of 64 bits
has room for four values, at a resolution of 1/65,536.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

STEPS = 1 << 16  # chances that 16 bits tell apart


def drop(x: Float[Tensor, "..."], share: float) -> Float[Tensor, "..."]:
    """`x` with a share of its values dropped."""
    if share == 0.0:
        return x
    if x.device.type != "cpu" or share >= 1.0:
        return F.dropout(x, share)
    return x * kept(x, share).mul_(1.0 / (1.0 - share))


def kept(x: Float[Tensor, "..."], share: float) -> Float[Tensor, "..."]:
    """1 for values of `x` that stay, 0 for the others, from the CPU's generator."""
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    parts = drawn.view(torch.int16)[: x.numel()].view(x.shape)
    stay = torch.empty(x.shape, dtype=x.dtype)  # numbers at once: a product with true and false would copy them first
    return torch.ge(parts, round(share * STEPS) - STEPS // 2, out=stay)


class Dropout(nn.Module):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return drop(x, self.share if self.training else 0.0)

    def extra_repr(self) -> str:
        return str(self.share)

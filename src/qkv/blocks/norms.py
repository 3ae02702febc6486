"""Norms keep the size of what flows through a deep stack even. The sums are torch's own; here stand their formulas.

    LayerNorm   y = (x - mean) / sqrt(variance + ε) · γ + β      Ba et al. 2016; deck 004, "Layer Normalization"
    RMSNorm     y = x / sqrt(mean(x²) + ε) · γ                   Zhang and Sennrich 2019: no mean, no β, cheaper

A new norm is a class of this file, called with the width and, if it has one, an epsilon; a model file picks it.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

LayerNorm = nn.LayerNorm


class RMSNorm(nn.RMSNorm):
    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """In the format of its weight: where products are bf16 and weights f32, torch has one kernel for neither."""
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)

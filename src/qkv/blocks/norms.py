"""Norms keep activations of a deep stack at the same scale. They are torch's own; these are their formulas.

    LayerNorm   y = (x - mean) / sqrt(variance + ε) · γ + β      Ba et al. 2016; deck 004, "Layer Normalization"
    RMSNorm     y = x / sqrt(mean(x²) + ε) · γ                   Zhang and Sennrich 2019: no mean, no β, cheaper

A new norm is a class of this file, called with the width and, if it has one, an epsilon; a model file picks it.

`Scale` standardizes the columns of a table of numbers: z = (x - mean) / deviation (deck 001).

Mean and deviation are those of the training data; they are saved with the model. A value that is missing (NaN) counts
as the mean.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

LayerNorm = nn.LayerNorm


class RMSNorm(nn.RMSNorm):
    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Computed in the dtype of the weight: torch has no kernel for inputs in bf16 and a weight in f32."""
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class Scale(nn.Module):
    mean: Tensor
    deviation: Tensor

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("deviation", torch.ones(columns))

    @torch.no_grad()
    def fit(self, x: Float[Tensor, "B F"]) -> None:
        """Take mean and deviation of `x`; a constant column is only centred."""
        x = x.double()
        mean = x.nanmean(0).nan_to_num(0.0)
        deviation = (x - mean).square().nanmean(0).sqrt()
        constant = ~(deviation > 1e-12 * mean.abs().clamp(min=1e-12))  # also where all values are missing
        self.mean.copy_(mean)
        self.deviation.copy_(deviation.masked_fill(constant, 1.0))

    def forward(self, x: Float[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        return torch.where(x.isnan(), 0.0, (x - self.mean) / self.deviation)

    def inverse(self, z: Float[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        """The numbers before standardization."""
        return z * self.deviation + self.mean

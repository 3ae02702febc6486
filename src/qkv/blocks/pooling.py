"""Pooling: one vector for a whole sequence, (B, T, D) -> (B, D). Padding never counts.

Deck 004's `torch.mean(output, dim=1)` averages padding in; `MeanPooling` leaves it out.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.blocks.attention import weights
from qkv.blocks.tap import Tap


class MeanPooling(nn.Module):
    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        kept = x.masked_fill(~present.unsqueeze(-1), 0.0)
        return kept.sum(1) / present.sum(1, keepdim=True).clamp(min=1)


class MaxPooling(nn.Module):
    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        return x.masked_fill(~present.unsqueeze(-1), float("-inf")).amax(1)


class FirstPooling(nn.Module):
    """The first vector, BERT's [CLS]."""

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        return x[:, 0]


class LastPooling(nn.Module):
    """The last real vector, an RNN's final state (deck 001)."""

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        counted = torch.arange(x.size(1), device=x.device)
        last = (present * counted).amax(1)
        return x[torch.arange(len(x), device=x.device), last]


class AttentionPooling(nn.Module):
    """softmax(x · q) mixes the vectors by a learned question q (Yang et al. 2016); it starts as their mean."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))
        self.weights = Tap()

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        kept = x.masked_fill(~present.unsqueeze(-1), 0.0)
        shares = self.weights(weights(kept @ self.query, present))
        return (shares.unsqueeze(1) @ kept).squeeze(1)  # (B, 1, T) (B, T, D) -> (B, D)

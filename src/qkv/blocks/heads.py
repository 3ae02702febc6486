"""From the last vectors to the answer: poolings, which make one vector of a sequence, and heads, which give scores.

Padding never counts: deck 004's `torch.mean(output, dim=1)` averages it in, `MeanPooling` leaves it out. A language
model's answer is a score for every token it knows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.blocks.attention import weights
from qkv.blocks.tap import Tap


class TiedHead(nn.Module):
    """Logits by the embedding table itself, used backwards (Press and Wolf 2017); adds no parameters."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self._embedding = (embedding,)  # in a tuple: the table stays the embedding's, and is saved once

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        return F.linear(x, self._embedding[0].weight)


class MultiLayerHead(nn.Module):
    """A small network: linear, activation, linear (deck 001, "feed the final state to an MLP")."""

    def __init__(self, inner: nn.Linear, activation: nn.Module, outer: nn.Linear) -> None:
        super().__init__()
        self.inner, self.activation, self.outer = inner, activation, outer

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... _"]:
        return self.outer(self.activation(self.inner(x)))


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

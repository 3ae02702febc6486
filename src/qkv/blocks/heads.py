"""Heads: from the last vectors to the answer. A language model's answer is a score for every piece it knows."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


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

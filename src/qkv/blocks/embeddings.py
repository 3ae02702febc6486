"""From ids to vectors: a learned table (deck 001, "word vector layer") or the plain one-hot code (deck 003)."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

Embedding = nn.Embedding


class OneHot(nn.Module):
    """The id as a vector of zeros with a single one: nothing is learned."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        return F.one_hot(tokens, self.vocabulary).float()

"""An encoder of your own: Deep Sets (Zaheer et al. 2017). `qkv train reviews.csv --model deepsets.py`

Each token looks at itself and at the mean of the text:  x <- x + GELU(W x + U mean(x))
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.config import Context, CountOrZero, Layers, Width, strict


@strict
class DeepSetsConfig:
    kind: Literal["deepsets"] = "deepsets"
    vocabulary: CountOrZero = 0
    layers: Layers = 2
    width: Width = 64
    context: Context = 256

    def build(self) -> DeepSets:
        return DeepSets(self)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.own, self.shared = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        y = self.norm(x)
        mean = (y * there).sum(1, keepdim=True) / there.sum(1, keepdim=True)
        return x + F.gelu(self.own(y) + self.shared(mean))


class DeepSets(nn.Module):
    def __init__(self, config: DeepSetsConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config.width) for _ in range(config.layers))

    def forward(self, tokens: Tensor, present: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """A vector for each token; `present` is False where padding stands behind a text."""
        there = torch.ones_like(tokens, dtype=torch.bool) if present is None else present
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, there.unsqueeze(-1).to(x.dtype))
        return x

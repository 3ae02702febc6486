"""Residual and norm, written once. What a sublayer computes is added to what came in ("insurance", deck 000).

PreNorm     x + dropout(sublayer(norm(x)))      GPT-2 and all that followed (Xiong et al. 2020)
PostNorm    norm(x + dropout(sublayer(x)))      the paper's order; decks 002-004
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.dropout import Dropout
from qkv.blocks.tap import Tap


class PreNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, Dropout(dropout)
        self.added, self.stream = Tap(), Tap()

    def forward(self, x: Float[Tensor, "B T D"], *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        return self.stream(x + self.added(self.dropout(self.sublayer(self.norm(x), *inputs, **named))))


class PostNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, Dropout(dropout)
        self.added, self.stream = Tap(), Tap()

    def forward(self, x: Float[Tensor, "B T D"], *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        return self.stream(self.norm(x + self.added(self.dropout(self.sublayer(x, *inputs, **named)))))

"""Residual and norm, written once. What a sublayer computes is added to what came in ("insurance", deck 000).

PreNorm     x + dropout(sublayer(norm(x)))      GPT-2 and all that followed (Xiong et al. 2020)
PostNorm    norm(x + dropout(sublayer(x)))      the paper's order; decks 002-004

The Transformer block: sublayers in a row, each with its residual and norm (`PreNorm` or `PostNorm`).

GPT and BERT stack the same `Block`; what may be looked at is the mask's business. A `CrossBlock` also looks at a
memory, as the decoder of deck 002 does.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.dropout import Dropout
from qkv.blocks.masks import Band
from qkv.blocks.state import LayerState
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


class Block(nn.Module):
    """Attention, then feed-forward."""

    def __init__(self, attention: nn.Module, feedforward: nn.Module) -> None:
        super().__init__()
        self.attention, self.feedforward = attention, feedforward

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "... S"] | Band | None = None,
        places: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.feedforward(self.attention(x, mask=mask, places=places, state=state))


class CrossBlock(nn.Module):
    """Attention to what was written, attention to the memory, then feed-forward."""

    def __init__(self, attention: nn.Module, crossing: nn.Module, feedforward: nn.Module) -> None:
        super().__init__()
        self.attention, self.crossing, self.feedforward = attention, crossing, feedforward

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B M D"],
        *,
        mask: Bool[Tensor, "... S"] | Band | None = None,
        memory_mask: Bool[Tensor, "... M"] | None = None,
        places: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
        memory_state: LayerState | None = None,
    ) -> Float[Tensor, "B T D"]:
        x = self.attention(x, mask=mask, places=places, state=state)
        x = self.crossing(x, memory, mask=memory_mask, state=memory_state)
        return self.feedforward(x)

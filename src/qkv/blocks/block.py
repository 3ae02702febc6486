"""The Transformer block: sublayers in a row, each with its residual and norm; and the feed-forward sublayer.

    PreNorm            x + dropout(sublayer(norm(x)))       GPT-2 and most later models (Xiong et al. 2020)
    PostNorm           norm(x + dropout(sublayer(x)))       the paper's order; decks 002-004
    FeedForward        W₂ f(W₁ x)                           deck 001 (ReLU), deck 004 (GELU)
    GatedFeedForward   W_down (f(W_gate x) ⊙ W_up x)        Shazeer 2020; f = SiLU gives SwiGLU

What a sublayer computes, its update, is added to what came in ("insurance", deck 000). GPT and BERT stack the same
`Block`; the mask decides what each token may attend to. A `CrossBlock` also attends to a memory, as the decoder of
deck 002 does. In the feed-forward no information moves between tokens: it is the same small network at every position.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
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
        self.update, self.stream = Tap(), Tap()

    def forward(self, x: Float[Tensor, "B T D"], *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        return self.stream(x + self.update(self.dropout(self.sublayer(self.norm(x), *inputs, **named))))


class PostNorm(nn.Module):
    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.sublayer, self.norm, self.dropout = sublayer, norm, Dropout(dropout)
        self.update, self.stream = Tap(), Tap()

    def forward(self, x: Float[Tensor, "B T D"], *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        return self.stream(self.norm(x + self.update(self.dropout(self.sublayer(x, *inputs, **named)))))


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
        positions: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.feedforward(self.attention(x, mask=mask, positions=positions, state=state))


def together(x: Float[Tensor, "R T D"], sources: int) -> Float[Tensor, "B N D"]:
    """(B n, T, D) -> (B, n T, D): the rows of each source after one another."""
    return x.reshape(sources, -1, x.size(-1))


class CrossBlock(nn.Module):
    """Self-attention, cross-attention to a memory, which neighbouring rows may share, then feed-forward."""

    def __init__(self, attention: nn.Module, crossing: nn.Module, feedforward: nn.Module) -> None:
        super().__init__()
        self.attention, self.crossing, self.feedforward = attention, crossing, feedforward

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        memory: Float[Tensor, "B M D"],
        *,
        mask: Bool[Tensor, "... S"] | Band | None = None,
        memory_mask: Bool[Tensor, "... M"] | None = None,
        positions: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
        memory_state: LayerState | None = None,
    ) -> Float[Tensor, "R T D"]:
        x = self.attention(x, mask=mask, positions=positions, state=state)
        crossed = self.crossing(together(x, len(memory)), memory, mask=memory_mask, state=memory_state)
        return self.feedforward(crossed.view(x.shape))


class SquaredReLU(nn.Module):
    """max(x, 0)², So et al. 2021."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return F.relu(x).square()


class TanhGELU(nn.GELU):
    """GELU by GPT-2's tanh formula (Hendrycks and Gimpel 2016)."""

    def __init__(self) -> None:
        super().__init__(approximate="tanh")


class FeedForward(nn.Module):
    def __init__(self, inner: nn.Linear, activation: nn.Module, outer: nn.Linear) -> None:
        super().__init__()
        self.inner, self.activation, self.outer = inner, activation, outer
        self.hidden = Tap()

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T _"]:
        return self.outer(self.hidden(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    def __init__(self, gate: nn.Linear, up: nn.Linear, activation: nn.Module, down: nn.Linear) -> None:
        super().__init__()
        self.gate, self.up, self.activation, self.down = gate, up, activation, down
        self.hidden = Tap()

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T _"]:
        return self.down(self.hidden(self.activation(self.gate(x)) * self.up(x)))

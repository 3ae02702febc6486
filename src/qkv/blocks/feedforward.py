"""The feed-forward layer: the same small network at every position. No information moves between tokens here.

FeedForward         W₂ f(W₁ x)                    deck 001 (ReLU), deck 004 (GELU)
GatedFeedForward    W_down (f(W_gate x) ⊙ W_up x)    Shazeer 2020; f = SiLU gives SwiGLU
"""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.tap import Tap


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

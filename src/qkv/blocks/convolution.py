"""Convolution over time: each output is a linear function of k neighbours (deck 001, "convolutional layer").

    Convolution         y_t = Σ_j W_j x_{t+j·dilation} + b
    GatedConvolution    W_down (σ(gate(x)) ⊙ up(x)), gate and up convolutions of the past      Dauphin et al. 2017

With dilations 1, k, k² … the last output of a stack sees kⁿ inputs after n layers (van den Oord et al. 2016): the path
between two words is O(log_k n) long in deck 002's table. The kernel is one matrix, [W_0 … W_{k-1}], as a feed-forward
layer has it: a layer over the last k words at once (Bengio et al. 2003) is the same thing.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.bounded_state import PastState
from qkv.blocks.tap import Tap

SHORT = 8  # kernels up to this length are faster as one matrix product, longer ones as torch's convolution


class Convolution(nn.Linear):
    """With "same" padding it sees both sides, with "causal" padding only the past, and then it can have a state."""

    def __init__(
        self,
        width: int,
        kernel: int,
        padding: Literal["same", "causal"] = "same",
        *,
        outputs: int | None = None,
        dilation: int = 1,
    ) -> None:
        super().__init__(kernel * width, outputs or width)
        self.width, self.kernel, self.dilation = width, kernel, dilation
        reach = (kernel - 1) * dilation
        self.before = reach if padding == "causal" else (kernel - 1) // 2 * dilation
        self.after = reach - self.before
        self.features = Tap()

    def state(self, rows: int) -> PastState:
        assert self.after == 0, "only a causal convolution can go word by word"
        return PastState(rows, self.before)

    def forward(self, x: Float[Tensor, "B T D"], *, state: PastState | None = None) -> Float[Tensor, "B T _"]:
        return self.slide(F.pad(x, (0, 0, self.before, self.after)) if state is None else state.take(x))

    def slide(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B T _"]:
        """The convolution of an input that is padded already: S = T + before + after."""
        if self.kernel <= SHORT:
            length = x.size(1) - self.before - self.after
            starts = range(0, self.kernel * self.dilation, self.dilation)
            return self.features(
                F.linear(torch.cat([x[:, s : s + length] for s in starts], -1), self.weight, self.bias)
            )
        kernels = self.weight.view(-1, self.kernel, self.width).transpose(1, 2)
        features = F.conv1d(x.transpose(1, 2), kernels, self.bias, dilation=self.dilation)  # (B, D, S) -> (B, _, T)
        return self.features(features.transpose(1, 2))


class GatedConvolution(nn.Module):
    """A learned gate for each feature, as in `GatedFeedForward`; gate and features see the same past."""

    def __init__(self, gate: Convolution, up: Convolution, activation: nn.Module, down: nn.Linear) -> None:
        super().__init__()
        self.gate, self.up, self.activation, self.down = gate, up, activation, down
        self.hidden = Tap()

    def forward(self, x: Float[Tensor, "B T D"], *, state: PastState | None = None) -> Float[Tensor, "B T _"]:
        past = F.pad(x, (0, 0, self.up.before, 0)) if state is None else state.take(x)
        return self.down(self.hidden(self.activation(self.gate.slide(past)) * self.up.slide(past)))

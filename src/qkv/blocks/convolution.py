"""Convolution over time: each output is a linear function of k neighbours (deck 001, "convolutional layer")."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.tap import Tap


class Convolution(nn.Module):
    """y_t = Σ_j W_j x_{t+j} + b. It looks to both sides, or only to the past (causal, for language models)."""

    def __init__(self, width: int, kernel: int, looks: Literal["both", "past"] = "both") -> None:
        super().__init__()
        self.kernel = nn.Conv1d(width, width, kernel)
        self.before = kernel - 1 if looks == "past" else (kernel - 1) // 2
        self.after = kernel - 1 - self.before
        self.features = Tap()

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        padded = F.pad(x.transpose(1, 2), (self.before, self.after))  # (B, T, D) -> (B, D, T + kernel - 1)
        return self.features(self.kernel(padded).transpose(1, 2))

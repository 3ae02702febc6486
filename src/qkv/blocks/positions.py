"""Positions tell attention the order of the tokens. Without them attention sees a bag of words ("the dog chased the
cat", decks 002-004).

Learned and sinusoidal positions are added to the embeddings; rotary ones rotate queries and keys inside attention.
All are called with the values and their absolute positions, so a cached token keeps its position.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class NoPositions(nn.Module):
    """No positions: returns its input."""

    def forward(self, x: Float[Tensor, "... T D"], positions: Int[Tensor, "... T"] | None = None) -> Tensor:
        return x


class LearnedPositions(nn.Module):
    """x + P[position], a learned vector for each position up to the context (GPT, BERT; decks 001, 004)."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(context, width)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "... T"]) -> Float[Tensor, "B T D"]:
        return x + self.table(positions)


Layout = Literal["interleaved", "concatenated"]


def sinusoids(context: int, width: int, layout: Layout = "interleaved") -> Float[Tensor, "T D"]:
    """sin and cos of position / 10000^(2i/D), Vaswani et al. 2017, section 3.5; deck 002.

    The paper interleaves (sin, cos, sin, cos ...); Marian and tensor2tensor put all sines before all cosines.
    """
    # in f64: the error of an f32 angle grows with the position, and these values must equal those of other libraries
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(context).unsqueeze(1) * rates  # (T, D/2)
    pair = torch.stack([angles.sin(), angles.cos()])  # (2, T, D/2)
    both = pair.permute(1, 2, 0) if layout == "interleaved" else pair.permute(1, 0, 2)
    return both.reshape(context, -1)[:, :width].to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """x + the values of `sinusoids`, which are not learned."""

    table: Tensor

    def __init__(self, context: int, width: int, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(context, width, layout), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "... T"]) -> Float[Tensor, "B T D"]:
        return x + self.table[positions].to(x.dtype)


def rotary_rates(head_width: int, base: float = 10000.0) -> Float[Tensor, " K"]:
    """The angle by which each pair rotates from one position to the next: base^(-2i/K), the fastest first (Su et al.
    2021)."""
    if head_width % 2:
        raise ValueError(f"rotary positions turn pairs: head width {head_width} must be even")
    return base ** (-torch.arange(0, head_width, 2, device="cpu") / head_width)


def llama3_rates(
    rates: Float[Tensor, " K"], factor: float, low: float, high: float, original: int
) -> Float[Tensor, " K"]:
    """Llama 3.1's rates for a longer context: pairs that rotate less than `low` times within the original context
    rotate `factor` times slower, those that rotate more than `high` times stay, the others are interpolated."""
    rotations = original * rates / (2 * math.pi)
    return torch.lerp(rates / factor, rates, ((rotations - low) / (high - low)).clamp(0, 1))


class RotaryPositions(nn.Module):
    """Rotates each pair (x_i, x_{i+K/2}) by position · rate_i, so that q·k depends only on distances (Su et al. 2021).

    The pairing is Llama's half-split one, which Qwen3 shares.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(
        self, context: int, head_width: int, base: float = 10000.0, rates: Float[Tensor, " K"] | None = None
    ) -> None:
        super().__init__()
        positions = torch.arange(context, device="cpu")  # also under torch.device("meta"): the table must hold values
        rates = rotary_rates(head_width, base) if rates is None else rates
        angles = positions.unsqueeze(1) * rates  # (T, K/2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "... T"]) -> Float[Tensor, "B H T K"]:
        cosines, sines = self.cosines[positions], self.sines[positions]  # (T, K/2) or (B, T, K/2)
        if cosines.dim() == 3:
            cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
        first, second = x.chunk(2, -1)
        rotated = torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)
        return rotated.to(x.dtype)

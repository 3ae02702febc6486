"""Positions: how order enters. Without them attention is a bag of words ("the dog chased the cat", decks 002-004).

Learned and sinusoidal positions are added to the embeddings; rotary ones turn queries and keys inside attention.
All are called with the values and their absolute places, so a cached token keeps its true place.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class NoPositions(nn.Module):
    """Absent: what comes in goes out."""

    def forward(self, x: Float[Tensor, "... T D"], places: Int[Tensor, "... T"] | None = None) -> Tensor:
        return x


class LearnedPositions(nn.Module):
    """x + P[place], a learned vector for each place up to the context (GPT, BERT; decks 001, 004)."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(context, width)

    def forward(self, x: Float[Tensor, "B T D"], places: Int[Tensor, "... T"]) -> Float[Tensor, "B T D"]:
        return x + self.table(places)


Layout = Literal["interleaved", "concatenated"]


def sinusoids(context: int, width: int, layout: Layout = "interleaved") -> Float[Tensor, "T D"]:
    """sin and cos of place / 10000^(2i/D), Vaswani et al. 2017, section 3.5; deck 002.

    The paper interleaves (sin, cos, sin, cos ...); Marian and tensor2tensor put all sines before all cosines.
    """
    # in f64: an f32 angle of a far place is off by as much as the place is far, and others compute these waves as well
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(context).unsqueeze(1) * rates  # (T, D/2)
    pair = torch.stack([angles.sin(), angles.cos()])  # (2, T, D/2)
    both = pair.permute(1, 2, 0) if layout == "interleaved" else pair.permute(1, 0, 2)
    return both.reshape(context, -1)[:, :width].to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """x + the fixed waves of `sinusoids`: nothing is learned."""

    table: Tensor

    def __init__(self, context: int, width: int, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(context, width, layout), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], places: Int[Tensor, "... T"]) -> Float[Tensor, "B T D"]:
        return x + self.table[places].to(x.dtype)


def rotary_rates(head_width: int, base: float = 10000.0) -> Float[Tensor, " K"]:
    """How far each pair turns from one place to the next: base^(-2i/K), fast ones first (Su et al. 2021)."""
    if head_width % 2:
        raise ValueError(f"rotary positions turn pairs: head width {head_width} must be even")
    return base ** (-torch.arange(0, head_width, 2, device="cpu") / head_width)


def stretched(rates: Float[Tensor, " K"], factor: float, low: float, high: float, original: int) -> Float[Tensor, " K"]:
    """Llama 3.1's longer context: pairs that turn less than `low` times within the original one turn `factor` times
    slower, those that turn more than `high` times as before, the others in between."""
    turns = original * rates / (2 * math.pi)
    return torch.lerp(rates / factor, rates, ((turns - low) / (high - low)).clamp(0, 1))


class RotaryPositions(nn.Module):
    """Turns each pair (x_i, x_{i+K/2}) by place · rate_i, so that q·k sees only distances (Su et al. 2021).

    The pairing is Llama's half-split one, which Qwen3 shares.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(
        self, context: int, head_width: int, base: float = 10000.0, rates: Float[Tensor, " K"] | None = None
    ) -> None:
        super().__init__()
        places = torch.arange(context, device="cpu")  # a table is cheap; under the device "meta" its formula is not
        rates = rotary_rates(head_width, base) if rates is None else rates
        angles = places.unsqueeze(1) * rates  # (T, K/2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, x: Float[Tensor, "B H T K"], places: Int[Tensor, "... T"]) -> Float[Tensor, "B H T K"]:
        cosines, sines = self.cosines[places], self.sines[places]  # (T, K/2) or (B, T, K/2)
        if cosines.dim() == 3:
            cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
        first, second = x.chunk(2, -1)
        turned = torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)
        return turned.to(x.dtype)

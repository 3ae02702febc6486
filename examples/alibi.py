"""GPT with ALiBi (Press et al. 2022) instead of learned positions: each head looks back with a slope of its own.

softmax(q kᵀ / √K - slope · distance), slopes 2^(-8/H), 2^(-16/H), ...          `--model alibi.py`
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from qkv.blocks.attention import MultiHeadAttention, scores, weights
from qkv.blocks.block import PreNorm
from qkv.blocks.positions import NoPositions
from qkv.config import strict
from qkv.models.gpt import GPT, GPTConfig


@strict
class AlibiConfig(GPTConfig):
    kind: Literal["gpt-alibi"] = "gpt-alibi"  # type: ignore[assignment]

    def build(self) -> GPT:
        model = GPT(self)
        model.positions = NoPositions()  # type: ignore[assignment]
        for part in model.modules():
            if isinstance(part, PreNorm) and isinstance(part.sublayer, MultiHeadAttention):
                part.sublayer = AlibiAttention(part.sublayer)
        return model


class AlibiAttention(MultiHeadAttention):
    slopes: Tensor

    def __init__(self, plain: MultiHeadAttention) -> None:
        parts = plain.query, plain.key, plain.value, plain.output
        super().__init__(*parts, heads=plain.heads, dropout=plain.dropout)
        self.register_buffer("slopes", 2.0 ** (-8 * torch.arange(1, plain.heads + 1) / plain.heads), persistent=False)
        self.mix = biased  # type: ignore[assignment]

    def forward(self, x: Tensor, memory: Tensor | None = None, **more: Any) -> Tensor:
        self.query_positions = more["positions"]
        return super().forward(x, memory, **more)


def biased(module: AlibiAttention, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """(B, H, T, S): the score falls with the distance between the positions of query and key."""
    positions = torch.as_tensor(module.query_positions, device=keys.device)
    distance = positions.unsqueeze(-1) - torch.arange(keys.size(2), device=keys.device)  # ([B,] T, S)
    distance = distance.unsqueeze(1) if distance.dim() == 3 else distance
    raw = module.scores(scores(queries, keys, module.scale) - module.slopes[:, None, None] * distance)
    return module.weights(weights(raw, mask)) @ values

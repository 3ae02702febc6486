"""minGRU (Feng et al. 2024) as a language model: a recurrence that is trained in parallel. `--model mingru.py`

z = σ(W_z x),  c = g(W_c x),  h_t = (1 - z_t) h_{t-1} + z_t c_t,  with g above zero, so that sums can be logarithms
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks.state import RecurrentState
from qkv.config import Context, CountOrZero, Layers, Width, strict


@strict
class MinGRUConfig:
    kind: Literal["mingru"] = "mingru"
    vocabulary: CountOrZero = 0
    layers: Layers = 2
    width: Width = 64
    context: Context = 64
    recurrent: ClassVar[bool] = True  # it reads on, however short the texts were that taught it

    def build(self) -> MinGRU:
        return MinGRU(self)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.candidate, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        y, gate = self.norm(x), self.gate(self.norm(x))
        kept = F.logsigmoid(-gate).cumsum(1)  # log of the product of all 1 - z so far
        new = F.logsigmoid(gate) + (F.softplus(self.candidate(y)) + 1e-4).log()
        past = before.clamp_min(1e-20).log().unsqueeze(1)
        h = (kept + torch.cat([past, new - kept], 1).logcumsumexp(1)[:, 1:]).exp()
        return x + h, h[:, -1]


class MinGRU(nn.Module):
    def __init__(self, config: MinGRUConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config.width) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.vocabulary)

    def state(self, rows: int, capacity: int | None = None) -> RecurrentState:
        return RecurrentState(rows, (self.embedding.weight.new_zeros(len(self.layers), 1, self.width),))

    def forward(self, tokens: Tensor, state: RecurrentState | None = None) -> Tensor:
        state = self.state(len(tokens)) if state is None else state
        x, hidden = self.embedding(tokens), []
        for layer, before in zip(self.layers, state.hidden[0], strict=True):
            x, last = layer(x, before)
            hidden.append(last)
        state.update((torch.stack(hidden),), tokens.size(1))
        return self.head(x)

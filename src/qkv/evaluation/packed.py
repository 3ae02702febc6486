"""BERT for reading many texts on a CPU: the tokens of all texts in one long row, without the padding between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import fused
from qkv.models.bert import Bert


def fits(model: nn.Module) -> bool:
    """A BERT on the CPU that nobody looks into: hooks on its parts would not be called."""
    return (
        isinstance(model, Bert)
        and not model.training
        and next(model.parameters()).device.type == "cpu"
        and not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    )


class Packed:
    def __init__(self, model: nn.Module) -> None:
        assert fits(model)
        inside: Any = model
        self.model, self.projections = inside, []
        for block in inside.blocks:
            parts = [getattr(block.attention.sublayer, name) for name in ("query", "key", "value")]
            weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
            self.projections.append((weight.detach(), bias.detach()))

    def __call__(
        self, tokens: Int[Tensor, "B T"], present: Bool[Tensor, "B T"], wanted: Sequence[int]
    ) -> list[Float[Tensor, "B T D"]]:
        """What the wanted layers give; zeros where there is padding."""
        lengths = present.sum(1).tolist()
        x = self._embed(tokens, present)
        found = [x] if 0 in wanted else []
        for depth, block in enumerate(self.model.blocks[: max(wanted)], 1):
            x = self._block(x, block, self.projections[depth - 1], lengths)
            if depth in wanted:
                found.append(x)
        return [_spread(each, present) for each in found]

    def _embed(self, tokens: Tensor, present: Tensor) -> Float[Tensor, "N D"]:
        model = self.model
        places = torch.arange(tokens.size(1)).expand_as(tokens)[present]
        x = model.positions(model.embedding(tokens[present]).unsqueeze(0), places)  # all texts as one
        return model.embedding_norm(model.segments(x, torch.zeros_like(places))).squeeze(0)

    def _block(self, x: Tensor, block: Any, projection: tuple[Tensor, Tensor], lengths: list[int]) -> Tensor:
        attention, network = block.attention, block.feedforward
        mixed = _attend(attention.sublayer, F.linear(x, *projection), lengths)
        x = attention.norm(attention.sublayer.output(mixed).add_(x))
        inner = F.gelu(network.sublayer.inner(x))
        return network.norm(network.sublayer.outer(inner).add_(x))


def _attend(module: Any, projected: Float[Tensor, "N _"], lengths: list[int]) -> Float[Tensor, "N D"]:
    """Attention of each text alone; neighbours of equal length go together."""
    mixed, start = torch.empty(len(projected), projected.size(1) // 3), 0
    for length, group in groupby(lengths):
        rows = len(list(group))
        stop = start + rows * length
        # (N, 3 H K) -> 3 x (B, H, T, K)
        queries, keys, values = projected[start:stop].view(rows, length, 3, module.heads, -1).permute(2, 0, 3, 1, 4)
        out = fused(module, queries, keys, values, None)
        mixed[start:stop] = out.transpose(1, 2).reshape(rows * length, -1)  # (B, H, T, K) -> (N, H K)
        start = stop
    return mixed


def _spread(x: Float[Tensor, "N D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    if present.all():
        return x.view(*present.shape, -1)
    return x.new_zeros(*present.shape, x.size(-1)).masked_scatter_(present.unsqueeze(-1), x)

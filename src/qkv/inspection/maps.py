"""Attention weights packed for a page: every head of every layer (decks 001 and 002 draw one head).

What is packed is reported with it: every weight in steps of 1/255, or the largest k of each row.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.inspection.attention_pass import AttentionValues, trace_attention
from qkv.inspection.subject import StackName, Subject, stacks

MAX_WHOLE_WEIGHTS = 3_000_000  # weights of a stack that are packed whole
BYTES = 2_200_000  # for the largest weights of a larger stack, three each: a page stays below 5 MB
FEWEST = 4  # of a row, where only the largest are kept


@dataclass
class PackedMaps:
    """The packed weights of one stack: bytes, layer after layer."""

    name: StackName
    layers: int
    heads: int
    rows: int
    columns: int
    k: int = 0  # how many of a row are kept, the largest; 0: all
    causal: bool = False
    scale: float = 1.0
    parts: list[bytes] = field(default_factory=list)
    indices: list[bytes] = field(default_factory=list)
    kept: float = 1.0  # the smallest kept sum of the weights of a row
    shares: list[float] = field(default_factory=list)  # and the mean of each layer
    aims: list[Tensor] = field(default_factory=list)  # how sharply the heads of each layer attend to other tokens

    def add(self, layer: AttentionValues) -> None:
        self.causal, self.scale = layer.causal, layer.scale
        self.aims.append(aim(layer))
        if not self.k:
            self.parts.append(_bytes(layer.weights))
            return
        largest = layer.weights.topk(self.k, -1)
        self.kept = min(self.kept, float(largest.values.sum(-1).min()))
        self.shares.append(float(largest.values.sum(-1).mean()))
        self.parts.append(_bytes(largest.values))
        self.indices.append(largest.indices.to(torch.uint16).cpu().numpy().astype("<u2").tobytes())

    def document(self) -> dict[str, Any]:
        plain = ("name", "layers", "heads", "rows", "columns", "causal", "scale")
        described = {name: getattr(self, name) for name in plain}
        data = base64.b64encode(b"".join(self.parts)).decode()
        if not self.k:
            return {**described, "data": data}
        return {**described, "k": self.k, "index": base64.b64encode(b"".join(self.indices)).decode(), "value": data}

    @property
    def exact(self) -> str:
        if not self.k:
            return "every weight, rounded to 1/255"
        mean = sum(self.shares) / max(1, len(self.shares))
        return (
            f"the {self.k} largest weights of each row, rounded to 1/255; they hold {mean:.0%} of a row on average, "
            f"{self.kept:.0%} at least"
        )

    @property
    def sharpest(self) -> tuple[int, int]:
        """The layer and head that attend most sharply to one other token: the one to be shown first."""
        best = int(torch.stack(self.aims).argmax())
        return divmod(best, self.heads)


def aim(layer: AttentionValues) -> Float[Tensor, "H"]:
    """The mean of every row's largest weight; in self-attention without the token itself and the first one, to which
    heads attend when nothing else matters (attention sinks)."""
    weights = layer.weights
    if layer.stack != "cross" and weights.size(-1) > 2:
        weights = weights[:, 2:].clone()
        weights[:, :, 0] = 0
        weights[:, torch.arange(weights.size(1)), torch.arange(2, weights.size(2))] = 0
    return weights.amax(-1).mean(-1).cpu()


def _bytes(weights: Tensor) -> bytes:
    return (weights.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy().tobytes()


def pack_maps(subject: Subject, max_weights: int = MAX_WHOLE_WEIGHTS) -> list[PackedMaps]:
    """Every stack of the model over the subject's text; one layer at a time is in memory."""
    maps: dict[StackName, PackedMaps] = {}
    for name, stack in stacks(subject.model).items():
        rows, columns = subject.map_sizes[name]
        lines = len(stack.layers) * stack.heads * rows
        k = 0 if lines * columns <= max_weights else max(FEWEST, min(max_weights, BYTES) // lines // 3)
        maps[name] = PackedMaps(name, len(stack.layers), stack.heads, rows, columns, min(k, columns))
    trace_attention(subject, lambda layer: maps[layer.stack].add(layer))
    return list(maps.values())

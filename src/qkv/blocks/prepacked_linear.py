"""Linear layers whose weights are packed: laid out once as the processor's kernels want them, for many products.

Torch's product of f32 lays a large matrix out anew at every call; of the few rows that a decoder asks with, this takes
longer than the product. oneDNN, which comes with torch, keeps it: bench/translators.py, docs/measurements.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.decoder import TiedBiasedHead

AVAILABLE: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
LARGE = 1 << 16  # weights from which on packing pays


class Packed:
    """y = W x + b with a copy of W as it was: nothing is learned through it."""

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> None:
        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None), bias

    def __call__(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        made: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return made


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Within it the large linear layers of a model in f32 on a CPU are packed ones; their weights must not change
    meanwhile. Elsewhere, and where products are bf16, all stays as it is."""
    found: list[nn.Linear | TiedBiasedHead] = []
    if AVAILABLE and not torch.is_autocast_enabled("cpu"):
        found = [part for part in model.modules() if isinstance(part, nn.Linear | TiedBiasedHead) and _fits(part)]
    try:
        for part in found:
            vars(part)["forward"] = Packed(part.weight, part.bias)
        yield
    finally:
        for part in found:
            vars(part).pop("forward", None)


def _fits(part: nn.Linear | TiedBiasedHead) -> bool:
    plain = type(part) in (nn.Linear, TiedBiasedHead) and "forward" not in vars(part)  # a user's own forward stays
    weight = part.weight
    return plain and weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= LARGE

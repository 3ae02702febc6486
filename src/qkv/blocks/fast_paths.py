"""Faster ways to compute a model: when they may stand in for its modules, and linear layers whose weights are packed.

A faster path (compiled decoding, packed weights, a beam's branches, texts without padding) computes the same sums from
copies of the weights and never calls the modules. Whatever a user changed on the modules would be lost there without
a word: a forward hook, a replaced part, another `mix`. Such a model is computed by its own modules instead.

Torch's product of f32 lays a large matrix out anew at every call; for the few rows of a decoder, this takes longer than
the product. oneDNN, which comes with torch, keeps it: bench/translators.py, docs/measurements.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules import module as registry

from qkv.blocks.attention import MultiHeadAttention, fused
from qkv.blocks.block import FeedForward, GatedFeedForward, PostNorm, PreNorm
from qkv.blocks.decoder import TiedBiasedHead
from qkv.blocks.dropout import Dropout
from qkv.blocks.tap import Tap

PACKAGES = ("qkv.", "torch.nn.modules.")
RESIDUAL = ("update", "stream")
TAPS: dict[type[nn.Module], tuple[str, ...]] = {
    PreNorm: RESIDUAL,
    PostNorm: RESIDUAL,
    FeedForward: ("hidden",),
    GatedFeedForward: ("hidden",),
    MultiHeadAttention: ("queries", "keys", "values", "scores", "weights", "mixed"),
}
MODEL_TAPS = ("embedded", "logits", "pooled")
IDLE = nn.Identity()


def hook_tables(model: nn.Module) -> list[Any]:
    """The dictionaries in which torch keeps forward hooks, the global ones included. If all are empty, no hook is set.

    They stay the same objects for the life of a module, so that asking again costs microseconds.
    """
    own = [table for part in model.modules() for table in (part._forward_hooks, part._forward_pre_hooks)]
    return [*own, registry._global_forward_hooks, registry._global_forward_pre_hooks]


def changed(model: nn.Module) -> str:
    """What keeps a faster path from standing in for the modules, as the end of a sentence; empty: nothing does."""
    if any(hook_tables(model)):
        return "has forward hooks"
    for name, part in model.named_modules():
        if problem := _changed(part):
            return f"{problem} in {name!r}" if name else problem
    return ""


def as_built(model: nn.Module) -> bool:
    return not changed(model)


def _changed(part: nn.Module) -> str:
    kind: Any = type(part)
    forward: Callable[..., Any] = kind.forward
    if not kind.__module__.startswith(PACKAGES) or not forward.__module__.startswith(PACKAGES):
        return f"has a part of another kind, {kind.__name__},"
    if replaced := sorted(vars(part).keys() & _methods(kind)):
        return f"has another {replaced[0]}()"
    if isinstance(part, MultiHeadAttention) and part.mix is not fused:
        return "has another mix"
    children = part._modules
    taps = (*TAPS.get(kind, ()), *(name for name in MODEL_TAPS if name in children))
    if replaced := [name for name in taps if type(children[name]) is not Tap]:
        return f"has a replaced tap, {replaced[0]},"
    if type(children.get("dropout", IDLE)) not in (Dropout, nn.Identity):
        return "has another dropout"
    weights = [tensor for tensor in part._parameters.values() if tensor is not None]
    if any(type(tensor) not in (nn.Parameter, torch.Tensor) for tensor in weights):
        return "has weights of another kind"
    return ""


@cache
def _methods(kind: Any) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within it dropout is off; afterwards every part is in the mode it was in, as a training loop expects."""
    learning = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in learning:
            part.training = True


AVAILABLE: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
LARGE = 1 << 16  # weights from which on packing pays


class PackedLinear:
    """y = W x + b with a copy of W as it was: nothing is learned through it."""

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> None:
        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None), bias

    def __call__(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return y


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Within it the large linear layers of a model in f32 on a CPU are packed ones; their weights must not change
    meanwhile. Elsewhere, and where products are bf16, all stays as it is."""
    parts: list[nn.Linear | TiedBiasedHead] = []
    if AVAILABLE and not torch.is_autocast_enabled("cpu"):
        parts = [part for part in model.modules() if isinstance(part, nn.Linear | TiedBiasedHead) and _fits(part)]
    try:
        for part in parts:
            vars(part)["forward"] = PackedLinear(part.weight, part.bias)
        yield
    finally:
        for part in parts:
            vars(part).pop("forward", None)


def _fits(part: nn.Linear | TiedBiasedHead) -> bool:
    plain = type(part) in (nn.Linear, TiedBiasedHead) and "forward" not in vars(part)  # a user's own forward stays
    weight = part.weight
    return plain and weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= LARGE

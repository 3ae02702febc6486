"""Which models the compiled step can stand in for, and whether a copy of one is still true to it.

`decode.c` knows equal blocks of attention and feed-forward after their norms, without a window, in f32 on the CPU, with
every part as it was built. Anything else is computed by the model's own modules.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.block import Block, FeedForward, GatedFeedForward, PreNorm, TanhGELU
from qkv.blocks.fast_paths import changed
from qkv.blocks.heads import TiedHead
from qkv.blocks.norms import RMSNorm
from qkv.blocks.positions import LearnedPositions, NoPositions, RotaryPositions
from qkv.generation.compiler import address, library

ROWS = 4  # of a matrix are summed at once; sizes must be multiples


def fits(model: object) -> bool:
    """Whether a model's steps can be taken in C."""
    return not obstacle(model)


def obstacle(model: object) -> str:
    """Why a model's steps cannot be taken in C, as the end of a sentence about it; empty: they can."""
    if not isinstance(model, nn.Module) or not isinstance(getattr(model, "blocks", None), nn.ModuleList):
        return "is not made of blocks"
    if getattr(model, "window", False):
        return "looks back through a window only"
    if any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return "is not in f32 on the CPU"
    if problem := changed(model):
        return problem
    if forms(model) is None:
        return "has parts for which there is no compiled step"
    return "" if library() is not None else "finds no working C compiler"


def forms(model: nn.Module) -> tuple[object, ...] | None:
    """The numbers and kinds of parts that C computes with, besides the weights; None where it does not know a part."""
    parts: Any = model
    embedding, head = (getattr(model, name, None) for name in ("embedding", "head"))
    if type(embedding) is not nn.Embedding or embedding.max_norm is not None or type(head) not in (nn.Linear, TiedHead):
        return None
    if isinstance(head, TiedHead) and head._embedding[0] is not embedding:
        return None
    learned = getattr(model, "positions", None)
    if learned is not None and (type(learned) is not LearnedPositions or type(learned.table) is not nn.Embedding):
        return None
    found = {_form(block) for block in parts.blocks}
    final = _norm_form(parts.norm)
    if len(found) != 1 or None in found or final is None:  # one form for all of them
        return None
    (own,) = found
    assert own is not None
    return (len(parts.blocks), type(head), learned is not None, final, *own) if own[0] == final else None


def _form(block: Any) -> tuple[object, ...] | None:
    attention, feedforward = getattr(block, "attention", None), getattr(block, "feedforward", None)
    if type(block) is not Block or type(attention) is not PreNorm or type(feedforward) is not PreNorm:
        return None
    heads: Any = attention.sublayer
    network: Any = feedforward.sublayer
    if type(heads) is not MultiHeadAttention or type(network) not in (FeedForward, GatedFeedForward):
        return None
    gated = type(network) is GatedFeedForward
    into, out = ((network.gate, network.up), network.down) if gated else ((network.inner,), network.outer)
    projections = heads.query, heads.key, heads.value
    if any(type(part) is not nn.Linear for part in (*projections, heads.output, *into, out)):
        return None
    if any(len({part.bias is None for part in joined}) > 1 for joined in (projections, into)):
        return None  # what is joined to one matrix has biases everywhere or nowhere
    sizes = heads.query.in_features, heads.head_width, into[0].out_features
    norms = [_norm_form(norm) for norm in (attention.norm, feedforward.norm)]
    small = [_small_form(norm) for norm in (heads.query_norm, heads.key_norm)]
    if (
        any(size % ROWS for size in sizes)
        or type(network.activation) is not (nn.SiLU if gated else TanhGELU)
        or type(heads.positions) not in (NoPositions, RotaryPositions)
        or None in (*norms, *small)
        or norms[0] != norms[1]
        or small[0] != small[1]
    ):
        return None
    numbers = heads.heads, heads.key_heads, heads.head_width, heads.scale, sizes, gated
    return (norms[0], small[0], *numbers, id(heads.positions) if type(heads.positions) is RotaryPositions else 0)


def _norm_form(norm: nn.Module) -> tuple[object, ...] | None:
    if type(norm) not in (nn.LayerNorm, RMSNorm) or norm.weight is None or norm.eps is None:
        return None
    return (type(norm), norm.eps) if type(norm) is RMSNorm or norm.bias is not None else None


def _small_form(norm: nn.Module) -> tuple[object, ...] | None:
    return (nn.Identity,) if type(norm) is nn.Identity else _norm_form(norm) if type(norm) is RMSNorm else None


def contents(model: nn.Module) -> tuple[int, ...]:
    """A fingerprint of every weight and table as they are now: version counters do not see `weight.data.mul_(2)`."""
    tensors = [tensor.detach().contiguous() for tensor in (*model.parameters(), *model.buffers())]
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    threads = torch.get_num_threads()
    return tuple(library().fingerprint(address(each), size, threads) for each, size in zip(tensors, sizes, strict=True))


def versions(model: nn.Module) -> list[int]:
    """How often torch has seen each weight changed; those made in inference mode are not counted."""
    return [0 if tensor.is_inference() else tensor._version for tensor in (*model.parameters(), *model.buffers())]

"""torch's own attention and Transformer layers against our bricks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks import masks
from qkv.blocks.attention import MultiHeadAttention, attend, fused, opened
from qkv.blocks.block import Block, CrossBlock, FeedForward, PostNorm, PreNorm

WIDTH, HEADS, HIDDEN = 24, 4, 40
CLOSE = {"atol": 2e-6, "rtol": 1e-5}


def copy_attention(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Ours with the weights of theirs, whose three projections are one matrix."""
    query, key, value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
    with torch.no_grad():
        for ours, weight, bias in zip(
            (query, key, value), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
        ):
            ours.weight.copy_(weight)
            ours.bias.copy_(bias)
    return MultiHeadAttention(query, key, value, theirs.out_proj, heads=HEADS)


def shake(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5 if parameter.dim() == 1 else 0.2)


@pytest.mark.parametrize("masked", ["all", "causal", "rows"])
@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
def test_attention_is_scaled_dot_product_attention(masked: str, scale: float | None) -> None:
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(2, HEADS, time, 6) for time in (5, 8, 8))
    mask = {
        "all": None,
        "causal": masks.causal(torch.arange(3, 8), 8),
        "rows": masks.padding(torch.arange(8) < torch.tensor([[8], [5]])).unsqueeze(1),
    }[masked]
    expected = F.scaled_dot_product_attention(queries, keys, values, mask, scale=scale)
    torch.testing.assert_close(attend(queries, keys, values, mask, scale), expected, **CLOSE)
    linear = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    module = MultiHeadAttention(*linear, heads=HEADS, scale=6**-0.5 if scale is None else scale)
    for mix in (fused, opened):
        torch.testing.assert_close(mix(module, queries, keys, values, mask), expected, **CLOSE)


def test_multi_head_attention() -> None:
    """nn.MultiheadAttention, looking at itself and at a memory, with and without masks. Its masks say what to hide."""
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    shake(theirs)
    ours = copy_attention(theirs)
    x, memory = torch.randn(3, 7, WIDTH), torch.randn(3, 9, WIDTH)
    causal = masks.causal(torch.arange(7), 7)
    present = torch.arange(9) < torch.tensor([[9], [4], [1]])
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0], **CLOSE)
    torch.testing.assert_close(ours(x, mask=causal), theirs(x, x, x, attn_mask=~causal)[0], **CLOSE)
    expected, weights = theirs(x, memory, memory, key_padding_mask=~present, average_attn_weights=False)
    torch.testing.assert_close(ours(x, memory, mask=masks.padding(present)), expected, **CLOSE)
    seen: list[Tensor] = []
    ours.weights.register_forward_hook(lambda module, inputs, output: seen.append(output))
    ours.mix = opened
    ours(x, memory, mask=masks.padding(present))
    torch.testing.assert_close(seen[0], weights, **CLOSE)


Wrap = type[PreNorm] | type[PostNorm]
ORDERS: dict[str, tuple[bool, Wrap]] = {"pre-norm": (True, PreNorm), "post-norm": (False, PostNorm)}
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], nn.Module]] = {
    "relu": (F.relu, nn.ReLU()),
    "gelu": (F.gelu, nn.GELU()),
}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_encoder_layer_is_a_block(order: str, activation: str, mode: str) -> None:
    torch.manual_seed(2)
    first, wrap = ORDERS[order]
    function, module = ACTIVATIONS[activation]
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, function, batch_first=True, norm_first=first)
    shake(theirs)
    ours = Block(
        wrap(copy_attention(theirs.self_attn), theirs.norm1),
        wrap(FeedForward(theirs.linear1, module, theirs.linear2), theirs.norm2),
    )
    for layer in (theirs, ours):
        layer.train(mode == "train")
    x = torch.randn(3, 7, WIDTH)
    present = torch.arange(7) < torch.tensor([[7], [4], [1]])
    # beyond a sequence's end theirs may answer zeros; only real tokens count
    with torch.set_grad_enabled(mode == "train"):
        found = ours(x, mask=masks.padding(present))[present]
        expected = theirs(x, src_key_padding_mask=~present)[present]
    torch.testing.assert_close(found, expected, atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_decoder_layer_is_a_cross_block(order: str, activation: str) -> None:
    torch.manual_seed(3)
    first, wrap = ORDERS[order]
    function, module = ACTIVATIONS[activation]
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, 0.0, function, batch_first=True, norm_first=first)
    shake(theirs)
    ours = CrossBlock(
        wrap(copy_attention(theirs.self_attn), theirs.norm1),
        wrap(copy_attention(theirs.multihead_attn), theirs.norm2),
        wrap(FeedForward(theirs.linear1, module, theirs.linear2), theirs.norm3),
    )
    x, memory = torch.randn(3, 6, WIDTH), torch.randn(3, 9, WIDTH)
    causal = masks.causal(torch.arange(6), 6)
    present = torch.arange(9) < torch.tensor([[9], [4], [1]])
    found = ours(x, memory, mask=causal, memory_mask=masks.padding(present))
    expected = theirs(x, memory, tgt_mask=~causal, memory_key_padding_mask=~present)
    torch.testing.assert_close(found, expected, atol=5e-6, rtol=1e-5)

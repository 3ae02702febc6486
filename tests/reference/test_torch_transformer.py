"""The Transformer that translates beside `torch.nn.Transformer`, norms last and norms first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import translators
from qkv.models.transformer import Transformer, TransformerConfig

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def attention(theirs: nn.MultiheadAttention, ours: Any) -> None:
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def layer(theirs: Any, ours: Any) -> None:
    """The weights of one block, with or without a look at the source."""
    crossed = hasattr(ours, "crossing")
    norms = [ours.attention.norm, *([ours.crossing.norm] if crossed else []), ours.feedforward.norm]
    attention(theirs.self_attn, ours.attention.sublayer)
    if crossed:
        attention(theirs.multihead_attn, ours.crossing.sublayer)
    theirs.linear1.load_state_dict(ours.feedforward.sublayer.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.sublayer.outer.state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def reference(ours: Transformer, config: TransformerConfig) -> nn.Transformer:
    """Theirs ends with one more norm in both orders; the paper's has none, so that `norm` is left out after "post"."""
    sizes = (config.width, config.heads, config.hidden, 0.0, ACTIVATIONS[config.activation])
    order: dict[str, Any] = {"batch_first": True, "norm_first": config.norm == "pre"}
    last = [nn.LayerNorm(config.width) if config.norm == "pre" else None for _ in range(2)]
    layers = nn.TransformerEncoderLayer(*sizes, **order), nn.TransformerDecoderLayer(*sizes, **order)
    encoder = nn.TransformerEncoder(layers[0], config.layers, last[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(layers[1], config.decoder_layers, last[1])
    # before the weights are put in: it draws its own for all that it is given
    made = nn.Transformer(config.width, config.heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    stacks: Any = ((encoder, ours.encoder, ours.encoder_norm), (decoder, ours.decoder, ours.decoder_norm))
    with torch.no_grad():
        for stack, own, norm in stacks:
            for one, other in zip(stack.layers, own, strict=True):
                layer(one, other)
            if stack.norm is not None:
                stack.norm.load_state_dict(norm.state_dict())
    return made


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_same_scores_and_gradients(norm: Any, activation: Any) -> None:
    config = TransformerConfig(
        vocabulary=19, layers=2, decoder_layers=3, heads=3, width=24, hidden=17, context=12, norm=norm,
        activation=activation,
    )  # fmt: skip
    ours = translators.built(config)
    theirs = reference(ours, config)
    source, present, tokens = translators.batch()
    asked, written = (
        ours.positions(ours.embedding(ids) * config.width**0.5, torch.arange(ids.size(1))) for ids in (source, tokens)
    )
    future = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), dtype=torch.bool)
    hidden = ~present
    vectors: Tensor = theirs(
        asked, written, tgt_mask=future, src_key_padding_mask=hidden, memory_key_padding_mask=hidden
    )
    expected, found = ours.head(vectors), ours(source, present, tokens)
    assert expected.abs().max() > 0.3
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    gradients = [torch.autograd.grad(each.square().mean(), ours.embedding.weight) for each in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)

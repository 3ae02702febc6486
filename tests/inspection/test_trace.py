"""Traces: equal to the fused, untraced model for every family; every sum is the next one's input; bounded memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from inspection.subjects import FAMILIES, built, subject
from qkv.blocks.attention import MultiHeadAttention
from qkv.errors import InputError
from qkv.inspection.subject import forward, stacks
from qkv.inspection.trace import trace

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.mark.parametrize("family", FAMILIES)
def test_traced_equals_untraced(family: str) -> None:
    """Output and attention, with all heads open, with one, and with one layer."""
    given = subject(family)
    with torch.no_grad():
        expected = forward(given.model, given.inputs)[0]
    for asked in ({}, {"heads": [0]}, {"layers": [-1]}, {"layers": []}):
        found = trace(given, **asked)  # type: ignore[arg-type]
        torch.testing.assert_close(found.output, expected, **CLOSE)
    assert not any(module._forward_hooks for module in given.model.modules())
    assert all(m.mix.__name__ == "fused" for m in given.model.modules() if isinstance(m, MultiHeadAttention))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sum_follows_from_the_one_before(family: str) -> None:
    given = subject(family)
    found = trace(given)
    towers = stacks(given.model)
    assert set(found.layers) == set(towers)
    for name, layers in found.layers.items():
        assert len(layers) == len(towers[name].layers)
        for each in layers:
            torch.testing.assert_close(each.queries @ each.keys.mT * each.scale, each.scores, **CLOSE)
            torch.testing.assert_close(each.masked.softmax(-1), each.weights, **CLOSE)
            torch.testing.assert_close(each.weights @ each.values, each.mixed, **CLOSE)
            assert each.causal == (name == "decoder" or (name == "self" and family in CAUSAL))
    tokens, source = len(given.inputs.tokens), len(given.inputs.source or ())
    assert len(found.tokens) == tokens
    assert len(found.source_tokens) == source
    assert found.embeddings is not None
    assert len(found.embeddings) == tokens


CAUSAL = ("gpt", "gpt-window", "modern", "modern-fast", "llama", "qwen2", "gpt-classifier")


@pytest.mark.parametrize("family", ["gpt", "modern", "llama", "bert", "transformer", "transformer-pre"])
def test_the_residual_stream_adds_up(family: str) -> None:
    """Before a sublayer, what it adds, and after: x + added, and for post-norm models its norm."""
    given = subject(family)
    found = trace(given)
    tower = "decoder" if "transformer" in family else "self"
    streams = found.residual(tower)  # type: ignore[arg-type]
    assert len(streams) == 1 + len(stacks(given.model)[tower].layers)  # type: ignore[index]
    torch.testing.assert_close(streams[0], found.values["embedded"])
    block = "decoder.1" if tower == "decoder" else "blocks.1"
    before, added = streams[1], found.values[f"{block}.attention.update"]
    after = found.values[f"{block}.attention.stream"]
    if family in ("bert", "transformer"):
        after, before = after, _norm(given.model, block)(before + added)
        torch.testing.assert_close(after, before, **CLOSE)
    else:
        torch.testing.assert_close(after, before + added, **CLOSE)
    assert f"{block}.feedforward.sublayer.hidden" in found.values


def _norm(model: Any, block: str) -> Any:
    return model.get_submodule(f"{block}.attention.norm")


def test_positions() -> None:
    """Added vectors for gpt, waves for the transformer, cosines and sines for rotary ones, none for a recurrence."""
    gpt = subject("gpt")
    model: Any = gpt.model
    length = len(gpt.inputs.tokens)
    found = trace(gpt)
    assert found.positions is not None
    assert found.embeddings is not None
    torch.testing.assert_close(found.positions, model.positions.table.weight[:length])
    torch.testing.assert_close(found.embeddings + found.positions, found.values["embedded"], **CLOSE)
    turned = trace(subject("modern")).positions
    assert turned is not None
    torch.testing.assert_close(turned[0], torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert trace(subject("transformer")).positions is not None
    assert trace(subject("rnn-translator")).positions is None


def test_what_is_asked_for_is_held_and_no_more() -> None:
    given = subject("modern")
    found = trace(given, layers=[1], heads=[1, -1])
    (only,) = found.layers["self"]
    assert (only.layer, only.heads) == (1, (1, 3))
    assert found.attention.shape == (1, 2, len(given.inputs.tokens), len(given.inputs.tokens))
    whole = trace(given).layer(1)
    torch.testing.assert_close(only.weights, whole.weights[[1, 3]], **CLOSE)
    torch.testing.assert_close(only.keys, whole.keys[[1, 3]], **CLOSE)
    assert not [name for name in found.values if name.startswith("blocks.0") and name.endswith("hidden")]
    assert found.layer(1) is only
    with pytest.raises(InputError, match="layer 0 is not in this trace, which holds 1"):
        found.layer(0)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"layers": [2]}, "layer 2 of 2: expected 0 to 1"),
        ({"heads": [4]}, "head 4 of 4: expected 0 to 3"),
        ({"max_bytes": 1000}, "would hold .* Ask for less"),
    ],
)
def test_what_does_not_fit_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        trace(subject("modern"), **asked)


def test_a_model_without_attention() -> None:
    found = trace(subject("lstm"))
    assert found.layers == {}
    assert "recurrent.vectors" in found.values
    with pytest.raises(InputError, match="holds no attention"):
        _ = found.attention


def test_trained_or_not_the_mode_is_evaluation() -> None:
    model = built("gpt").train()
    given = replace(subject("gpt"), model=model)
    first, second = trace(given).output, trace(given).output
    assert torch.equal(first, second)

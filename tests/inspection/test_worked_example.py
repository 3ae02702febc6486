"""The worked example: plain Python's sums, the layer's own numbers, the decks' ladder and deck 002's slide."""

from __future__ import annotations

import math

import pytest
import torch

from inspection.subjects import subject
from qkv.errors import InputError
from qkv.inspection.trace import trace
from qkv.inspection.worked_example import attention_example, ladder, slide, variants

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.mark.parametrize("family", ["gpt", "modern", "llama", "bert", "transformer", "rnn-translator"])
def test_every_number_by_hand(family: str) -> None:
    """Sums in plain Python, f64, for every head of a layer and three words."""
    given = trace(subject(family))
    layer = given.layer(0)
    for head in layer.heads:
        for token in (0, 3, -1):
            found = attention_example(layer, head, token)
            place = token % len(given.tokens)
            query, keys = layer.queries[head, place].tolist(), layer.keys[head].tolist()
            dots = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
            scaled = [dot * layer.scale for dot in dots]
            shares = [math.exp(each) if bool(may) else 0.0 for each, may in zip(scaled, found.allowed, strict=True)]
            shares = [each / sum(shares) for each in shares]
            values = layer.values[head].tolist()
            mixed = [sum(s * v[d] for s, v in zip(shares, values, strict=True)) for d in range(len(values[0]))]
            assert found.dots.tolist() == pytest.approx(dots, abs=1e-4)
            assert found.weights.tolist() == pytest.approx(shares, abs=1e-5)
            assert found.mixed.tolist() == pytest.approx(mixed, abs=1e-4)
            torch.testing.assert_close(found.weights, layer.weights[head, place], **CLOSE)
            torch.testing.assert_close(found.mixed, layer.mixed[head, place], **CLOSE)


def test_the_scale_is_one_over_the_root_of_the_head_width() -> None:
    layer = trace(subject("gpt")).layer(1)
    assert layer.scale == pytest.approx(1 / math.sqrt(layer.queries.size(-1)))
    assert trace(subject("rnn-translator")).layer(0).scale == 1.0


def test_json_has_the_first_numbers_and_whole_dot_products() -> None:
    layer = trace(subject("rnn-translator")).layer(0)
    found = attention_example(layer, 0, 1).document()
    assert len(found["query"]) == 8 < layer.queries.size(-1)
    assert len(found["dots"]) == len(found["weights"]) == layer.keys.size(1)
    assert found["dots"][0] == round(float(layer.queries[0, 1] @ layer.keys[0, 0]), 4)


def test_what_was_not_looked_at_is_refused() -> None:
    layer = trace(subject("gpt"), heads=[2]).layer(0)
    with pytest.raises(InputError, match="head 1 of layer 0 was not traced; expected one of 2"):
        attention_example(layer, 1, 0)
    with pytest.raises(InputError, match="token 99"):
        attention_example(layer, 2, 99)


def test_the_decks_ladder() -> None:
    """Each rung's weights sum to one; nothing learned by hand; U = 1 is nothing learned; the last is the layer."""
    seen = trace(subject("gpt"))
    x, layer = seen.values["embedded"], seen.layer(0)
    steps = ladder(x, torch.eye(x.size(1)), layer)
    assert [each.name for each in steps][0::5] == ["nothing learned", "several heads"]
    for each in steps:
        torch.testing.assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))
    torch.testing.assert_close(steps[0].result, (x @ x.T).softmax(-1) @ x, **CLOSE)
    torch.testing.assert_close(steps[1].result, steps[0].result, **CLOSE)
    torch.testing.assert_close(steps[4].result, layer.mixed[0], **CLOSE)
    assert steps[5].result.shape == (len(x), x.size(1))


def test_deck_002s_numbers() -> None:
    """92, 124, 22 and 8 over 8: .018, .982, .000, .000; the slide prints .08, .91, .01, 0."""
    found = slide()
    assert [f"{each:.3f}" for each in found.true] == ["0.018", "0.982", "0.000", "0.000"]
    assert found.printed == (0.08, 0.91, 0.01, 0.0)
    assert found.scaled == (11.5, 15.5, 2.75, 1.0)
    assert found.true[0] == pytest.approx(1 / (1 + math.exp(4) + math.exp(2.75 - 11.5) + math.exp(1 - 11.5)))
    assert "0.018, 0.982" in found.note


def test_the_decks_variants() -> None:
    """d = 48, h = 3: heads of d cost h times the matrices; no W_O saves d²; learned positions are a table."""
    usual, bare, large, pre, post, learned, waves, none = variants(48, 3, 10, 256)
    assert usual.parameters == 4 * 48 * 48
    assert bare.more_parameters == -48 * 48
    assert large.parameters == 4 * 48 * 3 * 48
    assert usual.flops == 2 * 10 * 4 * 48 * 48 + 4 * 10 * 10 * 48
    assert (pre.more_flops, post.more_flops, none.more_flops) == (0, 0, 0)
    assert (learned.more_parameters, waves.more_parameters) == (256 * 48, 0)

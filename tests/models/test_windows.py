"""Windows: restricted attention equals full attention under a window's mask, in a bounded state too."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from models.suite import VOCABULARY, built
from qkv.blocks import bounded_state, masks
from qkv.blocks.attention import open_attention
from qkv.blocks.bounded_state import SPARE, RingState
from qkv.generation.sampling import Sampling
from qkv.generation.writing import write
from qkv.models.gpt import GPTConfig
from qkv.models.modern import ModernConfig

WINDOW, CONTEXT = 5, 60
SHAPE: dict[str, Any] = {"vocabulary": VOCABULARY, "context": CONTEXT, "width": 24, "layers": 2, "window": WINDOW}
MODELS = {"gpt": GPTConfig(**SHAPE, heads=3), "modern": ModernConfig(**SHAPE, heads=4, key_heads=2)}
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
EACH = pytest.mark.parametrize("name", MODELS)


def text(rows: int, length: int) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(length))


@pytest.fixture
def written_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bands: every mask is written down."""
    monkeypatch.setattr(bounded_state, "LONG", 10**9)


@EACH
@torch.no_grad()
def test_a_window_as_long_as_the_text_is_full_attention(name: str) -> None:
    full = built(replace(MODELS[name], window=0))
    tokens = text(2, 20)
    for window in (20, 21, 1000):
        model = built(replace(MODELS[name], window=window))
        torch.testing.assert_close(model(tokens), full(tokens), **CLOSE)
        state = model.state(2)
        found = torch.cat([model(piece, state) for piece in tokens.split([7, 1, 12], 1)], 1)
        torch.testing.assert_close(found, full(tokens), **CLOSE)
    assert not torch.allclose(built(MODELS[name])(tokens), full(tokens))


@EACH
@torch.no_grad()
def test_a_layer_sees_its_window_and_no_further(name: str) -> None:
    """Through two layers of window 5, place t sees t - 8 ... t."""
    model, tokens = built(MODELS[name]), text(1, 30)
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % VOCABULARY
    moved = (model(changed) - model(tokens)).abs().amax(-1)[0] > 1e-6
    assert moved.nonzero().flatten().tolist() == list(range(10, 10 + 2 * (WINDOW - 1) + 1))


@EACH
@pytest.mark.parametrize("length", [WINDOW * bounded_state.LONG, 33, CONTEXT])
def test_a_band_is_the_mask(name: str, length: int, request: pytest.FixtureRequest) -> None:
    """Forward and backward: a long text is computed in blocks, and gives what the whole mask gives."""
    model, tokens = built(MODELS[name]), text(3, length)
    assert isinstance(bounded_state.window_mask(None, torch.arange(length), WINDOW), masks.Band)
    found = model(tokens)
    gradients = torch.autograd.grad(found.square().sum(), list(model.parameters()))
    with open_attention(model):
        torch.testing.assert_close(model(tokens), found, **CLOSE)
    request.getfixturevalue("written_masks")
    expected = model(tokens)
    torch.testing.assert_close(found, expected, **CLOSE)
    wanted = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    torch.testing.assert_close(gradients, wanted, atol=1e-2, rtol=1e-4)


@EACH
@pytest.mark.parametrize("prompt", [1, WINDOW - 1, WINDOW, WINDOW + SPARE, WINDOW + SPARE + 1, 40])
@torch.no_grad()
def test_a_bounded_state_equals_the_full_pass(name: str, prompt: int) -> None:
    """Prompts shorter and longer than the window, then pieces of all lengths, then one token at a time."""
    model, tokens = built(MODELS[name]), text(2, CONTEXT)
    state = model.state(2)
    pieces = [prompt, 3, 1, 2, 1, WINDOW, 1]
    found = [model(piece, state) for piece in tokens[:, : sum(pieces)].split(pieces, 1)]
    found += [model(token, state) for token in tokens[:, sum(pieces) :].split(1, 1)]
    torch.testing.assert_close(torch.cat(found, 1), model(tokens), **CLOSE)
    assert state.lengths == [CONTEXT] * 2
    for layer in state.layers:
        assert isinstance(layer, RingState)
        assert layer.keys is not None
        assert layer.keys.size(2) == WINDOW + SPARE, "its size is the window's, not the text's"


@EACH
@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_rows_of_unequal_length_wander(name: str, seed: int) -> None:
    """Write, start rows anew, fork, swap and go back at random; every row has the logits of its own text alone."""
    model, chance = built(MODELS[name]), random.Random(seed)
    rows: list[list[int]] = [[], [], []]
    state = model.state(3)
    for _ in range(60):
        match chance.choice(["write", "write", "write", "reset", "rows", "truncate"]):
            case "write":
                new = chance.choice([1, 1, 2, 3, 9, 20])
                if max(map(len, rows)) + new > CONTEXT:
                    continue
                tokens = torch.randint(VOCABULARY, (len(rows), new))
                found = model(tokens, state)
                for own, more, logits in zip(rows, tokens.tolist(), found, strict=True):
                    own += more
                    alone = model(torch.tensor([own]))[0, -new:]
                    torch.testing.assert_close(logits, alone, **CLOSE)
            case "reset":
                row = chance.randrange(len(rows))
                state.reset(row)
                rows[row] = []
            case "rows":
                index = [chance.randrange(len(rows)) for _ in range(3)]
                state, rows = state.rows(index), [list(rows[row]) for row in index]
            case "truncate":
                length = max(map(len, rows)) - chance.randrange(SPARE)
                if length > 0:
                    state = state.rows(range(3))  # a refusal would change nothing; the first state stays whole
                    try:
                        state.truncate(length)
                    except ValueError:
                        continue
                    rows = [own[:length] for own in rows]
        assert state.lengths == [len(own) for own in rows]


@torch.no_grad()
def test_what_is_forgotten_cannot_be_gone_back_to() -> None:
    model, tokens = built(MODELS["modern"]), text(2, CONTEXT)
    state = model.state(2)
    model(tokens[:, :40], state)
    state.truncate(40 - SPARE)
    with pytest.raises(ValueError, match="the state holds positions 27 to 31; to go back to length 30 it would need"):
        state.truncate(30)
    assert state.lengths == [40 - SPARE] * 2, "a refusal changes nothing"
    torch.testing.assert_close(model(tokens[:, 32:], state), model(tokens)[:, 32:], **CLOSE)
    state.truncate(0)
    torch.testing.assert_close(model(tokens, state), model(tokens), **CLOSE)


@EACH
def test_writing_with_and_without_the_state_beyond_the_context(name: str) -> None:
    model = built(MODELS[name])
    written = [
        [row[0].token for row in write(model, [1, 2, 3], Sampling(), length=90, seed=3, cached=cached) if row[0]]
        for cached in (True, False)
    ]
    assert written[0] == written[1]


def test_dropout_in_a_band() -> None:
    """Dropped in training, in expectation the same; nothing is dropped afterwards."""
    model = built(replace(MODELS["modern"], dropout=0.3))
    tokens = text(1, 40)
    expected = model(tokens)
    assert torch.equal(expected, built(MODELS["modern"])(tokens))
    assert not torch.allclose(model.train()(tokens), expected)

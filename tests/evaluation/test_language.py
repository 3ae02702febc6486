"""Scores: every token once, equal to a plain sum, intervals that make sense."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from qkv.data.tokens import TokenStream
from qkv.evaluation.language import plan, score
from tiny import CONFIGS, VOCABULARY, stream


@given(tokens=some.integers(2, 300), length=some.integers(1, 40), overlap=some.integers(0, 39))
def test_every_token_is_scored_once(tokens: int, length: int, overlap: int) -> None:
    stride = max(1, length - overlap)
    counted = [0] * tokens
    for window in plan(tokens, length, stride):
        assert window.length <= length
        assert window.fresh <= window.length
        for place in range(window.start + window.length - window.fresh, window.start + window.length):
            counted[place + 1] += 1
    assert counted == [0] + [1] * (tokens - 1)


def text(tokens: int = 333) -> TokenStream:
    return TokenStream(tokens=stream(tokens), bytes=2 * tokens, characters=tokens, documents=1, unknown=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_score_equals_a_plain_sum(kind: str) -> None:
    torch.manual_seed(3)
    model = CONFIGS[kind].build()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    found = score(model, text(), window=16)
    ids = torch.from_numpy(stream(333).astype(np.int64))
    total = 0.0
    with torch.no_grad():
        for start in range(0, 332, 16):
            window = ids[start : start + 17]
            logits = model.eval()(window[None, :-1])[0]
            total += float(torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum"))
    assert found.tokens == 332
    assert found.loss == pytest.approx(total / 332, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(total / 332), rel=1e-4)
    assert found.bits_per_byte == pytest.approx(total / math.log(2) / 666, rel=1e-5)
    assert found.bits_per_character == pytest.approx(2 * found.bits_per_byte)
    assert found.low < found.loss < found.high


def test_an_untrained_model_is_uniform() -> None:
    """`modern` starts with an output of zero: log V nats for every token."""
    found = score(CONFIGS["modern"].build(), text())
    assert found.loss == pytest.approx(math.log(VOCABULARY), rel=1e-6)


def test_a_sample_is_close_to_the_whole() -> None:
    torch.manual_seed(0)
    model = CONFIGS["gpt"].build()
    whole = score(model, text(3000), window=16)
    part = score(model, text(3000), window=16, limit=800)
    assert part.tokens < whole.tokens
    assert part.loss == pytest.approx(whole.loss, rel=0.02)
    assert part.bits_per_byte == pytest.approx(whole.bits_per_byte, rel=0.02)


def test_scoring_leaves_the_model_as_it_was() -> None:
    model = CONFIGS["lstm"].build().train()
    before = torch.get_rng_state()
    score(model, text())
    assert model.training
    assert torch.equal(before, torch.get_rng_state())

"""Scores: every token once, equal to a plain sum, intervals that make sense."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from qkv.data.tokens import TokenStream
from qkv.evaluation.perplexity import TextWindow, WindowPlan, score
from tiny import CONFIGS, VOCABULARY, stream


def one_after_the_other(tokens: int, length: int, stride: int) -> list[TextWindow]:
    """The windows by walking through the text: what `Plan` computes for any of them alone."""
    targets, done, windows = tokens - 1, 0, []
    while done < targets:
        start = max(0, done - (length - stride))
        end = min(start + length, targets)
        windows.append(TextWindow(start, end - start, end - done))
        done = end
    return windows


@given(tokens=some.integers(0, 300), length=some.integers(1, 40), overlap=some.integers(0, 39))
def test_every_token_is_scored_once(tokens: int, length: int, overlap: int) -> None:
    stride = max(1, length - overlap)
    plan = WindowPlan(tokens, length, stride)
    windows = list(plan)
    assert len(windows) == len(plan)
    assert windows == one_after_the_other(tokens, length, stride)
    counted = [0] * tokens
    for window in windows:
        assert window.length <= length
        assert window.counted <= window.length
        for place in range(window.start + window.length - window.counted, window.start + window.length):
            counted[place + 1] += 1
    assert counted == ([0] + [1] * (tokens - 1))[:tokens]


def test_a_few_windows_of_a_long_text_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of a terabyte of tokens asks for its own windows only."""
    made: list[int] = []
    window_at = WindowPlan.__getitem__
    monkeypatch.setattr(WindowPlan, "__getitem__", lambda self, index: made.append(index) or window_at(self, index))
    score(CONFIGS["gpt"].build(), text(30_000), window=16, limit=160)
    assert len(made) == 10
    assert len(WindowPlan(10**12, 128, 64)) == (10**12 - 1 - 128 + 63) // 64 + 1


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
    for name in ("loss", "perplexity", "bits_per_byte", "bits_per_character"):
        assert getattr(found, f"{name}_low") < getattr(found, name) < getattr(found, f"{name}_high")
    factor = found.bits_per_byte / found.loss
    assert found.bits_per_byte_low == pytest.approx(factor * found.loss_low)
    assert found.bits_per_byte_high == pytest.approx(factor * found.loss_high)
    assert found.perplexity_low == pytest.approx(math.exp(found.loss_low))


def test_one_window_has_no_interval() -> None:
    found = score(CONFIGS["gpt"].build(), text(10), window=16)
    assert "one window" in found.interval("bits_per_byte")
    assert not any(math.isfinite(value) for key, value in found.values().items() if key.endswith(("_low", "_high")))


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


def test_fewer_rows_at_once_change_nothing_but_rounding() -> None:
    torch.manual_seed(0)
    model = CONFIGS["gpt"].build()
    assert score(model, text(), window=16, rows=1).loss == pytest.approx(score(model, text(), window=16).loss, rel=1e-6)


@pytest.mark.parametrize(("tokens", "window"), [(2, 16), (10, 4), (40, 16), (333, 16), (3000, 16)])
def test_parts_cover_the_text(tokens: int, window: int) -> None:
    """Two scores of the same text are compared part by part; a short text is cut inside its windows."""
    model = CONFIGS["gpt"].build()
    torch.nn.init.normal_(model.embedding.weight)
    found = score(model, text(tokens), window=window)
    assert len(found.parts) == min(16, tokens - 1)
    assert found.loss == pytest.approx(np.mean(found.parts), rel=0.05 if tokens > 100 else 0.3)
    if tokens <= 17:
        assert found.loss == pytest.approx(np.mean(found.parts))
    assert "parts" not in found.values()

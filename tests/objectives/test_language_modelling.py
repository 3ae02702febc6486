"""Windows: every token seen, in an order that depends on the seed and on the samples consumed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from qkv.objectives import order
from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig
from tiny import state, task


@given(tokens=some.integers(6, 400), context=some.integers(1, 60), seed=some.integers(0, 5))
def test_windows_lie_within_the_text(tokens: int, context: int, seed: int) -> None:
    if tokens < context + 1:
        return
    made = LanguageModelling(LanguageModellingConfig(), np.arange(tokens), context, seed)
    batch = made.batch(0, 3 * made.samples)
    assert made.samples >= 1
    assert torch.equal(batch.tokens + 1, batch.targets)
    assert batch.targets.max() < tokens


def test_an_epoch_shows_every_window_once() -> None:
    made = LanguageModelling(LanguageModellingConfig(), np.arange(1000), 10, 3)
    seen = made.batch(0, made.samples).tokens.flatten().tolist()
    assert len(seen) == len(set(seen)) >= 1000 - 2 * 10
    again = made.batch(made.samples, made.samples).tokens.flatten().tolist()
    assert seen != again


def test_order_does_not_depend_on_how_batches_are_cut() -> None:
    whole = task().batch(0, 60).tokens
    parts = torch.cat([task().batch(first, 12).tokens for first in range(0, 60, 12)])
    assert torch.equal(whole, parts)
    assert not torch.equal(whole, task(seed=1).batch(0, 60).tokens)


def test_order_is_the_same_on_every_machine() -> None:
    """Golden: a refactor must not move it, or old runs cannot be resumed."""
    assert order.permutation(0, 0, 8).tolist() == GOLDEN_PERMUTATION
    assert [order.offset(0, epoch, 64) for epoch in range(4)] == GOLDEN_OFFSETS


def test_the_last_position_alone() -> None:
    """Deck 003's loss: only the prediction after the whole window."""
    made, last = task(), task(positions="last")
    batch = last.batch(0, 4)
    model = state(dropout=0.0).model.eval()
    assert batch.count == 4
    logits = model(batch.tokens)[:, -1]
    expected = torch.nn.functional.cross_entropy(logits, batch.targets[:, -1], reduction="sum")
    assert torch.allclose(last.loss(model, batch), expected)
    assert made.batch(0, 4).count == 64


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_splitting_keeps_the_loss(parts: int) -> None:
    made = task()
    model = state(dropout=0.0).model.eval()
    batch = made.batch(5, 8)
    whole = made.loss(model, batch)
    assert torch.allclose(sum(made.loss(model, part) for part in batch.split(parts)), whole, rtol=1e-5)


GOLDEN_PERMUTATION = [3, 6, 4, 0, 7, 5, 2, 1]
GOLDEN_OFFSETS = [12, 26, 59, 54]

"""How much a training computes: counted by torch, beside the sum by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import translators
from qkv.models.rnn import RecurrentConfig
from qkv.models.transformer import TransformerConfig
from qkv.objectives.translation import TranslationBatch
from qkv.training.loop import training_flops


class OneBatch:
    """Two pairs of equal length, again and again."""

    samples = 1

    def __init__(self, source: int, target: int) -> None:
        read, written = torch.ones(2, source, dtype=torch.long), torch.ones(2, target, dtype=torch.long)
        self.made = TranslationBatch(read, read.bool(), written, written, written.bool())

    def batch(self, first: int, size: int) -> TranslationBatch:
        return self.made

    def loss(self, model: Any, batch: Any) -> torch.Tensor:
        return model(batch.source, batch.present, batch.tokens).sum()  # type: ignore[no-any-return]


def test_a_transformer_by_hand() -> None:
    """Two operations for a product and its sum: projections, attentions, feed-forward, head."""
    width, hidden, vocabulary, source, target = 8, 12, 11, 5, 3
    shape = TransformerConfig(vocabulary=vocabulary, layers=1, heads=2, width=width, hidden=hidden, context=16)
    linear, attention = 2 * width * width, 4 * width
    forward = 2 * width * hidden * 2
    encoder = source * (4 * linear + forward) + attention * source * source
    decoder = target * (4 * linear + 2 * linear + forward + 2 * width * vocabulary) + source * 2 * linear
    decoder += attention * (target * target + target * source)
    found = training_flops(translators.built(shape), OneBatch(source, target), 1, 7)  # type: ignore[arg-type]
    assert found == 7 * 3 * 2 * (encoder + decoder)


class OneText:
    """Two texts of equal length, again and again."""

    samples = 1

    def batch(self, first: int, size: int) -> Any:
        return torch.ones(2, 5, dtype=torch.long)

    def loss(self, model: Any, batch: Any) -> torch.Tensor:
        return model(batch).sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("kind", "gates"), [("rnn", 1), ("gru", 3), ("lstm", 4)])
def test_a_recurrence_by_hand(kind: Any, gates: int) -> None:
    """Of its kernels torch counts some by itself and others not: each counts once."""
    width, vocabulary, layers, tokens = 8, 11, 2, 10
    model = RecurrentConfig(kind=kind, vocabulary=vocabulary, layers=layers, width=width).build()
    a_token = 2 * gates * (width + width) * width * layers + 2 * width * vocabulary
    assert training_flops(model, OneText(), 1, 7) == 7 * 3 * tokens * a_token  # type: ignore[arg-type]

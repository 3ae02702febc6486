"""How much a training computes: counted by torch, beside the sum by hand."""

from __future__ import annotations

from typing import Any

import torch

import translators
from qkv.models.transformer import TransformerConfig
from qkv.tasks.translation import Translated
from qkv.training.operations import training_flops


class OneBatch:
    """Two pairs of equal length, again and again."""

    samples = 1

    def __init__(self, source: int, target: int) -> None:
        read, written = torch.ones(2, source, dtype=torch.long), torch.ones(2, target, dtype=torch.long)
        self.made = Translated(read, read.bool(), written, written, written.bool())

    def batch(self, first: int, size: int) -> Translated:
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

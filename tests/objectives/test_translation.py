"""The loss of pairs: which are looked at, and those that no context can hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qkv.data.encode import EncodedRows, PairRows
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.objectives.translation import evenly_spread, pairs_loss

LENGTHS = [3, 5, 4, 40, 2]


def rows(lengths: list[int], seed: int) -> EncodedRows:
    ids = np.random.default_rng(seed).integers(1, 11, sum(lengths)).astype(np.uint16)
    return EncodedRows(ids, np.cumsum([0, *lengths]))


def test_evaluated_rows_are_evenly_spread() -> None:
    assert evenly_spread(10, 3).tolist() == [0, 2, 6]
    assert evenly_spread(5, 5).tolist() == evenly_spread(5, 900).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spread(7, 1).tolist() == [0]
    assert len(set(evenly_spread(1014, 200).tolist())) == 200


@torch.no_grad()
def test_pairs_that_the_context_cannot_hold_are_left_out() -> None:
    torch.manual_seed(0)
    model = RNNTranslatorConfig(vocabulary=11, width=8, context=16).build().eval()
    whole = PairRows(rows(LENGTHS, 1), rows(LENGTHS, 2), np.arange(5))
    found, _ = pairs_loss(model, whole, 0, 5, "cpu")
    total, pieces = 0.0, 0
    for row, length in enumerate(LENGTHS):
        if length > model.context:
            continue
        source, target = (
            torch.from_numpy(each.row(row).astype(np.int64))[None] for each in (whole.sources, whole.targets)
        )
        tokens = torch.cat([torch.zeros(1, 1, dtype=torch.long), target[:, :-1]], 1)
        logits = model(source, torch.ones_like(source, dtype=torch.bool), tokens)
        total -= float(logits.log_softmax(-1).gather(2, target[..., None]).sum())
        pieces += length
    assert found == pytest.approx(total / pieces, rel=1e-4)
    assert pairs_loss(model, PairRows(rows([40], 1), rows([40], 2), np.arange(1)), 0, 5, "cpu") == (0.0, [])

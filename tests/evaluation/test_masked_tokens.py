"""Scores of a model that fills gaps, against what is computed by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from objectives.test_masked_language_modelling import PAIRS, PIECES, SINGLE, SPECIAL, VOCABULARY, model, text
from qkv.evaluation import masked_tokens as masked
from qkv.evaluation.masked_tokens import SEED, MaskedScore, frequencies, score
from qkv.evaluation.timed_scoring import Pace
from qkv.models.masked import Masked
from qkv.objectives.masked_language_modelling import MaskedLanguageModelling


def scored(bert: Masked, config: Any = PAIRS, **more: Any) -> MaskedScore:
    return score(bert, text(), PIECES, frequencies(text(seed=9), PIECES), config, **more)


def test_the_score_is_what_a_plain_pass_gives() -> None:
    bert = model().eval()
    found = scored(bert, pseudo=0)
    task = MaskedLanguageModelling(PAIRS, text(), PIECES, 32, SEED)
    batch = task.batch(0, task.samples)
    with torch.no_grad():
        logits = bert(batch.tokens, batch.present, batch.segments)[batch.predicted]
        followed = bert.followed(bert.encoder(batch.tokens, batch.present, batch.segments)).argmax(-1)
    targets = batch.targets[batch.predicted]
    assert found.loss == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.loss))
    assert found.accuracy == pytest.approx((logits.argmax(-1) == targets).float().mean().item())
    assert found.followed_accuracy == pytest.approx((followed == batch.unrelated).float().mean().item())
    assert (found.masked_tokens, found.pairs) == (len(targets), task.samples)
    assert found.accuracy_low <= found.accuracy <= found.accuracy_high
    passage = batch.predicted.nonzero()[:, 0].numpy()
    sums = np.bincount(passage, F.cross_entropy(logits, targets, reduction="none").numpy())
    assert found.passages[:, 0] == pytest.approx(sums, rel=1e-4)
    assert found.passages[:, 3].sum() == len(targets)
    assert found.loss_low < found.loss < found.loss_high
    assert found.compared.second == pytest.approx(found.baseline_accuracy)
    assert found.followed_low < found.followed_accuracy < found.followed_high


def test_the_baseline_knows_how_often_each_piece_is() -> None:
    usual = frequencies(text(seed=9), PIECES)
    assert usual.sum() == pytest.approx(1)
    assert not usual[:SPECIAL].any()
    assert (usual[SPECIAL:] > 0).all()
    found = scored(model(), pseudo=0)
    task = MaskedLanguageModelling(PAIRS, text(), PIECES, 32, SEED)
    batch = task.batch(0, task.samples)
    targets = batch.targets[batch.predicted].numpy()
    assert found.baseline_accuracy == pytest.approx((targets == usual.argmax()).mean())
    assert found.baseline_loss == pytest.approx(-np.log(usual[targets]).mean())
    assert found.baseline_loss < math.log(VOCABULARY - SPECIAL)


def test_each_piece_hidden_in_turn() -> None:
    """Salazar et al. 2020, by a loop over one text."""
    bert = model().eval()
    stream = text(documents=1, length=29)
    losses = []
    row = torch.tensor([2, *stream[:30].astype(np.int64), 3])
    for place in range(1, 31):
        if row[place] < SPECIAL:
            continue
        hidden = row.clone()
        hidden[place] = PIECES.mask
        with torch.no_grad():
            losses.append(-bert(hidden[None])[0, place].log_softmax(-1)[row[place]].item())
    usual = frequencies(stream, PIECES)
    found = score(bert, stream, PIECES, usual, SINGLE, pseudo=30)
    assert found.pseudo_tokens == len(losses) == 28
    assert found.pseudo_perplexity == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    assert scored(bert, limit=100, pseudo=200).pseudo_tokens == pytest.approx(200, abs=40)


def test_without_pairs() -> None:
    found = scored(model(next_sentence="none"), SINGLE, pseudo=0)
    assert found.pairs == 0
    assert math.isnan(found.followed_accuracy)
    assert "followed_accuracy" not in found.values()
    assert "pseudo_perplexity" not in found.values()
    json.dumps(found.values(), allow_nan=False)


def test_the_same_gaps_each_time_and_the_model_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    bert = model().train()
    seen: list[tuple[str, int, int | None]] = []
    first = scored(bert, limit=600, pseudo=60, pace=Pace(progress=lambda *told: seen.append(told)))
    assert bert.training
    assert seen[-1] == ("scoring", 20, 20)
    assert first == scored(bert, limit=600, pseudo=60)
    monkeypatch.setattr(masked, "MAX_TOKENS", 96)
    again = scored(bert, limit=600, pseudo=60)
    assert again.values() == pytest.approx(first.values(), rel=1e-4)


def test_a_model_that_knows_is_right() -> None:
    """One that is told the answers: everything at its best."""

    class Knowing(torch.nn.Module):
        def forward(self, tokens: Tensor, present: Any = None, segments: Any = None) -> Tensor:
            return F.one_hot(tokens.clamp(min=SPECIAL), 16 * 4).float()

    bert = model()
    bert.encoder.forward = Knowing().forward  # type: ignore[method-assign]
    bert.head.forward = lambda x: 50 * x[..., :VOCABULARY]  # type: ignore[method-assign]
    bert.followed = lambda x: torch.tensor([[1.0, 0.0]]).expand(len(x), 2)  # type: ignore[method-assign]
    found = scored(bert, pseudo=0)
    # the tenth that stays is plain to see; [MASK] is taken for the first ordinary piece
    assert 0.1 < found.accuracy < 0.35
    assert found.followed_accuracy == pytest.approx(0.5, abs=0.2)

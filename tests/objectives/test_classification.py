"""Classification: batches by position, losses by their formulas, padding and splitting change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from qkv.data.encode import EncodedRows, encode_texts
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig
from qkv.objectives.classification import Classification, ClassificationConfig, class_weights
from small_tasks import sentences
from text.kinds import tokenizer

WORDS = tokenizer("wordpiece")
TEXTS = sentences(50)
TARGETS: dict[str, Any] = {
    "single": np.array([int(good) + 2 * (number % 7 == 0) for number, (_, good) in enumerate(TEXTS)], dtype=np.int32),
    "multi": np.array([[good, not good, len(text) > 50, True] for text, good in TEXTS]),
    "regression": np.array([len(text) / 10 for text, _ in TEXTS], dtype=np.float32),
}


def rows(pairs: bool = False) -> EncodedRows:
    return encode_texts(WORDS, [(text, "Stay" if pairs else None) for text, _ in TEXTS], 48, pairs=pairs)


def task(problem: str = "single", batch: int = 8, seed: int = 0, pairs: bool = False, **said: Any) -> Classification:
    return Classification(ClassificationConfig(**said), rows(pairs), TARGETS[problem], problem, batch, seed)


def model(problem: str, kind: str = "bert") -> torch.nn.Module:
    torch.manual_seed(3)
    shape: dict[str, Any] = {"vocabulary": WORDS.vocabulary, "width": 16, "context": 48}
    encoder: Any = BertConfig(layers=2, heads=2, **shape) if kind == "bert" else RecurrentEncoderConfig(**shape)
    labels = {"single": 4, "multi": 4, "regression": 1}[problem]
    made = ClassifierConfig(encoder=encoder, labels=tuple("abcd"[:labels]), problem=problem, pooling="max").build()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


@pytest.mark.parametrize("problem", TARGETS)
def test_batches_are_a_function_of_seed_and_position(problem: str) -> None:
    one, other = task(problem), task(problem)
    for first in (40, 0, 8, 3, 91):
        a, b = one.batch(first, 8), other.batch(first, 8)
        assert torch.equal(a.read.tokens, b.read.tokens)
        assert torch.equal(a.targets, b.targets)
    differently = task(problem, seed=1).batch(0, 8)
    assert not torch.equal(differently.targets, one.batch(0, 8).targets) or not torch.equal(
        differently.read.tokens, one.batch(0, 8).read.tokens
    )


def test_every_example_once_an_epoch() -> None:
    """Of 50 examples 48 fill batches of 8; the others have their turn in another epoch."""
    made = task()
    assert made.samples == 48
    for epoch in (0, 3):
        seen = np.concatenate([made.order.rows(epoch * 48 + 8 * step, 8) for step in range(6)])
        assert len(set(seen.tolist())) == 48
    whole = made.order.rows(0, 3 * 48)
    assert set(whole.tolist()) == set(range(50))
    assert np.array_equal(made.order.rows(44, 8), whole[44:52])  # over the border between epochs


def test_batches_are_of_about_one_length() -> None:
    made = task()
    spread = [np.ptp(made.rows.lengths[made.order.rows(8 * step, 8)]) for step in range(6)]  # type: ignore[union-attr]
    assert np.mean(spread) < np.ptp(rows().lengths) / 2


@pytest.mark.parametrize("problem", TARGETS)
@pytest.mark.parametrize("kind", ["bert", "lstm"])
@pytest.mark.parametrize("pairs", [False, True])
def test_padding_and_splitting_change_nothing(problem: str, kind: str, pairs: bool) -> None:
    """The loss of a batch is the sum over its examples, each read alone, without padding."""
    made, own = task(problem, pairs=pairs), model(problem, kind)
    batch = made.batch(0, 8)
    assert not batch.read.present.all()
    with torch.no_grad():
        whole = made.loss(own, batch)
        parts = sum(float(made.loss(own, part)) for part in batch.split(4))
        alone = sum(float(made.loss(own, made.batch(first, 1))) for first in range(8))
    assert sum(part.count for part in batch.split(3)) == batch.count == 8
    assert float(whole) == pytest.approx(parts, rel=1e-5)
    assert float(whole) == pytest.approx(alone, rel=1e-5)


def test_the_losses_are_those_of_the_formulas() -> None:
    single, multi, number = (task(problem) for problem in TARGETS)
    with torch.no_grad():
        batch = single.batch(0, 8)
        shares = batch.read.read_by(model("single")).softmax(-1)
        expected = -shares[torch.arange(8), batch.targets].log().sum()
        torch.testing.assert_close(single.loss(model("single"), batch), expected)
        batch = multi.batch(0, 8)
        shares = batch.read.read_by(model("multi")).sigmoid()
        right = torch.where(batch.targets.bool(), shares, 1 - shares)
        torch.testing.assert_close(multi.loss(model("multi"), batch), -right.log().sum() / 4)
        batch = number.batch(0, 8)
        gaps = batch.read.read_by(model("regression")).squeeze(-1) - batch.targets
        expected = gaps.square().sum() / float(TARGETS["regression"].var())
        torch.testing.assert_close(number.loss(model("regression"), batch), expected)


def test_class_weights() -> None:
    """Each class has the same sum of weights, the mean over the examples is one; an absent class is no trouble."""
    targets = np.array([0] * 9 + [2] * 3, dtype=np.int32)
    weights = class_weights(targets)
    assert weights[0] * 9 == pytest.approx(float(weights[2] * 3))
    assert weights[torch.from_numpy(targets).long()].mean() == pytest.approx(1.0)
    weighed = task(weights="balanced")
    batch = weighed.batch(0, 8)
    with torch.no_grad():
        logits = batch.read.read_by(model("single"))
        each = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none")
        expected = (each * class_weights(TARGETS["single"])[batch.targets]).sum()
        torch.testing.assert_close(weighed.loss(model("single"), batch), expected)


@pytest.mark.parametrize("problem", TARGETS)
def test_weights_by_length(problem: str) -> None:
    """A text counts as much as it is long, the mean is one, and a batch in parts has the loss of the whole."""
    weighed = task(problem, weights="length")
    lengths = torch.from_numpy(weighed.rows.lengths.astype(np.float32))
    torch.testing.assert_close(weighed.weights, lengths / lengths.mean())
    batch = weighed.batch(0, 8)
    torch.testing.assert_close(batch.weights, batch.read.present.sum(-1) / lengths.mean())
    with torch.no_grad():
        whole = weighed.loss(model(problem), batch)
        parts = [weighed.loss(model(problem), part) for part in batch.split(4)]
    torch.testing.assert_close(torch.stack(parts).sum(), whole)


def test_pictures_are_read_as_shares_of_white() -> None:
    pixels = np.arange(4 * 3 * 5, dtype=np.uint8).reshape(4, 3, 5)
    made = Classification(ClassificationConfig(), pixels, np.array([0, 1, 0, 1], dtype=np.int32), "single", 2, 0)
    batch = made.batch(0, 2)
    assert batch.read.values.shape == (2, 3, 5, 1)
    which = made.order.rows(0, 2)
    torch.testing.assert_close(batch.read.values[..., 0] * 255, torch.from_numpy(pixels[which]).float())

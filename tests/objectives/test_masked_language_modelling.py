"""BERT's task: what is hidden and how, pairs that are pairs, the same samples however a run is cut."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as some

from qkv.config import parse
from qkv.errors import ConfigError, DataError, InputError
from qkv.models.bert import BertConfig
from qkv.models.masked import Masked, MaskedConfig
from qkv.objectives import masked_language_modelling, order
from qkv.objectives.masked_language_modelling import (
    MaskedBatch,
    MaskedLanguageModelling,
    MaskedLanguageModellingConfig,
    MaskingVocabulary,
)
from qkv.objectives.objective import Batch, Objective
from qkv.training.loop import initial_state, train
from qkv.training.settings import TrainingConfig
from text.kinds import tokenizer

VOCABULARY, SPECIAL, MARK = (
    60,
    5,
    5,
)  # the specials are the first five, [PAD] [UNK] [CLS] [SEP] [MASK]; then a full stop
NUMBERS = np.arange(VOCABULARY)
PIECES = MaskingVocabulary(2, 3, 4, 0, NUMBERS >= SPECIAL, NUMBERS == MARK)
PAIRS, SINGLE = MaskedLanguageModellingConfig(), MaskedLanguageModellingConfig(next_sentence="none")


def text(documents: int = 12, length: int = 400, seed: int = 3) -> np.ndarray:
    """Documents of sentences; the second piece after a start says which document it is of."""
    random = np.random.default_rng(seed)
    rows: list[Any] = [[3]]
    for number in range(documents):
        body = random.integers(MARK + 1, VOCABULARY, length)
        body[::9] = MARK
        body[1::9] = MARK + 1 + number
        body[5] = 1  # an unknown one
        rows += [body, [3]]
    return np.concatenate(rows).astype(np.uint16)


def made(config: MaskedLanguageModellingConfig = PAIRS, context: int = 32, seed: int = 0, **of: int) -> Any:
    return MaskedLanguageModelling(config, text(**of), PIECES, context, seed)


def model(context: int = 32, next_sentence: Any = "linear") -> Masked:
    torch.manual_seed(0)
    pooler: Any = "first" if next_sentence == "linear" else "none"
    encoder = BertConfig(vocabulary=VOCABULARY, layers=1, heads=2, width=16, context=context, pooler=pooler)
    return MaskedConfig(encoder=encoder, next_sentence=next_sentence).build()


def within(found: int, of: int, share: float) -> bool:
    """Four and a half standard deviations of a binomial: one false alarm in a hundred thousand."""
    return abs(found - of * share) <= 4.5 * math.sqrt(of * share * (1 - share)) + 1


@pytest.mark.parametrize("config", [PAIRS, SINGLE, replace(PAIRS, share=0.4, masked=0.5, replaced=0.3)])
def test_what_is_hidden(config: MaskedLanguageModellingConfig) -> None:
    batch = made(config).batch(0, 4000)
    real = batch.present & (batch.targets >= SPECIAL)
    assert not (batch.predicted & ~real).any(), "special tokens and padding are never hidden"
    assert torch.equal(batch.tokens[~batch.predicted], batch.targets[~batch.predicted])
    count = int(batch.predicted.sum())
    assert batch.count == count
    assert within(count, int(real.sum()), config.share)
    assert batch.predicted.any(1).all(), "a sample without a question teaches nothing"
    before, after = batch.targets[batch.predicted], batch.tokens[batch.predicted]
    assert within(int((after == PIECES.mask).sum()), count, config.masked)
    changed = (after != before) & (after != PIECES.mask)
    ordinary = VOCABULARY - SPECIAL
    assert within(int(changed.sum()), count, config.replaced * (1 - 1 / ordinary)), "one in so many becomes itself"
    assert after[changed].min() >= SPECIAL
    assert len(after[changed].unique()) == ordinary
    places = zip(batch.predicted.sum(0)[1:-1].tolist(), real.sum(0)[1:-1].tolist(), strict=True)
    assert all(within(asked, of, config.share) for asked, of in places), "no place is favoured"


def test_single_texts() -> None:
    task = made(SINGLE)
    batch = task.batch(0, task.samples)
    assert batch.present.all()
    assert batch.segments.eq(0).all()
    assert batch.targets[:, 0].eq(2).all()
    assert batch.targets[:, -1].eq(3).all()
    assert task.samples * 30 >= len(task.stream) - 2 * 30


def test_an_epoch_shows_the_text_once_and_the_next_one_hides_others() -> None:
    stream = np.arange(SPECIAL + 1, SPECIAL + 1001)
    pieces = replace(PIECES, ordinary=np.arange(1100) >= SPECIAL, sentence_ends=np.arange(1100) == MARK)
    task = MaskedLanguageModelling(SINGLE, stream, pieces, 12, 3)
    batch = task.batch(0, task.samples)
    seen = batch.targets[:, 1:-1].flatten().tolist()
    assert len(seen) == len(set(seen)) >= 1000 - 2 * 10
    hidden, again = (
        set(each.targets[each.predicted].tolist()) for each in (batch, task.batch(task.samples, task.samples))
    )
    shared = len(hidden & again) / len(hidden)
    assert 0.05 < shared < 0.3, "about as many as by chance"


def test_pairs_are_laid_out() -> None:
    """[CLS] A [SEP] B [SEP], whole sentences in A, both from one document or from two; padding behind."""
    task = made()
    batch = task.batch(0, 2000)
    for row in range(200):
        ids = batch.targets[row].tolist()
        length = int(batch.present[row].sum())
        assert ids[0] == 2
        middle = ids.index(3)
        assert ids[length - 1] == 3
        assert ids[length:] == [0] * (32 - length)
        assert batch.segments[row].tolist() == [0] * (middle + 1) + [1] * (length - middle - 1) + [0] * (32 - length)
        assert 1 < middle < length - 2, "neither is empty"
    full = batch.present.all(1).float().mean()
    assert full > 0.8, "the context is filled"


def origin(stream: np.ndarray, ids: list[int]) -> int:
    """Where a run of ids stands in a stream of distinct ones."""
    place = int(np.flatnonzero(stream == ids[0])[0])
    assert stream[place : place + len(ids)].tolist() == ids
    return place


def distinct(documents: int, length: int = 300) -> tuple[np.ndarray, MaskingVocabulary]:
    """A stream in which every piece but separators and marks stands once."""
    body = np.arange(MARK + 1, MARK + 1 + documents * length).reshape(documents, length)
    rows = [np.append(np.insert(row, range(7, length, 7), MARK), 3) for row in body]
    ids = np.arange(body.max() + 1)
    return np.concatenate([[3], *rows]), replace(PIECES, ordinary=ids >= SPECIAL, sentence_ends=ids == MARK)


@pytest.mark.parametrize("documents", [1, 2, 9])
def test_half_of_the_pairs_follow(documents: int) -> None:
    stream, pieces = distinct(documents)
    task = MaskedLanguageModelling(PAIRS, stream, pieces, 40, 5)
    batch = task.batch(0, 1500)
    border = np.cumsum(stream == 3)
    assert within(int(batch.unrelated.sum()), 1500, 0.5)
    for row, strange in zip(batch.targets.tolist(), batch.unrelated.tolist(), strict=True):
        middle = row.index(3)
        end = row.index(3, middle + 1)
        one, two = origin(stream, row[1:middle]), origin(stream, row[middle + 1 : end])
        assert row[middle - 1] == MARK, "A is of whole sentences"
        assert stream[two - 1] in (MARK, 3), "B begins with one"
        if not strange:
            assert two == one + middle - 1
            assert border[one] == border[two]
        elif documents > 1:
            assert border[one] != border[two]
        else:
            assert abs(two - one) > 40


def test_an_epoch_of_pairs_covers_the_text() -> None:
    stream, pieces = distinct(6)
    task = MaskedLanguageModelling(PAIRS, stream, pieces, 40, 5)
    seen = task.batch(0, task.samples).targets
    shown = np.isin(np.arange(len(pieces.ordinary))[SPECIAL + 1 :], seen.numpy()).mean()
    assert shown > 0.7
    assert task.samples == pytest.approx(len(stream) / 37, abs=2)


@given(
    ids=some.lists(some.sampled_from([3, 3, MARK, MARK, 7, 8, 9]), min_size=2, max_size=120),
    context=some.integers(5, 20),
    seed=some.integers(0, 3),
)
def test_any_text(ids: list[int], context: int, seed: int) -> None:
    stream = np.array([3, *ids, 3], dtype=np.uint16)
    found = masked_language_modelling.find_sentences(stream, 3, PIECES.sentence_ends, max(1, (context - 3) // 2))
    documents = [part for part in "".join(chr(n) for n in ids).split(chr(3)) if len(part) > 1]
    assert len(found.ends) == len(documents)
    assert (np.diff(found.first) >= 2).all()
    assert [int(end - found.starts[first]) for end, first in zip(found.ends, found.first[:-1], strict=True)] == [
        len(part) for part in documents
    ]
    for config in (PAIRS, SINGLE):
        if config is PAIRS and not documents:
            with pytest.raises(DataError, match="no document of two tokens"):
                MaskedLanguageModelling(config, stream, PIECES, context, seed)
            continue
        task = MaskedLanguageModelling(config, stream, PIECES, context, seed)
        batch = task.batch(0, 2 * task.samples + 1)
        assert batch.tokens.shape == (2 * task.samples + 1, context)
        separators = (batch.targets == 3).sum(1)
        assert (separators == 2).all() if config is PAIRS else (separators >= 1).all()


def test_sentences_of_a_small_text() -> None:
    stream = np.array([3, 9, 9, MARK, MARK, 8, 3, 7, 3, 9, 9, 9, 9, 9, 9, 9, MARK, 3])
    found = masked_language_modelling.find_sentences(stream, 3, PIECES.sentence_ends, 4)
    assert found.starts.tolist() == [1, 5, 9, 13], "a run of marks is one end; a long sentence is cut; 7 is alone"
    assert (found.document.tolist(), found.first.tolist(), found.ends.tolist()) == ([0, 0, 1, 1], [0, 2, 4], [6, 17])


@pytest.mark.parametrize("config", [PAIRS, SINGLE])
def test_samples_do_not_depend_on_how_batches_are_cut(config: MaskedLanguageModellingConfig) -> None:
    whole = made(config).batch(0, 600)
    parts = [made(config).batch(first, 60) for first in range(0, 600, 60)]
    for name in ("tokens", "targets", "predicted", "present", "segments", "unrelated"):
        assert torch.equal(getattr(whole, name), torch.cat([getattr(part, name) for part in parts])), name
    assert not torch.equal(whole.tokens, made(config, seed=1).batch(0, 600).tokens)


def test_noise_is_even_and_the_same_on_every_machine() -> None:
    assert order.noise(0, 1, 2).tolist() == GOLDEN_NOISE
    assert not np.array_equal(order.noise(0, 1), order.noise(1, 0))
    found = order.noise(7, np.arange(200)[:, None], np.arange(500))
    assert found.shape == (200, 500)
    counts = np.histogram(found, 50, (0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 100, "chi² with 49 degrees of freedom"
    assert abs(np.corrcoef(found[:-1].ravel(), found[1:].ravel())[0, 1]) < 0.02


def test_the_loss_is_the_sum_of_two_means() -> None:
    task, bert = made(), model().eval()
    batch = task.batch(3, 8)
    logits = bert(batch.tokens, batch.present, batch.segments)
    hidden = F.cross_entropy(logits[batch.predicted], batch.targets[batch.predicted])
    x = bert.encoder(batch.tokens, batch.present, batch.segments)
    pairs = F.cross_entropy(bert.followed(x), batch.unrelated)
    torch.testing.assert_close(task.loss(bert, batch) / batch.count, hidden + pairs)
    single, plain = made(SINGLE), model(next_sentence="none").eval()
    batch = single.batch(3, 8)
    expected = F.cross_entropy(plain(batch.tokens)[batch.predicted], batch.targets[batch.predicted], reduction="sum")
    torch.testing.assert_close(single.loss(plain, batch), expected)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_splitting_keeps_the_loss(parts: int) -> None:
    task, bert = made(), model().eval()
    batch = task.batch(5, 8)
    assert isinstance(task, Objective)
    assert isinstance(batch, Batch)
    pieces = list(batch.to("cpu").split(parts))
    assert len(pieces) == parts
    assert sum(part.count for part in pieces) == batch.count
    torch.testing.assert_close(sum(task.loss(bert, part) for part in pieces), task.loss(bert, batch))


def test_padding_costs_nothing() -> None:
    """Short documents: the batch keeps the context's width, the model sees what is needed."""
    task = MaskedLanguageModelling(PAIRS, text(documents=20, length=8), PIECES, 32, 0)
    batch = task.batch(0, 16)
    assert batch.tokens.shape == (16, 32)
    assert batch.trimmed().tokens.shape == (16, 12)
    bert = model().eval()
    seen: list[int] = []
    bert.encoder.register_forward_hook(lambda module, given, made: seen.append(made.size(1)))
    assert torch.isfinite(task.loss(bert, batch))
    assert seen == [12]


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_it_learns(optimizer: Any) -> None:
    """Sentences that count upwards: a hidden piece stands between its neighbours."""
    body = np.tile(np.append(np.arange(10, 20), MARK), 200)
    stream = np.concatenate([[3], body, [3], body + 20 * (body > MARK), [3]])
    config = TrainingConfig(
        steps=120,
        batch=16,
        optimizer=optimizer,
        learning_rate=0.01,
        matrix_learning_rate=0.02,
        warmup=5,
        device="cpu",
        dtype="f32",
    )
    task, state = MaskedLanguageModelling(PAIRS, stream, PIECES, 24, 0), initial_state(model(24), config)
    losses = [step.loss for step in train(state, task, config)]
    assert losses[-1] < 0.6 * losses[0]


def test_a_tokenizer_that_hides() -> None:
    own = tokenizer("wordpiece")
    pieces = MaskingVocabulary.of(own)
    assert (pieces.padding, pieces.opening, pieces.separator, pieces.mask) == (0, 2, 3, 4)
    assert pieces.ordinary.sum() == own.vocabulary - 5
    assert {own.token(int(number)) for number in np.flatnonzero(pieces.sentence_ends)} == {".", "!", "?", "…"}
    with pytest.raises(InputError, match=r"a bpe tokenizer without \[MASK\] and \[PAD\].*--tokenizer wordpiece"):
        MaskingVocabulary.of(tokenizer("bpe"))


def test_what_cannot_be() -> None:
    with pytest.raises(DataError, match="of 4 has no room"):
        made(context=4)
    with pytest.raises(ConfigError, match="together no more than 1"):
        parse(MaskedLanguageModellingConfig, {"masked": 0.9, "replaced": 0.2}, "recipe.toml")
    assert isinstance(made().batch(0, 2), MaskedBatch)


GOLDEN_NOISE = [0.36693645258002827]

"""Tagging: a target at each word's first piece and nowhere else; padding and splitting change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qkv.data.encode import encode_words
from qkv.models.bert import BertConfig
from qkv.models.tagger import TaggerConfig
from qkv.objectives.classification import NO_TARGET, Tagging, TaggingConfig, words_of
from small_tasks import sentences
from text.kinds import tokenizer

WORDS = tokenizer("wordpiece")
SENTENCES = [text.split() for text, _ in sentences(40)]
TAGS = np.array([len(word) % 5 for words in SENTENCES for word in words], dtype=np.int32)


def task(context: int = 48, seed: int = 0) -> Tagging:
    return Tagging(TaggingConfig(), encode_words(WORDS, SENTENCES, context), TAGS, 8, seed)


def model() -> torch.nn.Module:
    torch.manual_seed(2)
    encoder = BertConfig(vocabulary=WORDS.vocabulary, layers=2, heads=2, width=16, context=48)
    made = TaggerConfig(encoder=encoder, labels=tuple("abcde")).build()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def test_batches_are_a_function_of_seed_and_position() -> None:
    one, other = task(), task()
    for first in (32, 0, 5, 77):
        a, b = one.batch(first, 8), other.batch(first, 8)
        assert torch.equal(a.read.tokens, b.read.tokens)
        assert torch.equal(a.targets, b.targets)
    assert not torch.equal(task(seed=1).batch(0, 40).targets, one.batch(0, 40).targets)


@pytest.mark.parametrize("context", [48, 12])
def test_every_word_once_an_epoch(context: int) -> None:
    """Also where sentences are read in parts."""
    made = task(context)
    rows = made.order.rows(0, made.samples)
    assert len(set(rows.tolist())) == made.samples
    found = {word for row in rows.tolist() for word in range(*words_of(made.rows, row)[:2])}
    left = set(range(len(made.rows))) - set(rows.tolist())
    assert len(found) + sum(len(words_of(made.rows, row)[2]) for row in left) == len(TAGS)
    batch = made.batch(0, 8)
    for place, row in enumerate(made.order.rows(0, 8).tolist()):
        begin, end, places = words_of(made.rows, row)
        assert batch.targets[place, places].tolist() == TAGS[begin:end].tolist()
        assert int((batch.targets[place] != NO_TARGET).sum()) == end - begin


def test_padding_and_splitting_change_nothing() -> None:
    made, own = task(), model()
    batch = made.batch(0, 8)
    assert not batch.read.present.all()
    with torch.no_grad():
        whole = float(made.loss(own, batch))
        assert whole == pytest.approx(sum(float(made.loss(own, part)) for part in batch.split(4)), rel=1e-5)
        assert whole == pytest.approx(sum(float(made.loss(own, made.batch(n, 1))) for n in range(8)), rel=1e-5)
    assert sum(part.count for part in batch.split(4)) == batch.count

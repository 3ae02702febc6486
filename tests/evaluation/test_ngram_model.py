"""The n-gram model: counts done by hand, probabilities that sum to one, orders that help on real text."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from data_at_hand import real
from qkv.evaluation.ngram_model import count_ngrams, estimate_discounts, probabilities, sorted_unique

A, B, C = 0, 1, 2


def next_token(known: list[int], vocabulary: int, order: int, context: list[int]) -> np.ndarray:
    """p(w | context) for every w, by each order: (order, vocabulary)."""
    place, reach = np.array([len(context)]), np.array([99])
    asked = [np.array([*context, token]) for token in range(vocabulary)]
    columns = [probabilities(np.array(known), vocabulary, order, tokens, place, reach) for tokens in asked]
    return np.concatenate(columns, axis=1)


def test_a_bigram_by_hand() -> None:
    """a b a b a c, four pieces: too short to estimate discounts, so 1/2 off a count of one, 3/4 off more.

    Bigrams ab 2, ba 2, ac 1. Different tokens before a: 1 (b), before b: 1 (a), before c: 1 (a); together 3.
    """
    known = [A, B, A, B, A, C]
    saved = 3 * 0.5 / 3
    lowest = dict.fromkeys((A, B, C), (1 - 0.5) / 3 + saved / 4) | {3: saved / 4}
    found = next_token(known, 4, 2, [A])[1]
    for token, count in {A: 0, B: 2, C: 1, 3: 0}.items():
        discount = {0: 0.0, 1: 0.5, 2: 0.75}[count]
        assert found[token] == pytest.approx((count - discount) / 3 + (0.75 + 0.5) / 3 * lowest[token])
    assert next_token(known, 4, 2, [3])[1] == pytest.approx([lowest[token] for token in range(4)])


def test_single_tokens_by_hand() -> None:
    """a a b and three pieces: two were new, so 2/5 goes to all alike."""
    assert next_token([A, A, B], 3, 1, [])[0] == pytest.approx([(2 + 2 / 3) / 5, (1 + 2 / 3) / 5, (2 / 3) / 5])


def test_discounts_by_hand() -> None:
    """Chen and Goodman's formulas on 40 counts of one, 20 of two, 10 of three and 5 of four: Y = 1/2."""
    counts = np.repeat([1, 2, 3, 4], [40, 20, 10, 5])
    assert estimate_discounts(counts) == pytest.approx(
        [0, 1 - 2 * 0.5 * 20 / 40, 2 - 3 * 0.5 * 10 / 20, 3 - 4 * 0.5 * 5 / 10]
    )


def test_counts_by_hand() -> None:
    one, two, three = count_ngrams(np.array([A, B, A, B, C]), 3, 3)
    assert one.occurrences.counts.tolist() == [2, 2, 1]
    assert two.keys.tolist() == [A * 3 + B, B * 3 + A, B * 3 + C]
    assert two.occurrences.counts.tolist() == [2, 1, 1]
    assert two.continuations is not None
    assert two.continuations.counts.tolist() == [1, 1, 1]
    assert three.occurrences.counts.tolist() == [1, 1, 1]  # aba, abc, bab: ab is number 0, ba number 1
    assert three.continuations is not None
    assert three.continuations.counts.tolist() == [1, 1, 1]


@given(
    known=some.lists(some.integers(0, 5), min_size=1, max_size=60),
    context=some.lists(some.integers(0, 6), max_size=5),
    order=some.integers(1, 6),
)
def test_probabilities_sum_to_one(known: list[int], context: list[int], order: int) -> None:
    found = next_token(known, 7, order, context)
    assert found.shape == (order, 7)
    assert found.sum(axis=1) == pytest.approx(np.ones(order))
    assert (found > 0).all()


@given(
    known=some.lists(some.integers(0, 5), min_size=1, max_size=60), tokens=some.lists(some.integers(0, 6), min_size=9)
)
def test_no_more_is_seen_than_the_reach(known: list[int], tokens: list[int]) -> None:
    """An n-gram model that may look back one token is a bigram model, whatever its order."""
    places = np.arange(1, len(tokens))
    found = probabilities(np.array(known), 7, 5, np.array(tokens), places, np.full(len(places), 1))
    for order in range(2, 5):
        assert found[order] == pytest.approx(found[1])


@given(some.lists(some.integers(0, 2**61 - 1), min_size=1, max_size=50), some.integers(0, 60))
def test_ranked_is_unique(keys: list[int], shift: int) -> None:
    array = np.array(keys, dtype=np.int64) >> shift
    for own, numpys in zip(
        sorted_unique(array), np.unique(array, return_inverse=True, return_counts=True), strict=True
    ):
        assert own.tolist() == numpys.tolist()


@given(some.integers(0, 2**31), some.integers(2, 20))
def test_on_its_own_text_counting_beats_guessing(seed: int, vocabulary: int) -> None:
    tokens = np.random.default_rng(seed).integers(0, vocabulary, 300)
    places = np.arange(1, 300)
    losses = -np.log(probabilities(tokens, vocabulary, 4, tokens, places, places)).mean(axis=1)
    assert losses[0] <= math.log(vocabulary)
    assert (np.diff(losses) <= 1e-9).all()


def test_noise_is_not_learned() -> None:
    """On fresh noise the frequencies are as good as guessing, and the pairs of so much text nearly so."""
    random = np.random.default_rng(3)
    known, tokens = random.integers(0, 30, 50_000), random.integers(0, 30, 5_000)
    places = np.arange(1, 5_000)
    losses = -np.log(probabilities(known, 30, 2, tokens, places, places)).mean(axis=1)
    assert losses == pytest.approx(math.log(30), rel=0.02)


def test_real_text() -> None:
    """Tiny Shakespeare: each order helps, the best is near two bits a character, and it takes a moment."""
    text = real("tinyshakespeare/input.txt").read_text()
    tokens = np.unique(np.frombuffer(text.encode("utf-32-le"), dtype="<u4"), return_inverse=True)[1]
    cut = int(0.9 * len(tokens))
    places = np.arange(1, len(tokens) - cut)
    began = time.process_time()
    bits = -np.log2(probabilities(tokens[:cut], 65, 6, tokens[cut:], places, places)).mean(axis=1)
    assert time.process_time() - began < 3
    assert (np.diff(bits) < 0).all()
    assert bits == pytest.approx([4.83, 3.58, 2.94, 2.48, 2.25, 2.20], abs=0.01)

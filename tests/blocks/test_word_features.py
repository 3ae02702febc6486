"""Words from tokens, their features, and what the sums of features are."""

from __future__ import annotations

import copy

import pytest
import torch

from qkv.blocks.word_features import (
    FEATURES,
    FIXED,
    FORM,
    GENERAL,
    LONGEST_TOKEN,
    Spelling,
    WordFeatures,
    at_tokens,
    features,
)

TOKENS = [b"", b" walk", b"ed", b" Walk", b" it", b"'s", b" \xc3", b"\xa9t\xc3\xa9", b"x" * 90]


def spelling() -> Spelling:
    made = Spelling(len(TOKENS))
    made.spell(TOKENS)
    return made


def test_features_are_the_form_the_affixes_the_shape_and_the_letters() -> None:
    found = features("McGill99")
    assert found[:GENERAL] == [
        "shape=AaAaaa00", "short=AaAa0",
        "prefix=m", "prefix=mc", "prefix=mcg", "suffix=9", "suffix=99", "suffix=l99",
    ]  # fmt: skip
    assert found[GENERAL:FIXED] == ["form=McGill99", "lower=mcgill99", "prefix=mcgi", "suffix=ll99"]
    assert found[FORM] == "lower=mcgill99"
    assert {"letters=<mc", "letters=l99>"} <= set(found[FIXED:])
    assert features("ab")[2:GENERAL] == ["prefix=a", "prefix=ab", "", "suffix=b", "suffix=ab", ""]
    assert features("ab")[GENERAL:FIXED] == ["form=ab", "lower=ab", "", ""]


def test_tokens_are_grouped_into_words() -> None:
    tokens = torch.tensor([[0, 1, 2, 4, 5, 1, 2], [3, 2, 6, 7, 0, 0, 0]])
    present = torch.arange(7) < torch.tensor([[7], [4]])
    words = spelling()(tokens, present)
    assert words.present.tolist() == [[True] * 4, [True, True, False, False]]
    assert words.which[0].tolist() == [0, 1, 2, 1]  # the special token, walked, it's, walked
    assert words.of_token.tolist() == [[0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 1, 1, 1]]
    same = {hash_ for hash_ in words.features[1].tolist() if hash_} & set(words.features[3].tolist())
    assert len(same) > 8  # walked, Walked


def test_a_word_is_what_it_is_written_however_it_is_cut() -> None:
    made = Spelling(4)
    made.spell([b" walked", b" wal", b"ked", b" \xc3\xa9t\xc3\xa9"])
    words = made(torch.tensor([[0, 1, 2]]))
    assert torch.equal(words.features[0], words.features[1])
    split = spelling()(torch.tensor([[6, 7]]))
    assert torch.equal(split.features[0], made(torch.tensor([[3]])).features[0])  # été, cut inside a character


def test_tokens_without_a_spelling_are_known_by_their_number() -> None:
    words = Spelling(5)(torch.tensor([[1, 2, 1]]))
    assert words.which.tolist() == [[0, 1, 0]]
    assert not torch.equal(words.features[0], words.features[1])
    assert int((words.features[0] != 0).sum()) == 1


def test_long_tokens_and_words_fit() -> None:
    made = spelling()
    assert bytes(made.spelling[8].tolist()) == b"x" * LONGEST_TOKEN
    words = made(torch.tensor([[8, 8, 8]]))
    assert words.features.shape == (1, FEATURES)
    assert made(torch.zeros(1, 0, dtype=torch.long)).which.shape == (1, 1)


def test_the_spelling_comes_with_the_weights() -> None:
    made, other = spelling(), Spelling(len(TOKENS))
    tokens = torch.tensor([[1, 2, 3]])
    before = other(tokens)
    other.load_state_dict(made.state_dict())
    assert torch.equal(other(tokens).features, made(tokens).features)
    assert not torch.equal(before.features, made(tokens).features)
    assert torch.equal(copy.deepcopy(made)(tokens).features, made(tokens).features)


def test_a_vector_is_the_sum_of_its_features() -> None:
    torch.manual_seed(0)
    made = WordFeatures(len(TOKENS), 6, rows=50)
    made.words.spell(TOKENS)
    words = made.words(torch.tensor([[1, 2, 4]]))
    fixed, grams = ([1 + hash_ % 49 for hash_ in part if hash_] for part in _parts(words.features[0].tolist()))
    table = made.table.weight
    expected = (table[fixed].sum(0) + table[grams].sum(0) / len(grams) ** 0.5) / (1 + len(fixed)) ** 0.5
    vectors = made(words)
    assert vectors.shape == (1, 2, 6)
    torch.testing.assert_close(vectors[0, 0], expected)
    torch.testing.assert_close(at_tokens(vectors, words)[0, 1], expected)


@pytest.mark.parametrize("training", [True, False])
def test_in_training_words_lose_what_tells_which_they_are(training: bool) -> None:
    """Two words of one shape and with the same short affixes."""
    torch.manual_seed(0)
    made = WordFeatures(2, 6, rows=5000, dropout=0.99999).train(training)
    made.words.spell([b" abcxxxdef", b" abcyyydef"])
    one, other = made(made.words(torch.tensor([[0, 1]])))[0]
    assert torch.equal(one, other) == training
    assert one.any()


def _parts(hashes: list[int]) -> tuple[list[int], list[int]]:
    return hashes[:FIXED], hashes[FIXED:]

"""Pieces that know how they are spelled."""

from __future__ import annotations

import torch

from qkv.blocks.embeddings import MAX_GRAMS, SpelledEmbedding, ngrams


def test_ngrams_are_those_of_the_word_with_its_borders() -> None:
    assert set(ngrams("ab")) == {"<ab>", "<ab", "ab>", "<a", "ab", "b>"}
    assert ngrams("") == []
    assert ngrams("walked")[0] == "lked>"  # endings first: they are kept where there are too many


def test_a_vector_is_the_piece_and_the_mean_of_its_ngrams() -> None:
    torch.manual_seed(0)
    made = SpelledEmbedding(4, 8, rows=50)
    made.spell(["", "walk", "walks", "sun"])
    found = made(torch.tensor([[1, 0, 1]]))
    rows = made.spelling[1][made.spelling[1] != 0]
    assert len(rows) == len(ngrams("walk"))
    expected = made.pieces.weight[1] + made.letters.weight[rows].mean(0)
    assert torch.allclose(found[0, 0], expected, atol=1e-6)
    assert torch.equal(found[0, 0], found[0, 2])
    assert torch.equal(found[0, 1], made.pieces.weight[0])  # not spelled


def test_words_with_a_common_stem_share_rows() -> None:
    made = SpelledEmbedding(3, 4, rows=5000)
    made.spell(["walks", "walked", "bright"])
    rows = [set(made.spelling[number].tolist()) - {0} for number in range(3)]
    assert len(rows[0] & rows[1]) > len(rows[0] & rows[2])


def test_long_pieces_fit_and_the_table_comes_with_the_weights() -> None:
    made = SpelledEmbedding(1, 4, rows=100)
    made.spell(["a" + "bcdefghij" * 9])
    assert int((made.spelling != 0).sum()) == MAX_GRAMS
    other = SpelledEmbedding(1, 4, rows=100)
    other.load_state_dict(made.state_dict())
    assert torch.equal(other(torch.tensor([[0]])), made(torch.tensor([[0]])))


def test_gradients_leave_the_empty_row_alone() -> None:
    made = SpelledEmbedding(2, 4, rows=100)
    made.spell(["ab", "abc"])
    made(torch.tensor([[0, 1]])).sum().backward()
    assert made.letters.weight.grad is not None
    assert not made.letters.weight.grad[0].any()
    assert made.letters.weight.grad.any()

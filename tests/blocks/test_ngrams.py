"""The n-grams of texts, against a plain loop over their words; and the product of sparse rows."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.blocks.ngrams import BLANK, LETTER, SYMBOL, Characters, Ngrams, kind_of, letter_ngrams, word_ngrams
from qkv.blocks.sparse_rows import SparseRows, product

TEXTS = st.lists(st.text("ab1_ .!é\n中文", max_size=12), min_size=1, max_size=4)


def characters(texts: list[str], second: list[bool] | None = None, rows: list[int] | None = None) -> Characters:
    """Each text with a blank behind it, as a special token is."""
    numbers = list(range(len(texts))) if rows is None else rows
    places = [(number, letter) for number, text in enumerate(texts) for letter in (*text, " ")]
    late = None if second is None else torch.tensor([second[number] for number, _ in places])
    return Characters(
        torch.tensor([ord(letter.lower()) for _, letter in places]),
        torch.tensor([kind_of(letter) for _, letter in places]),
        torch.tensor([numbers[number] for number, _ in places]),
        late,
    )


def words(text: str) -> list[str]:
    return re.findall(r"[中文]|[ab1_é]+|[.!]", text)


def counted(grams: Ngrams) -> Counter[tuple[int, int]]:
    return Counter(zip(grams.rows.tolist(), grams.keys.tolist(), strict=True))


def same(grams: Ngrams, expected: list[tuple[int, tuple[str, ...]]]) -> bool:
    """Whether there is one key for each n-gram, as often in each text."""
    found = counted(grams)
    names = Counter(expected)
    by_key: dict[int, Counter[int]] = {}
    by_name: dict[tuple[str, ...], Counter[int]] = {}
    for (row, key), count in found.items():
        by_key.setdefault(key, Counter())[row] = count
    for (row, name), count in names.items():
        by_name.setdefault(name, Counter())[row] = count
    order = [sorted(table.items()) for table in by_key.values()]
    return sorted(order) == sorted(sorted(table.items()) for table in by_name.values())


@given(TEXTS)
def test_words(texts: list[str]) -> None:
    expected = [
        (row, tuple(own[at : at + n]))
        for row, own in enumerate(map(words, texts))
        for n in (1, 2, 3)
        for at in range(len(own) - n + 1)
    ]
    assert same(word_ngrams(characters(texts), 3), expected)


@given(TEXTS)
def test_letters(texts: list[str]) -> None:
    """As scikit-learn's char_wb: a blank stands on both sides of a word."""
    expected = [
        (row, (f" {word} "[at : at + n],))
        for row, text in enumerate(texts)
        for word in words(text)
        if kind_of(word[0]) == LETTER
        for n in range(2, 5)
        for at in range(len(word) + 3 - n)
    ]
    assert same(letter_ngrams(characters(texts), 4), expected)


def test_the_same_ngram_has_the_same_key_anywhere() -> None:
    one, other = (word_ngrams(characters([text]), 2).keys for text in ("the cat", "a dog saw the cat sleep"))
    assert set(one.tolist()) < set(other.tolist())
    upper = word_ngrams(characters(["THE Cat"]), 2).keys
    assert torch.equal(upper, one)


def test_places_are_those_of_the_last_character() -> None:
    grams = word_ngrams(characters(["ab c", "d"]), 2)
    assert sorted(grams.places.tolist()) == [1, 3, 3, 5]
    assert set(letter_ngrams(characters(["ab c", "d"]), 5).places.tolist()) == {0, 1, 3, 5}


def test_pairs_have_keys_of_their_own_and_of_what_they_share() -> None:
    texts = ["the cat", "the dog", "the cat", "the cat"]
    grams = counted(word_ngrams(characters(texts, second=[False, True, False, True], rows=[0, 0, 1, 1]), 1))
    of = [{key for row, key in grams if row == number} for number in (0, 1)]
    assert len(of[0]) == 2 + 2 + 1 + 1  # words of the first and of the second text, "the" in both, the share
    assert len(of[1]) == 2 + 2 + 2 + 1
    assert len(of[0] & of[1]) == 2 + 1 + 1  # the, cat; the in the second; the in both


KINDS = {"a": LETTER, "_": LETTER, "é": LETTER, "7": LETTER, " ": BLANK, "\n": BLANK, "!": SYMBOL, "中": SYMBOL}


@pytest.mark.parametrize(("character", "kind"), KINDS.items())
def test_kinds(character: str, kind: int) -> None:
    assert kind_of(character) == kind


def test_nothing_to_count() -> None:
    for texts in ([""], ["  ", "\n"], ["!"]):
        assert len(letter_ngrams(characters(texts), 3).keys) == 0
    assert len(word_ngrams(characters(["", " "]), 2).keys) == 0


def test_a_product_of_sparse_rows_and_its_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(7, 9, generator=generator)
    dense[dense < 0.6] = 0
    row, column = dense.nonzero(as_tuple=True)
    starts = torch.searchsorted(row, torch.arange(8)).int()
    rows = SparseRows(starts, column.int(), dense[row, column], 9)
    matrix = torch.rand(9, 3, generator=generator, requires_grad=True)
    gradient = torch.rand(7, 3, generator=generator)
    product(rows, matrix).backward(gradient)
    torch.testing.assert_close(product(rows, matrix), dense @ matrix)
    torch.testing.assert_close(matrix.grad, dense.T @ gradient)
    chosen = torch.tensor([4, 0, 6])
    torch.testing.assert_close(product(rows.select(chosen), matrix), dense[chosen] @ matrix)

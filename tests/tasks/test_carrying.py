"""Strange words survive: which they are, where they go, and that all else is left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from qkv.inspection.translator_heads import Alignment
from qkv.tasks.translation.predict import UnseenWord, carry_over, contains_word, is_unseen, unseen_words
from qkv.text.decoding import Words
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import train_tokenizer

SYLLABLES = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "rd", "st", "ll", "m", "ü")]


def texts() -> Iterator[str]:
    """Words of two syllables, the second one of a few."""
    for number, first in enumerate(SYLLABLES):
        for second in SYLLABLES[number % 7 : 70 : 7]:
            yield f"ein {first}{second} und {first.capitalize()}{second} 7"


@pytest.fixture(scope="module")
def pieces() -> Tokenizer:
    found = train_tokenizer(TokenizerConfig(kind="bpe", size=2600), texts())
    assert found.vocabulary >= 2000
    return found


@pytest.mark.parametrize("word", ["4711", "3.141", "東京", "🍕", "Zbigniew", "O’Xhyquvz", "naïve"])
def test_strange(pieces: Tokenizer, word: str) -> None:
    assert is_unseen(pieces, word)


@pytest.mark.parametrize("word", ["ein", "Banban", "und", "7", "bü", "Bü", "xyz", "zbigniew"])
def test_known(pieces: Tokenizer, word: str) -> None:
    assert not is_unseen(pieces, word)


def test_a_small_vocabulary_cuts_everything_and_shows_no_names() -> None:
    small = train_tokenizer(TokenizerConfig(kind="bpe", size=300), texts())
    assert not is_unseen(small, "Zbigniew")
    assert is_unseen(small, "4711")


def test_words_and_characters_that_are_not_in_the_vocabulary() -> None:
    words = train_tokenizer(TokenizerConfig(kind="words"), ["one two three"] * 3)
    assert is_unseen(words, "four")
    assert not is_unseen(words, "two")
    characters = train_tokenizer(TokenizerConfig(kind="characters"), ["one two three é"] * 3)
    assert is_unseen(characters, "東")
    assert not is_unseen(characters, "é")


def test_units(pieces: Tokenizer) -> None:
    found = unseen_words(pieces, "ein (Zbigniew), 3.141 🍕. und 東京!")
    assert found == [
        UnseenWord("Zbigniew", [2]),
        UnseenWord("3.141", [5, 6, 7]),
        UnseenWord("🍕", [8]),
        UnseenWord("東京", [11]),
    ]


def test_what_is_there_is_not_lost() -> None:
    assert contains_word("for Zbigniew's dog", "Zbigniew")
    assert contains_word("it has 1,000 dogs", "1.000")
    assert contains_word("は東京で", "東京")
    assert not contains_word("1000 dogs", "10")
    assert not contains_word("1,000 dogs", "10")


def looks(source: str, target: str, *nearest: int) -> Alignment:
    shares = torch.full((len(target.split()), len(source.split())), 0.01)
    for row, place in enumerate(nearest):
        shares[row, place] = 0.9
    sides = (Words(text.split(), list(range(len(text.split()))), text.split()) for text in (source, target))
    return Alignment(*sides, shares)


def test_a_lost_word_takes_the_place_of_what_was_written_for_it() -> None:
    alignment = looks("ein Hund 4711 läuft", "a dog so much runs", 0, 1, 2, 2, 3)
    assert carry_over("a dog so much runs", [UnseenWord("4711", [2])], alignment) == ("a dog 4711 runs", ["4711"])
    assert carry_over("a dog 4711 much runs", [UnseenWord("4711", [2])], alignment) == ("a dog 4711 much runs", [])


def test_marks_stay_where_they_are() -> None:
    alignment = looks("ein Hund 東京 .", "a dog town .", 0, 1, 2, 2)
    assert carry_over("a dog town.", [UnseenWord("東京", [2])], alignment) == ("a dog 東京.", ["東京"])


def test_for_which_nothing_was_written_goes_before_the_word_that_looked_at_it_most() -> None:
    alignment = looks("ein Hund 4711 läuft", "a dog runs", 0, 1, 3)
    alignment.shares[2, 2] = 0.3
    assert carry_over("a dog runs", [UnseenWord("4711", [2])], alignment) == ("a dog 4711 runs", ["4711"])


def test_several_never_overwrite_each_other() -> None:
    """One has a run of words, one none, and all that is left is that run."""
    alignment = looks("Zbigniew 3.141 東京", "so so so", 2, 2, 2)
    units = [UnseenWord("Zbigniew", [0]), UnseenWord("3.141", [1]), UnseenWord("東京", [2])]
    text, words = carry_over("so so so", units, alignment)
    assert words == ["Zbigniew", "3.141", "東京"]
    assert sorted(text.split()) == sorted(words)


def test_without_words_nothing_is_placed() -> None:
    alignment = looks("ein 4711", "a b", 0, 1)
    assert carry_over("", [UnseenWord("4711", [1])], alignment) == ("", [])
    assert carry_over("a b c", [UnseenWord("4711", [1])], alignment) == ("a b c", [])

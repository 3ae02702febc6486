"""Examples as rows of ids: what goes around them, what is cut, where words stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.encode import encode_texts, encode_words, room_for
from qkv.errors import InputError
from text.kinds import KINDS, tokenizer

TEXTS = ["The river keeps the stone.", "", "Stay", "nobody knows why the stone keeps the river"]


def words(texts: list[str]) -> list[tuple[str, str | None]]:
    return [(text, None) for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_what_the_model_expects(kind: str) -> None:
    own = tokenizer(kind)
    rows = encode_texts(own, words(TEXTS), 64, pairs=False)
    assert len(rows) == len(TEXTS)
    for number, text in enumerate(TEXTS):
        expected = [*own.opening, *own.encode(text), *own.closing] or [own.separator]
        assert rows.row(number).tolist() == expected
    assert rows.lengths.tolist() == [len(rows.row(number)) for number in range(len(TEXTS))]
    assert (rows.second_starts, rows.word_starts, rows.words, rows.cut) == (None, None, None, 0)


def test_a_pair_has_its_second_text_behind() -> None:
    own = tokenizer("wordpiece")
    rows = encode_texts(own, [("The river", "the stone"), ("Stay", "")], 64, pairs=True)
    assert rows.row(0).tolist() == [2, *own.encode("The river"), 3, *own.encode("the stone"), 3]
    assert rows.row(1).tolist() == [2, *own.encode("Stay"), 3, 3]
    assert rows.second_starts is not None
    assert rows.second_starts.tolist() == [2 + len(own.encode("The river")), 2 + len(own.encode("Stay"))]
    plain = tokenizer("bpe")
    rows = encode_texts(plain, [("The river", "the stone")], 64, pairs=True)
    assert rows.row(0).tolist() == [*plain.encode("The river"), plain.separator, *plain.encode("the stone")]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(7, 40))
def test_the_longer_of_a_pair_gives_way(first: int, second: int, context: int) -> None:
    own = tokenizer("characters")
    rows = encode_texts(own, [("e" * first, "t" * second)], context, pairs=True)
    found, letters = rows.row(0).tolist(), [own.encode("e")[0], own.encode("t")[0]]
    kept = [found.count(letter) for letter in letters]
    room = room_for(own, context, pairs=True)
    assert sum(kept) == min(room, first + second)
    assert rows.cut == (first + second > room)
    if rows.cut:  # who gave way is still at least as long as the other, but for one
        (one, other), (was, there) = kept, (first, second)
        assert one == was or one >= other - 1
        assert other == there or other >= one - 1


def test_a_long_text_loses_its_end_but_not_what_closes_it() -> None:
    own = tokenizer("wordpiece")
    rows = encode_texts(own, words([TEXTS[3]]), 6, pairs=False)
    assert rows.row(0).tolist() == [2, *own.encode(TEXTS[3])[:4], 3]
    assert rows.notes("texts", 6) == ["one of the texts is longer than the context of 6 tokens; truncated."]
    with pytest.raises(InputError, match="a context of 2 has no room for a text: special tokens take 2"):
        encode_texts(own, words(TEXTS), 2, pairs=False)
    with pytest.raises(InputError, match="no room"):
        encode_texts(own, [("a", "b")], 4, pairs=True)


def test_unknown_pieces_are_counted() -> None:
    rows = encode_texts(tokenizer("characters"), words(["ΩΩ river"]), 64, pairs=False)
    assert rows.notes("texts", 64) == ["2 tokens of the texts are not in the vocabulary and become UNK."]
    assert encode_words(tokenizer("characters"), [["Ω", "river"]], 64).unknown == 1


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_judged_at_their_first_piece(kind: str) -> None:
    own = tokenizer(kind)
    sentences = [["The", "river", "keeps", "Don't"], ["Stay"], []]
    rows = encode_words(own, sentences, 64)
    lead = " " if kind == "bpe" else ""
    assert rows.words is not None
    assert rows.word_starts is not None
    assert rows.words.tolist() == [0, 4, 5, 5]
    for number, sentence in enumerate(sentences):
        places = rows.word_starts[rows.words[number] : rows.words[number + 1]]
        for word, place in zip(sentence, places, strict=True):
            pieces = own.encode(lead + word)
            assert rows.row(number)[place : place + len(pieces)].tolist() == pieces


def test_a_long_sentence_is_read_in_parts() -> None:
    own = tokenizer("wordpiece")
    sentence = TEXTS[3].split()
    rows = encode_words(own, [["Stay"], sentence, ["Stay"]], 8)
    whole = encode_words(own, [["Stay"], sentence, ["Stay"]], 64)
    assert rows.words is not None
    assert rows.word_starts is not None
    assert len(rows) > 3
    assert rows.lengths.max() <= 8
    assert rows.words[-1] == len(sentence) + 2 == len(rows.word_starts)
    starts, words = rows.word_starts, rows.words
    firsts = [int(rows.row(r)[p]) for r in range(len(rows)) for p in starts[words[r] : words[r + 1]]]
    assert whole.words is not None
    assert whole.word_starts is not None
    starts, words = whole.word_starts, whole.words
    assert firsts == [int(whole.row(r)[p]) for r in range(3) for p in starts[words[r] : words[r + 1]]]
    assert rows.notes("sentences", 8) == ["one of the sentences is longer than the context of 8 tokens; read in parts."]
    for number in range(len(rows)):
        assert (rows.row(number)[0], rows.row(number)[-1]) == (2, 3)


def test_a_word_without_a_piece_still_has_a_place() -> None:
    rows = encode_words(tokenizer("wordpiece"), [["river", "\u200b", "stone"]], 64)
    assert rows.word_starts is not None
    assert len(rows.word_starts) == 3


def test_ids_are_as_small_as_the_vocabulary_allows() -> None:
    rows = encode_texts(tokenizer("wordpiece"), words(TEXTS), 64, pairs=False)
    assert rows.ids.dtype == np.uint16
    assert rows.starts.dtype == np.int64
    none = encode_texts(tokenizer("wordpiece"), [], 64, pairs=True)
    assert (len(none), len(none.ids)) == (0, 0)

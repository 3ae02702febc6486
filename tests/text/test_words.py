"""The words that pieces are parts of, for every kind of vocabulary; rare characters come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.decoding import words_of
from text.kinds import KINDS, tokenizer

TEXT = "The river keeps the stone, (didn’t it)?"
WORDS = ["The", "river", "keeps", "the", "stone", ",", "(", "didn’t", "it", ")", "?"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: str) -> None:
    pieces = tokenizer(kind)
    ids = pieces.encode(TEXT)
    found = words_of(pieces, [*ids, pieces.separator])
    wanted = WORDS if kind != "wordpiece" else [*WORDS[:7], "didn", "’", "t", *WORDS[8:]]
    assert found.words == wanted
    assert len(found.places) == len(found.pieces) == len(ids) + 1
    assert found.places[-1] == -1
    kept = [place for place in found.places if place >= 0]
    assert kept == sorted(kept)
    assert set(kept) == set(range(len(found.words)))


def test_half_a_character_and_nothing() -> None:
    pieces = tokenizer("bpe")
    emoji = pieces.encode("a 🙂")
    found = words_of(pieces, emoji[:-1])
    assert found.words[0] == "a"
    assert "\\xf0" in "".join(found.words)
    assert words_of(pieces, []).words == []
    assert words_of(pieces, [pieces.separator]).places == [-1]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_rare_characters_survive_bytes(text: str) -> None:
    pieces = tokenizer("bpe")
    assert pieces.decode(pieces.encode(text)) == text
    found = words_of(pieces, pieces.encode(text))
    assert len(found.pieces) == len(found.places)
    assert all(place < len(found.words) for place in found.places)


@pytest.mark.parametrize("text", ["Zoë paid 1.234,50 € to Łukasz 🙂🏽", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﷽ 漢字", "Dvořák, K-141 'Kursk' №7"])
def test_names_and_numbers_survive_bytes(text: str) -> None:
    pieces = tokenizer("bpe")
    assert pieces.decode(pieces.encode(text)) == text
    assert pieces.unknown is None

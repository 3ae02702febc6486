"""Likely pieces: cut as a search over all cuts says, numbered as the file says; tables and files that are damaged."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.errors import RefusedError
from qkv.text.decoding import StreamDecoder, words_of
from qkv.text.tokenizer import Tokenizer
from qkv.text.unigram import BadTable, Rewriting, rewriting
from qkv.text.vocabulary import tag_is_optional, tags, written_tag
from text import likely
from text.kinds import tokenizer as learned
from text.test_checks import put

WORDS = likely.tokenizer()
LETTERS = "the fis\téﬁ\u0301\u0323\u00a0\x01¨▁Aと"


def pieces(text: str) -> list[str]:
    return [WORDS.token(number) for number in WORDS.encode(text)]


def simple(text: str, table: dict[str, str]) -> str:
    """By the longest key, letter by letter."""
    made, place = "", 0
    while place < len(text):
        sizes = [size for size in range(3, 0, -1) if text[place : place + size] in table]
        made += table[text[place : place + sizes[0]]] if sizes else text[place]
        place += sizes[0] if sizes else 1
    return made


@given(st.text(st.sampled_from(LETTERS), max_size=12))
def test_a_text_is_rewritten_by_the_longest_keys(text: str) -> None:
    assert Rewriting(likely.packed(likely.TABLE)).rewritten(text) == simple(text, likely.TABLE)


@given(st.text(st.sampled_from("AaBb é\u0301"), max_size=12))
def test_plain_letters_may_be_rewritten_too(text: str) -> None:
    table = {"A": "a", "B": "b", "a\u0301": "á", "ab": "ba"}
    assert Rewriting(likely.packed(table)).rewritten(text) == simple(text, table)


def test_without_a_table_only_spaces_change() -> None:
    assert rewriting("")("  a ﬁ\t b  ") == "a ﬁ\t b"


def best(text: str) -> float:
    """The score of the best cut of a text without unknown letters, by trying every cut."""
    reached = {0: 0.0}
    for end in range(1, len(text) + 1):
        ways = [reached[at] + likely.SCORES[text[at:end]] for at in reached if text[at:end] in likely.SCORES]
        if ways:
            reached[end] = max(ways)
    return reached[len(text)]


@given(st.text(st.sampled_from("thefis "), max_size=14))
def test_the_most_likely_cut_is_taken(text: str) -> None:
    normal = "▁" + " ".join(text.split()).replace(" ", "▁") if text.split() else ""
    assert sum(likely.SCORES[piece] for piece in pieces(text)) == pytest.approx(best(normal))
    assert WORDS.decode(WORDS.encode(text)) == " ".join(text.split())


def test_what_has_no_piece_or_no_number() -> None:
    assert pieces("") == pieces(" \t ") == []
    assert pieces("the ﬁsh") == ["▁the", "▁fish"]
    assert pieces("theXX") == ["▁the", "<unk>"]
    assert pieces("rare") == ["<unk>"], "a piece without a number"
    assert pieces("the中") == ["▁the", "中"], "the other language's number, as Marian has it"
    assert "▁Hund" not in pieces("Hund"), "the other language's piece is no part of a cut"
    assert WORDS.unknown_characters("the rareXX Hund") == ["rare", "XX", "Hund"]
    assert WORDS.vocabulary == len(likely.vocabulary())
    assert WORDS.unknown == 1


def test_text_never_becomes_a_special_token() -> None:
    special = {*likely.NAMES, "<pad>", "<|beyond|>"} - {"<unk>"}
    for name in special:
        assert not special & set(pieces(f"the {name} the")), name
        assert not special & set(pieces(name)), name


def test_languages_are_asked_for_at_the_front_only() -> None:
    assert tags(WORDS) == {"fra": ">>fra<<", "deu": ">>deu<<"}
    assert written_tag(WORDS, ">>fra<<  the fish") == ("fra", "the fish")
    assert written_tag(WORDS, "the >>fra<< fish") == (None, "the >>fra<< fish")
    assert written_tag(WORDS, ">>xyz<< fish") == (None, ">>xyz<< fish")
    assert tag_is_optional(WORDS)
    assert written_tag(learned("bpe"), "<2de> fish") == (None, "<2de> fish")


def test_saved_and_opened_again() -> None:
    again = Tokenizer.parse(WORDS.json())
    assert again.kind == "unigram"
    assert again.json() == WORDS.json()
    assert again.fingerprint == WORDS.fingerprint
    assert again.encode("the ﬁsh rare Hund 中") == WORDS.encode("the ﬁsh rare Hund 中")


def test_pieces_as_they_are_read() -> None:
    ids = [2, *WORDS.encode("the fish"), 0]
    found = words_of(WORDS, ids)
    assert found.words == ["the", "fish"]
    assert found.places == [-1, 0, 1, -1]
    assert found.pieces[1:3] == [" the", " fish"]
    stream = StreamDecoder(WORDS)
    assert "".join(stream.push(number) for number in ids) == "the fish"


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(tree: dict[str, Any]) -> None:
        tree["added_tokens"] = [entry for entry in tree["added_tokens"] if entry["content"] != name]

    return change


def table(data: bytes) -> Callable[[dict[str, Any]], None]:
    return put("normalizer", "normalizers", 0, "precompiled_charsmap", base64.b64encode(data).decode())


WHOLE = likely.packed(likely.TABLE)
TRIE = struct.unpack("<I", WHOLE[:4])[0]
CRAFTED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a score that is a word": (put("model", "vocab", 5, 1, "low"), "model.vocab[5]"),
    "a score that is a truth": (put("model", "vocab", 5, 1, True), "model.vocab[5]"),
    "a score of no size": (put("model", "vocab", 5, 1, float("nan")), "model.vocab[5]"),
    "a score too low": (put("model", "vocab", 5, 1, -1e30), "model.vocab[5]"),
    "a piece that is a number": (put("model", "vocab", 5, 0, 7), "model.vocab[5]"),
    "a piece without a score": (put("model", "vocab", 5, ["x"]), "model.vocab[5]"),
    "a piece twice": (put("model", "vocab", 6, 0, "▁the"), "listed twice"),
    "an empty piece": (put("model", "vocab", 5, 0, ""), "model.vocab"),
    "no pieces": (put("model", "vocab", []), "model.vocab"),
    "an object of pieces": (put("model", "vocab", {"a": 1}), "model.vocab"),
    "no unknown": (put("model", "unk_id", None), "model.unk_id"),
    "an unknown beyond the end": (put("model", "unk_id", 10**6), "model.unk_id"),
    "an unknown that is a piece": (put("model", "unk_id", 5), "model.unk_id"),
    "bytes": (put("model", "byte_fallback", True), "byte_fallback"),
    "a key of another model": (put("model", "dropout", None), "model.dropout"),
    "no end": (without("</s>"), "separator"),
    "a border that is a piece": (without("<|beyond|>"), "<|beyond|>"),
    "a special token behind the border": (put("added_tokens", 0, "id", 25), "added_tokens"),
    "an added token that is text": (put("added_tokens", 2, "special", False), "added_tokens"),
    "another normalizer": (put("normalizer", {"type": "Lowercase"}), "normalizer"),
    "another regular expression": (
        put("normalizer", "normalizers", 2, "pattern", {"Regex": "(a+)+"}),
        "normalizer",
    ),
    "a table that is a number": (put("normalizer", "normalizers", 0, "precompiled_charsmap", 7), "charsmap"),
    "a table of other letters": (put("normalizer", "normalizers", 0, "precompiled_charsmap", "ä?"), "not base64"),
    "a table cut off": (table(WHOLE[: TRIE // 2]), "a whole trie"),
    "a huge trie": (table(struct.pack("<I", 2**32 - 1024) + WHOLE[4:]), "a whole trie"),
    "a table without texts": (table(WHOLE[: 4 + TRIE]), "a whole trie"),
    "a text without an end": (table(WHOLE[:-1]), "without an end"),
    "texts that are not Unicode": (table(WHOLE[:-2] + b"\xff\0"), "not UTF-8"),
    "a node far away": (table(WHOLE[:4] + b"\xff\xff\xff\x7f" + WHOLE[8:]), "beyond its end"),
    "texts too few": (table(WHOLE[: 4 + TRIE] + b"\0"), "refers to no text"),
    "another cut": (put("pre_tokenizer", {"type": "Whitespace"}), "pre_tokenizer"),
    "another joining": (put("decoder", {"type": "Fuse"}), "decoder"),
    "another template": (put("post_processor", {"type": "ByteLevel", "use_regex": True}), "post_processor"),
}


@pytest.mark.parametrize(("change", "field"), CRAFTED.values(), ids=CRAFTED)
def test_crafted(change: Callable[[dict[str, Any]], None], field: str) -> None:
    tree = json.loads(WORDS.json())
    change(tree)
    with pytest.raises(RefusedError) as caught:
        Tokenizer.parse(json.dumps(tree), "somewhere/tokenizer.json")
    assert str(caught.value).startswith("somewhere/tokenizer.json: ")
    assert field in str(caught.value)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_table_is_refused_or_harmless(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, byte in changes:
        data[place] = byte
    try:
        found = Rewriting(bytes(data))
    except BadTable:
        return
    for letter in LETTERS:
        assert isinstance(found(f"e\u0301{letter}\u0323{letter}"), str)


@settings(max_examples=200)
@given(st.binary(min_size=4, max_size=6000), st.integers(1, 4))
def test_any_table_is_refused_or_harmless(data: bytes, blocks: int) -> None:
    try:
        found = Rewriting(struct.pack("<I", 1024 * blocks) + (data * 3000)[: 1024 * blocks] + b"a\0b\0")
    except BadTable:
        return
    assert isinstance(found("the ﬁsh é\u0301"), str)


def test_a_loop_in_the_table_ends() -> None:
    """A node that is its own child: a key without an end."""
    units = [0] * 256
    units[0] = 0
    units[ord("é".encode()[:1])] = ord("é".encode()[:1])
    data = struct.pack("<I", 1024) + struct.pack("<256I", *units) + b"a\0"
    found = Rewriting(data)
    assert found("ééé") == "ééé"

"""Damaged and crafted tokenizer files: refused with file and field, never a panic."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.errors import InputError, RefusedError
from qkv.text.tokenizer import Tokenizer
from text.kinds import KINDS, tokenizer


def values(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(tokenizer(kind).json())
    return loaded


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    *where, key, value = path

    def change(tree: dict[str, Any]) -> None:
        for step in where:
            tree = tree[step]
        tree[key] = value

    return change


def swap_ids(tree: dict[str, Any]) -> None:
    vocabulary = tree["model"]["vocab"]
    first, second = list(vocabulary)[10:12]
    vocabulary[first] = vocabulary[second]


NESTED = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
CRAFTED: list[tuple[str, str, Callable[[dict[str, Any]], None], str]] = [
    ("bpe", "a merge longer than any token", put("model", "merges", [["he" * 40, "re" * 40]]), "model.merges[0]"),
    ("bpe", "a merge of nothing", put("model", "merges", [["", ""]]), "model.merges[0]"),
    ("bpe", "a merge of three", put("model", "merges", [["a", "b", "c"]]), "model.merges[0]"),
    ("bpe", "merges missing", lambda tree: tree["model"].pop("merges"), "model.merges"),
    ("characters", "a regular expression of another", put("pre_tokenizer", NESTED), "pre_tokenizer"),
    (
        "words",
        "a regular expression of another",
        put("decoder", "decoders", 2, "pattern", {"Regex": "(x*)*"}),
        "decoder",
    ),
    ("bpe", "an unknown model", put("model", "type", "Trigram"), "model.type"),
    ("bpe", "an unknown version", put("version", "9.9"), "version"),
    ("bpe", "dropout", put("model", "dropout", 0.5), "model.dropout"),
    ("bpe", "an unknown key of the model", put("model", "surprise", 1), "model.surprise"),
    ("bpe", "another normalizer", put("normalizer", {"type": "Lowercase"}), "normalizer"),
    ("bpe", "no model", lambda tree: tree.pop("model"), "model"),
    ("bpe", "an empty vocabulary", put("model", "vocab", {}), "model.vocab"),
    ("bpe", "a negative id", put("model", "vocab", "a", -1), "model.vocab"),
    ("bpe", "a huge id", put("model", "vocab", "a", 10**12), "model.vocab"),
    ("bpe", "an id that is a word", put("model", "vocab", "a", "seven"), "model.vocab"),
    ("bpe", "an id that is a truth", put("model", "vocab", "a", True), "model.vocab"),
    ("words", "an id twice", swap_ids, "model.vocab"),
    ("bpe", "a byte missing", lambda tree: _rename(tree, "!", "xx!!"), "it lacks tokens for some bytes"),
    ("words", "a hole in the ids", put("model", "vocab", "qqq", 5000), "model.vocab"),
    ("words", "half a character", put("model", "vocab", "\ud800", 10_000), "model.vocab"),
    ("words", "a token too long", put("model", "vocab", "x" * 5000, 10_000), "model.vocab"),
    ("words", "no UNK", lambda tree: tree["added_tokens"].pop(1), "<|unk|>"),
    ("words", "no separator", lambda tree: tree["added_tokens"].pop(0), "separator"),
    ("words", "UNK by another name", put("model", "unk_token", "nobody"), "model.unk_token"),
    ("words", "an added token of another id", put("added_tokens", 0, "id", 3), "added_tokens"),
    ("words", "an added token that is no object", put("added_tokens", 0, 7), "added_tokens"),
    ("words", "an added token that is not special", put("added_tokens", 0, "special", False), "added_tokens"),
    ("wordpiece", "a template with other ids", put("post_processor", "special_tokens", {}), "post_processor"),
]


def _rename(tree: dict[str, Any], old: str, new: str) -> None:
    tree["model"]["vocab"][new] = tree["model"]["vocab"].pop(old)


@pytest.mark.parametrize(("kind", "name", "change", "field"), CRAFTED, ids=[f"{row[0]}: {row[1]}" for row in CRAFTED])
def test_crafted(kind: str, name: str, change: Callable[[dict[str, Any]], None], field: str) -> None:
    tree = values(kind)
    change(tree)
    with pytest.raises(RefusedError) as caught:
        Tokenizer.parse(json.dumps(tree), "somewhere/tokenizer.json")
    assert str(caught.value).startswith("somewhere/tokenizer.json: ")
    assert field in str(caught.value)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 200_000, "nested"),
        ('{"model": {"vocab": {"a": 1, "a": 2}}}', "duplicate key"),
        ("[]", "not a tokenizer"),
        ('{"version": ' + "9" * 5000 + "}", "not JSON"),
        ("null", "not a tokenizer"),
    ],
    ids=["empty", "cut off", "deep", "twins", "a list", "a huge number", "null"],
)
def test_not_a_tokenizer(text: str, mention: str) -> None:
    with pytest.raises(RefusedError, match=mention):
        Tokenizer.parse(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b"\xff{}")
    with pytest.raises(RefusedError, match="not UTF-8 at byte 0"):
        Tokenizer.load(tmp_path / "latin.json")
    with pytest.raises(InputError, match="no such tokenizer"):
        Tokenizer.load(tmp_path / "absent.json")
    with pytest.raises(InputError, match="no such tokenizer"):
        Tokenizer.load(tmp_path)


def _paths(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here] if here else []
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    else:
        return found
    for key, value in items[:12]:
        found += _paths(value, (*here, key))
    return found


strange = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


@settings(max_examples=300)
@given(st.data())
def test_any_field_replaced_or_removed(data: st.DataObject) -> None:
    """Whatever is put anywhere: a tokenizer that works, or RefusedError; never a panic (a BaseException)."""
    kind = data.draw(st.sampled_from(KINDS))
    tree = copy.deepcopy(values(kind))
    *where, key = data.draw(st.sampled_from(_paths(tree)))
    parent = tree
    for step in where:
        parent = parent[step]
    if data.draw(st.booleans()):
        parent[key] = data.draw(strange)
    else:
        del parent[key]
    try:
        loaded = Tokenizer.parse(json.dumps(tree))
    except RefusedError:
        return
    loaded.decode(loaded.encode("The river keeps 世界 <|end|> ß"))


@settings(max_examples=200)
@given(st.sampled_from(KINDS), st.integers(0), st.binary(min_size=1, max_size=4))
def test_flipped_bytes(kind: str, place: int, junk: bytes) -> None:
    content = bytearray(tokenizer(kind).json().encode())
    place %= len(content)
    content[place : place + len(junk)] = junk
    try:
        loaded = Tokenizer.parse(content.decode(errors="replace"))
    except RefusedError:
        return
    loaded.decode(loaded.encode("The river keeps 世界"))

"""The piece that stands for a hidden one, and what BERT expects around a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from qkv.text.tokenizer import Roles, Tokenizer
from text.kinds import KINDS, tokenizer


def test_wordpiece_has_what_bert_needs(tmp_path: Path) -> None:
    words = tokenizer("wordpiece")
    assert [words.token(number) for number in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert (words.padding, words.unknown, words.opening, words.closing, words.mask) == (0, 1, (2,), (3,), 4)
    assert words.separator == 3
    words.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (again.mask, again.fingerprint, again.roles) == (4, words.fingerprint, words.roles)
    roles = Roles.parse(words.roles.values(), words.vocabulary)
    assert Tokenizer.load(tmp_path / "tokenizer.json", roles).mask == 4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wordpiece"])
def test_others_have_none(kind: str) -> None:
    assert tokenizer(kind).mask is None


def test_a_text_cannot_hide_its_pieces() -> None:
    """[MASK] in a text is text; `fill` puts the piece itself there."""
    words = tokenizer("wordpiece")
    assert words.mask not in words.encode("the [MASK] of it")

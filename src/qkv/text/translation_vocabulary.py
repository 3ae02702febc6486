"""Vocabularies of translators: tokens that ask for a language, and two vocabularies under one numbering."""

from __future__ import annotations

import json
import re
from typing import Any

from qkv.text.tokenizer import Tokenizer

_OURS, _MARIANS = re.compile(r"<2([^<>]+)>"), re.compile(r">>([^<>]+)<<")


def is_tag(name: str) -> bool:
    return _language(name) is not None


def _language(name: str) -> str | None:
    found = _OURS.fullmatch(name) or _MARIANS.fullmatch(name)
    return found[1] if found else None


def tags(tokenizer: Tokenizer) -> dict[str, str]:
    """The tags of a vocabulary by their languages."""
    named = ((_language(name), name) for name in tokenizer.named)
    return {language: name for language, name in named if language is not None}


def written_tag(tokenizer: Tokenizer, text: str) -> tuple[str | None, str]:
    """The language that a text itself asks for, as Marian's do: ">>deu<< A dog." is a tag and a text. No other special
    token is ever taken from a text."""
    found = _MARIANS.match(text)
    return (found[1], text[found.end() :].lstrip()) if found and found[0] in tokenizer.named else (None, text)


def may_be_left_out(tokenizer: Tokenizer) -> bool:
    """Whether texts need no tag: Marian's models translate without one too, into what they saw most."""
    return all(_MARIANS.fullmatch(name) for name in tags(tokenizer).values())


def united(first: Tokenizer, second: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """Both with the pieces of both; their special tokens, which come first, are the same."""
    assert first.kind == second.kind == "bpe"
    assert first.named == second.named
    own, other = (json.loads(each.json()) for each in (first, second))
    pieces: dict[str, int] = dict(own["model"]["vocab"])
    for piece in sorted(other["model"]["vocab"], key=other["model"]["vocab"].__getitem__):
        pieces.setdefault(piece, len(pieces))
    return _with(own, pieces), _with(other, pieces)


def _with(values: dict[str, Any], pieces: dict[str, int]) -> Tokenizer:
    values["model"]["vocab"] = pieces
    return Tokenizer.parse(json.dumps(values, ensure_ascii=False), "tokenizer.json of two languages")

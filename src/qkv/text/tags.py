"""Special tokens that ask a translator for a language: <2de> in models of qkv's, >>deu<< in Marian's."""

from __future__ import annotations

import re

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

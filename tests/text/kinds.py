"""One small tokenizer of each kind, learned from the same text."""

from __future__ import annotations

from functools import cache

from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import train_tokenizer

KINDS = ("characters", "words", "bpe", "wordpiece")
TEXT = (
    "The river keeps the stone (and the stone keeps the river).\n\nDon't ask why: nobody knows! “Stay,” she said; "
    "he didn’t — naïve café, 世界 über 3.14 % [of] {it}…\tThe end?\n"
) * 40


@cache
def tokenizer(kind: str) -> Tokenizer:
    size = {"bpe": 400, "wordpiece": 300}.get(kind)
    return train_tokenizer(TokenizerConfig(kind=kind, size=size), [TEXT])  # type: ignore[arg-type]

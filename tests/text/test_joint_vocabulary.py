"""Two vocabularies with one numbering: each cuts as it did alone, and both read what either wrote."""

from __future__ import annotations

from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import join_vocabularies, train_tokenizer

TEXTS = ("the river keeps its stones and the stones keep it", "der Fluss behält die Steine, die Steine behalten ihn")


def learned(text: str) -> Tokenizer:
    return train_tokenizer(TokenizerConfig(kind="bpe", size=290), [text] * 5)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.piece(number) for number in tokenizer.encode(text)]


def test_united() -> None:
    alone = [learned(text) for text in TEXTS]
    both = join_vocabularies(*alone)
    assert both[0].vocabulary == both[1].vocabulary > max(each.vocabulary for each in alone)
    assert both[0].separator == both[1].separator == alone[0].separator
    for text in (*TEXTS, "東京 42"):
        for before, after in zip(alone, both, strict=True):
            assert pieces(after, text) == pieces(before, text)
        assert both[0].decode(both[1].encode(text)) == text
    assert both[0].encode(TEXTS[1]) != both[1].encode(TEXTS[1])
    assert all(both[0].token(number) == both[1].token(number) for number in range(both[0].vocabulary))

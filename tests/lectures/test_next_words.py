"""The deck's nano GPT on its small corpus, trained with nothing set: its next-word table is the corpus's (deck 000)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import qkv
from data_at_hand import real

AFTER = [f"{who} {verb} {which}" for who in ("I", "can", "and") for verb in ("hold", "rub") for which in ("a", "the")]
AFTER += [f"{who} {verb} {which}" for who in ("He", "She") for verb in ("holds", "rubs") for which in ("a", "the")]


def counted(text: str, words: str) -> dict[str, float]:
    """What follows these words in the text, as shares."""
    found = Counter(re.findall(rf"\b{words} (\w+)", text))
    return {word: number / found.total() for word, number in found.items()}


def test_the_table_matches_the_counts(tmp_path: Path) -> None:
    corpus = real("ece1786/SmallSimpleCorpus.txt")
    for _ in qkv.train(corpus, run=tmp_path / "run", model="gpt-nano", settings={"training.threads": 1}, stream=True):
        pass
    text = corpus.read_text(encoding="utf-8")
    model = qkv.load(tmp_path / "run")
    for words in AFTER:
        wanted = counted(text[: len(text) * 9 // 10], words)
        assert set(wanted) >= {"dog", "cat"}, words
        table = {row.piece: row.probability for row in model.next(words, top=model.tokenizer.vocabulary)}
        distance = sum(abs(table.get(word, 0) - wanted.get(word, 0)) for word in table | wanted) / 2
        assert distance < 0.1, f"{words}: {wanted}, but {table}"

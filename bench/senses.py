"""The senses of "bank" by layer: does the nearest training sentence have the same sense? Deck 000.

    python bench/senses.py MODEL CoarseWSD-20.zip [WORD ...]

MODEL is any folder that `qkv.load` opens; MiniLM, say. For each layer: share of test sentences whose nearest training
sentence (cosine of the word's vectors) has their sense, and the mean over senses, which a majority cannot win.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections import Counter

import torch

import qkv
from qkv.evaluation.vectors import WordInSentence, nearest_senses, vectors_of_words


def side(archive: zipfile.ZipFile, word: str, name: str) -> tuple[list[WordInSentence], list[str]]:
    lines, gold = (
        io.TextIOWrapper(archive.open(f"CoarseWSD-20/{word}/{name}.{part}.txt"), "utf-8").read().splitlines()
        for part in ("data", "gold")
    )
    pairs = [line.split("\t") for line in lines]
    return [WordInSentence(sentence.split(), int(place)) for place, sentence in pairs], gold


def main(folder: str, path: str, *words: str) -> None:
    opened = qkv.load(folder)
    model, tokenizer = opened.bundle.model, opened.tokenizer
    assert isinstance(model, torch.nn.Module)
    archive = zipfile.ZipFile(path)
    for word in words or ("bank",):
        known, senses = side(archive, word, "train")
        asked, gold = side(archive, word, "test")
        before = vectors_of_words(model, tokenizer, known)
        after = vectors_of_words(model, tokenizer, asked)
        common = Counter(senses).most_common(1)[0][0]
        print(f"{word}: {len(known):,} known, {len(asked):,} asked; always sense {common}: {share(gold, common):.1%}")
        for layer, (one, other) in enumerate(zip(before, after, strict=True)):
            guesses = nearest_senses(other, one, senses)
            right = [guess == sense for guess, sense in zip(guesses, gold, strict=True)]
            by_sense = [
                sum(hit for hit, sense in zip(right, gold, strict=True) if sense == each) / gold.count(each)
                for each in sorted(set(gold))
            ]
            print(f"  layer {layer}: {sum(right) / len(right):.1%}   by sense {sum(by_sense) / len(by_sense):.1%}")


def share(gold: list[str], sense: str) -> float:
    return gold.count(sense) / len(gold)


if __name__ == "__main__":
    main(*sys.argv[1:])

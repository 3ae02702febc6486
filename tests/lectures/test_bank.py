"""Deck 000: one word, three uses. "river bank", "bank account", "they should not bank on the result".

Before the first layer "bank" has one vector, whatever stands around it; layer by layer the uses come apart.
"""

from __future__ import annotations

import io
import zipfile

import torch
import torch.nn.functional as F

import minilm
from data_at_hand import real
from qkv.evaluation.vectors import WordInSentence, nearest_senses, vectors_of_words

USES = {
    "river": [
        "they walked along the river bank",
        "we sat on the river bank and watched the boats",
        "grass grows along the muddy bank of the stream",
        "the fisherman climbed up the steep bank beside the water",
        "the flood washed over the left bank of the river",
    ],
    "money": [
        "he closed his bank account",
        "she went to the bank and deposited her salary",
        "the bank raised its interest rates on loans",
        "he works for a large investment bank in the city",
        "you can withdraw the money from any bank branch",
    ],
    "rely": [
        "they should not bank on the result",
        "do not bank on him to arrive in time",
        "you can bank on her help whenever you need it",
        "we cannot bank on good weather next week",
    ],
}


def sentences() -> tuple[list[WordInSentence], list[str]]:
    found = [(sentence.split(), use) for use, group in USES.items() for sentence in group]
    return [WordInSentence(words, words.index("bank")) for words, _ in found], [use for _, use in found]


def side(archive: zipfile.ZipFile, name: str) -> tuple[list[WordInSentence], list[str]]:
    lines, gold = (
        io.TextIOWrapper(archive.open(f"CoarseWSD-20/bank/{name}.{part}.txt"), "utf-8").read().splitlines()
        for part in ("data", "gold")
    )
    pairs = [line.split("\t") for line in lines]
    return [WordInSentence(sentence.split(), int(place)) for place, sentence in pairs], gold


def test_the_three_uses_come_apart() -> None:
    """Each sentence by its nearest among the others: a guess at layer 0, and from layer 1 on all but one are right."""
    model, tokenizer = minilm.opened()
    words, uses = sentences()
    right = []
    for layer in vectors_of_words(model, tokenizer, words):
        guesses = []
        for row in range(len(uses)):
            others = [place for place in range(len(uses)) if place != row]
            guesses += nearest_senses(layer[row : row + 1], layer[others], [uses[place] for place in others])
        right.append([guess == use for guess, use in zip(guesses, uses, strict=True)])
    assert [len(uses), len(right)] == [14, 7]
    assert sum(right[0]) <= 9
    for layer in right[1:]:
        assert sum(layer) >= 13
        assert layer[0], "river bank"
        assert layer[5], "bank account"
        assert layer[10], "they should not bank on the result"


def test_before_the_first_layer_only_the_place_differs() -> None:
    model, tokenizer = minilm.opened()
    words = [WordInSentence(["the", "bank", "of", "the", "river"], 1), WordInSentence(["his", "bank", "account"], 1)]
    first, *_, last = vectors_of_words(model, tokenizer, words)
    assert torch.equal(first[0], first[1])
    assert F.cosine_similarity(last[:1], last[1:]) < 0.8


def test_senses_of_coarsewsd() -> None:
    """The sense of the nearest of 1,107 sentences, for 455 others, 22 of them of rivers: always "money" is 95.2 %."""
    model, tokenizer = minilm.opened()
    archive = zipfile.ZipFile(real("coarsewsd20/CoarseWSD-20.zip"))
    known, senses = side(archive, "train")
    asked, gold = side(archive, "test")
    assert (len(known), len(asked), gold.count("1")) == (1107, 455, 22)
    accuracy, by_sense = [], []
    for one, other in zip(*(vectors_of_words(model, tokenizer, each) for each in (known, asked)), strict=True):
        guesses = nearest_senses(other, one, senses)
        hits = {
            sense: [guess == sense for guess, true in zip(guesses, gold, strict=True) if true == sense]
            for sense in "01"
        }
        accuracy.append((sum(hits["0"]) + sum(hits["1"])) / len(gold))
        by_sense.append((sum(hits["0"]) / len(hits["0"]) + sum(hits["1"]) / len(hits["1"])) / 2)
    assert accuracy[0] < 0.92
    assert min(accuracy[4:]) > 0.97
    assert by_sense[0] < 0.6
    assert min(by_sense[4:]) > 0.78

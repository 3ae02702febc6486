"""One word in several texts: how far its vectors come apart from layer to layer (decks 000 and 004)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.evaluation.predictions import cut_words
from qkv.evaluation.word_senses import WordAt, vectors_of_words
from qkv.text.tokenizer import Tokenizer

CONTEXTS = {
    "bank": (
        "she sat on the river bank",
        "the captain has a bank account",
        "in fact they should not bank on the result",
    ),
    "station": (
        "The train left the station on time",
        "The radio station was playing 60s hits",
        "I was stationed on a remote island in Polynesia",
    ),
    "it": (
        "The animal didn't cross the street because it was too tired",
        "The animal didn't cross the street because it was too wide",
    ),
}
"""The decks' own: bank in 000, station and it in 004."""


def placed(text: str, word: str) -> WordAt:
    """The first place of a word in a text; where it does not stand alone, of a word that begins with it."""
    words = cut_words(text)
    low = [each.lower() for each in words]
    wanted = word.lower()
    if wanted in low:
        return WordAt(words, low.index(wanted))
    longer = [place for place, each in enumerate(low) if each.startswith(wanted)]
    if not longer or not wanted:
        raise InputError(f"word {word!r}: does not occur in {text[:80]!r}. Give texts that hold the word.")
    return WordAt(words, longer[0])


def alike_by_layer(
    model: nn.Module, tokenizer: Tokenizer, word: str, texts: Sequence[str]
) -> list[Float[Tensor, "N N"]]:
    """For each layer from 0 on, the cosines between the word's vectors in every two texts."""
    found = vectors_of_words(model, tokenizer, [placed(text, word) for text in texts])
    return [F.normalize(each) @ F.normalize(each).T for each in found]


def nearest_texts(
    asked: Float[Tensor, "N D"], parts: Iterator[tuple[list[str], Float[Tensor, "_ D"]]], top: int
) -> list[list[tuple[str, float]]]:
    """For each vector the texts that are most alike, with their cosines; the texts come in parts, and few are held."""
    best: list[list[tuple[str, float]]] = [[] for _ in asked]
    wanted = F.normalize(asked)
    for texts, found in parts:
        near = wanted @ F.normalize(found).T
        values, places = near.topk(min(top, len(texts)), dim=1)
        for row, (cosines, chosen) in enumerate(zip(values.tolist(), places.tolist(), strict=True)):
            held = best[row] + [(texts[place], cosine) for place, cosine in zip(chosen, cosines, strict=True)]
            best[row] = sorted(held, key=lambda each: -each[1])[:top]
    return best

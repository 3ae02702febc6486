"""Word senses from contextual vectors: the sense of the nearest known example (Loureiro et al. 2021; deck 000, "bank").

A word's vector, at each layer, is the mean of its pieces' vectors within the sentence.

One word in several texts: how far its vectors come apart from layer to layer (decks 000 and 004).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.evaluation import vectors
from qkv.evaluation.decisions import cut_words
from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class WordAt:
    """A sentence in words, and the place of the one that is meant."""

    words: list[str]
    place: int


def vectors_of_words(model: nn.Module, tokenizer: Tokenizer, examples: Sequence[WordAt]) -> list[Float[Tensor, "N _"]]:
    """For each layer, from 0 on, a vector for every example."""
    context = int(getattr(model, "context"))  # noqa: B009  (an nn.Module's attributes have no type)
    rows, spans = [], []
    for example in examples:
        pieces = tokenizer.encode_batch(example.words)
        start = len(tokenizer.opening) + sum(map(len, pieces[: example.place]))
        spans.append((start, start + len(pieces[example.place])))
        rows.append([*tokenizer.opening, *(token for word in pieces for token in word), *tokenizer.closing][:context])
        if spans[-1][1] > len(rows[-1]):
            word = example.words[example.place]
            raise InputError(f"{word!r} stands at token {start + 1:,}, behind the context of {context:,}.")
    wanted = range(vectors.last(model) + 1)
    found: list[list[Tensor]] = [[torch.empty(0)] * len(rows) for _ in wanted]
    for where, layers, _ in vectors.batches(model, rows, wanted):
        for layer, x in enumerate(layers):
            for place, row in zip(where, x, strict=True):
                first, after = spans[place]
                found[layer][place] = row[first:after].mean(0).float().cpu()
    return [torch.stack(layer) for layer in found]


def nearest(asked: Float[Tensor, "N D"], known: Float[Tensor, "M D"], senses: Sequence[str]) -> list[str]:
    """For each vector the sense of the known one that is most alike, by cosine."""
    best = (F.normalize(asked) @ F.normalize(known).T).argmax(1)
    return [senses[place] for place in best.tolist()]


def alike(first: Float[Tensor, "N D"], second: Float[Tensor, "N D"]) -> Float[Tensor, "N"]:
    """The cosine of each pair: how alike a word is in two sentences (WiC, Pilehvar and Camacho-Collados 2019)."""
    return F.cosine_similarity(first, second)


def threshold(cosines: Float[Tensor, "N"], same: Bool[Tensor, "N"]) -> float:
    """Above which cosine to say "the same sense", so that most of the known pairs come out right."""
    order = cosines.argsort(descending=True)
    truth = same[order].long()
    # with the first k said to be the same: those among them that are, and those behind that are not
    right = torch.cat([torch.zeros(1, dtype=torch.long), truth.cumsum(0)])
    right = right + torch.cat([(1 - truth).flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=torch.long)])
    best = int(right.argmax())
    edges = torch.cat([cosines[order][:1] + 1, cosines[order], cosines[order][-1:] - 1])
    return float((edges[best] + edges[best + 1]) / 2)


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

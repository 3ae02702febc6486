"""Alignment heads: which head of a translator looks at the source word that it writes (Bahdanau et al. 2015, figure 3).

Nobody has marked the true alignments of a user's pairs, so an old independent method marks them: IBM Model 1, learned
from the pairs themselves (Brown et al. 1993), whose links know words and no order:

    t(f|e) ∝ Σ over pairs of the share of f that e explains        a few rounds of expectation and maximization

Score: of the target words, the share whose most looked-at source word is the model's link. Baseline: the diagonal, the
source word at the same share of the sentence.

Which words of the source a translator looks at while it writes each word: its attention, as an alignment.

    share(j, i) = mean over heads of the attention to source piece i where target piece j is written
    to each target word belongs the source word with the largest share of its pieces     Bahdanau 2015, figure 3

The translation is given, so one pass shows all of it; the open attention and taps let the shares be seen. They are a
look inside, no dictionary: heads also look at ends of sentences and at neighbours (Koehn & Knowles 2017, section 3.5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.blocks.attention import open_attention
from qkv.errors import InputError
from qkv.inspection.attention_pass import Attended, walk
from qkv.inspection.head_roles import Head, ranked, shares
from qkv.inspection.subject import Inputs, Subject, membership, stacks
from qkv.text.decoding import Words, words_of
from qkv.text.tokenizer import Tokenizer

ROUNDS = 5
SURE = 0.5  # of a link: below, nobody knows
Pair = tuple[list[str], list[str]]


class Dictionary:
    """IBM Model 1: how likely a target word is, given a source word; the empty word explains what has no source."""

    def __init__(self, pairs: Sequence[Pair], rounds: int = ROUNDS) -> None:
        self.table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
        for _ in range(rounds):
            counts: dict[tuple[str, str], float] = defaultdict(float)
            totals: dict[str, float] = defaultdict(float)
            for source, target in pairs:
                given = ["", *source]
                for word in target:
                    shares = self._shares(given, word)
                    for other, share in zip(given, shares, strict=True):
                        counts[other, word] += share
                        totals[other] += share
            self.table = defaultdict(float, {key: value / totals[key[0]] for key, value in counts.items()})

    def _shares(self, given: Sequence[str], word: str) -> list[float]:
        found = [self.table[other, word] for other in given]
        total = sum(found) or 1.0
        return [each / total for each in found]

    def links(self, source: Sequence[str], target: Sequence[str]) -> list[int]:
        """For each target word the place of its source word; -1 where no word is sure."""
        if not source:
            return [-1] * len(target)
        found = []
        for word in target:
            shares = self._shares(["", *source], word)
            best = int(np.argmax(shares))
            found.append(best - 1 if best > 0 and shares[best] >= SURE else -1)
        return found


@dataclass(frozen=True)
class WordPair:
    """A pair as the model reads it, in words."""

    inputs: Inputs
    source: Words
    target: Words  # of what each position writes: the tokens without their start


def sides(subject: Subject, inputs: Inputs) -> WordPair:
    source, tokenizer = inputs.source or (), subject.tokenizer
    return WordPair(inputs, words_of(tokenizer, list(source)), words_of(tokenizer, list(inputs.tokens[1:])))


def diagonal(place: int, target: int, source: int) -> int:
    return min(source - 1, int((place + 0.5) * source / max(1, target)))


WAYS = {"alignment": 0, "alignment, later": 1}
"""The position that looks: the one whose answer is the word, or the next, which has just read it (Chen et al. 2020)."""


def looked_at(weights: Float[Tensor, "H T S"], found: WordPair, later: int = 0) -> Int[Tensor, "H W"]:
    """For each target word the source word with the largest share of its pieces."""
    columns, rows = (membership(each.places, len(each.words)) for each in (found.source, found.target))
    asking = weights[:, later : later + len(rows)].cpu()  # row 0, the start, writes the first token
    return (rows[: asking.size(1)].T @ asking @ columns).argmax(-1)


def found_alignments(subject: Subject, pairs: Sequence[Inputs], most: int = 200) -> list[Head]:
    """Every head that looks at the source, best first, beside the diagonal; the dictionary learns from all pairs, the
    heads are judged by the first `most`, with intervals over sentences."""
    tower = stacks(subject.model).get("cross")
    given = [each for each in (sides(subject, inputs) for inputs in pairs) if each.source.words and each.target.words]
    if tower is None or not given:
        return []
    lower = [([w.lower() for w in each.source.words], [w.lower() for w in each.target.words]) for each in given]
    known = Dictionary(lower)
    given = given[:most]
    right = np.zeros((len(WAYS), len(given), len(tower.layers), tower.heads))
    straight, count = np.zeros(len(given)), np.zeros(len(given))
    for number, (each, (source, target)) in enumerate(zip(given, lower, strict=False)):
        links = known.links(source, target)
        sure = [place for place, link in enumerate(links) if link >= 0]
        count[number] = len(sure)
        straight[number] = sum(diagonal(place, len(target), len(source)) == links[place] for place in sure)
        expected = torch.tensor([links[place] for place in sure])
        see = partial(_see, each=each, sure=sure, expected=expected, right=right[:, number])
        walk(subject.reading(each.inputs), see, layers={"cross": range(len(tower.layers))})
    baseline = float(straight.sum() / max(1.0, count.sum()))
    found = []
    for way, table in zip(WAYS, right, strict=True):
        for place, share in enumerate(shares(table.reshape(len(given), -1), count)):
            low, high = (share.low, share.high) if len(given) > 1 else (0.0, 0.0)  # of one pair there is no interval
            found.append(Head("cross", *divmod(place, tower.heads), way, share.value, baseline, low, high))
    return ranked(found)


def _see(layer: Attended, each: WordPair, sure: list[int], expected: Tensor, right: NDArray[np.float64]) -> None:
    for way, later in enumerate(WAYS.values()):
        hits = looked_at(layer.weights, each, later)[:, sure] == expected
        right[way, layer.layer, : len(hits)] = hits.sum(-1).numpy()


@dataclass(frozen=True)
class Alignment:
    """One sentence: pieces and words of both sides, and the shares of source pieces, (target pieces, source pieces)."""

    source: Words
    target: Words
    shares: Float[Tensor, "T S"]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Source word and target word, for each target word; what is no word, as the end, is not looked at."""
        if not self.source.words or not self.target.words:
            return []
        return [(int(place), word) for word, place in enumerate(self.by_word().argmax(1).tolist())]

    def by_word(self) -> Float[Tensor, "T S"]:
        """The shares, summed over the pieces of each word: (target words, source words)."""
        rows = membership(self.target.places, len(self.target.words))
        return rows.T @ self.shares @ membership(self.source.places, len(self.source.words))

    def values(self) -> dict[str, Any]:
        return {
            "source_pieces": self.source.pieces,
            "target_pieces": self.target.pieces,
            "weights": [[round(share, 6) for share in row] for row in self.shares.tolist()],
        }


def aligned(
    model: nn.Module, tokenizer: Tokenizer, source: Sequence[int], target: Sequence[int], start: int, layer: int = -1
) -> Alignment:
    """The alignment of a source, with all that stands around it, and its translation, by a layer of the decoder."""
    crossing = stacks(model).get("cross")
    if crossing is None:
        raise InputError(
            "this model has no attention to its source: nothing can be aligned. Train a transformer, or an "
            "rnn-translator with --set model.attention=bilinear."
        )
    depth = len(crossing.layers)
    if not -depth <= layer < depth:
        raise InputError(f"layer {layer}: the decoder has {depth}; expected 0 to {depth - 1}.")
    seen: list[Attended] = []
    subject = Subject(model, tokenizer, "translator", Inputs((start, *target[:-1]), source=tuple(source)))
    with open_attention(model):
        walk(subject, seen.append, layers={"cross": [layer]})
    shares = seen[0].weights.cpu().mean(0)[: len(target)]  # (H, T, S) -> (T, S)
    return Alignment(words_of(tokenizer, source), words_of(tokenizer, target), shares)


def attends(model: nn.Module) -> bool:
    """Whether it looks at its source while it writes."""
    return "cross" in stacks(model)

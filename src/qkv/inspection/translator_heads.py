"""Alignment heads: which heads attend to the source word that is being translated (Bahdanau et al. 2015, figure 3).

The true alignments of a user's pairs are not known, so an independent method estimates them: IBM Model 1, learned from
the pairs themselves (Brown et al. 1993), which knows words and ignores their order:

    t(f|e) ∝ Σ over pairs of the share of f that e explains        a few iterations of expectation maximization

Score: the fraction of target words whose most attended source word is the one that Model 1 links to them. Baseline: the
diagonal, the source word at the same relative position in its sentence.

`align` shows to which words of the source a translator attends while it writes each word of one translation:

    share(j, i) = mean over heads of the attention to source token i where target token j is written
    each target word is aligned with the source word with the largest sum over tokens    Bahdanau 2015, figure 3

The translation is given, so one pass is enough. Attention is not a dictionary: heads also attend to ends of sentences
and to neighbours (Koehn & Knowles 2017, section 3.5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import open_attention
from qkv.errors import InputError
from qkv.inspection.attention_pass import AttentionValues, trace_attention
from qkv.inspection.head_roles import Head, ranked, shares
from qkv.inspection.subject import Inputs, Subject, membership, stacks
from qkv.text.decoding import Words, words_of
from qkv.text.tokenizer import Tokenizer

ITERATIONS = 5
MIN_LINK_PROBABILITY = 0.5
Pair = tuple[list[str], list[str]]


class Dictionary:
    """IBM Model 1: how likely a target word is, given a source word; the empty word explains what has no source."""

    def __init__(self, pairs: Sequence[Pair], iterations: int = ITERATIONS) -> None:
        self.table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
        for _ in range(iterations):
            counts: dict[tuple[str, str], float] = defaultdict(float)
            totals: dict[str, float] = defaultdict(float)
            for source, target in pairs:
                for word in target:
                    for other, share in zip(["", *source], self._shares(source, word), strict=True):
                        counts[other, word] += share
                        totals[other] += share
            self.table = defaultdict(float, {key: value / totals[key[0]] for key, value in counts.items()})

    def _shares(self, source: Sequence[str], word: str) -> list[float]:
        """The probability that the empty word or each source word generated the word."""
        likely = [self.table[other, word] for other in ("", *source)]
        total = sum(likely) or 1.0
        return [value / total for value in likely]

    def links(self, source: Sequence[str], target: Sequence[str]) -> list[int]:
        """For each target word the position of its source word; -1 where no link is likely enough."""
        rows = [self._shares(source, word) for word in target]
        return [int(np.argmax(row)) - 1 if max(row[1:], default=0.0) >= MIN_LINK_PROBABILITY else -1 for row in rows]


@dataclass(frozen=True)
class WordPair:
    """A pair as the model reads it, divided into words."""

    inputs: Inputs
    source: Words
    target: Words  # of what each position writes: the tokens without their start


def diagonal(place: int, target: int, source: int) -> int:
    return min(source - 1, int((place + 0.5) * source / max(1, target)))


QUERY_OFFSETS = {"alignment": 0, "alignment, later": 1}
"""The query position: the one that predicts the word, or the next, which has just read it (Chen et al. 2020)."""


def most_attended(weights: Float[Tensor, "H T S"], pair: WordPair, later: int = 0) -> Int[Tensor, "H W"]:
    """For each target word the source word with the largest share of its tokens."""
    columns, rows = (membership(side.places, len(side.words)) for side in (pair.source, pair.target))
    queries = weights[:, later : later + len(rows)].cpu()  # row 0, the start, writes the first token
    return (rows[: queries.size(1)].T @ queries @ columns).argmax(-1)


def find_alignments(subject: Subject, pairs: Sequence[Inputs], max_pairs: int = 200) -> list[Head]:
    """Every head that attends to the source, best first, compared with the diagonal; the dictionary learns from all
    pairs, the heads are scored on the first `max_pairs`, with intervals over sentences."""
    cross = stacks(subject.model).get("cross")
    both = [[words_of(subject.tokenizer, list(ids)) for ids in (row.source or (), row.tokens[1:])] for row in pairs]
    known = [WordPair(row, *words) for row, words in zip(pairs, both, strict=True) if all(side.words for side in words)]
    if cross is None or not known:
        return []
    lower = [([w.lower() for w in pair.source.words], [w.lower() for w in pair.target.words]) for pair in known]
    dictionary, known = Dictionary(lower), known[:max_pairs]
    right = np.zeros((len(QUERY_OFFSETS), len(known), len(cross.layers), cross.heads))
    straight, count = np.zeros(len(known)), np.zeros(len(known))

    def record(layer: AttentionValues) -> None:
        for way, later in enumerate(QUERY_OFFSETS.values()):
            hits = most_attended(layer.weights, known[number], later)[:, sure] == expected
            right[way, number, layer.layer, : len(hits)] = hits.sum(-1).numpy()

    for number in range(len(known)):
        source, target = lower[number]
        links = dictionary.links(source, target)
        sure = [place for place, link in enumerate(links) if link >= 0]
        count[number] = len(sure)
        straight[number] = sum(diagonal(place, len(target), len(source)) == links[place] for place in sure)
        expected = torch.tensor([links[place] for place in sure])
        trace_attention(subject.reading(known[number].inputs), record, layers={"cross": None})
    baseline = float(straight.sum() / max(1.0, count.sum()))
    heads = []
    for way, table in zip(QUERY_OFFSETS, right, strict=True):
        for place, (value, *ends) in enumerate(shares(table.reshape(len(known), -1), count)):
            low, high = ends if len(known) > 1 else (0.0, 0.0)  # of one pair there is no interval
            heads.append(Head("cross", *divmod(place, cross.heads), way, value, low, high, baseline))
    return ranked(heads)


@dataclass(frozen=True)
class Alignment:
    """One sentence: tokens and words of source and target, and the shares of source tokens, (target, source)."""

    source: Words
    target: Words
    shares: Float[Tensor, "T S"]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Source word and target word, for each target word; special tokens do not count."""
        if not self.source.words or not self.target.words:
            return []
        return [(int(place), word) for word, place in enumerate(self.by_word().argmax(1).tolist())]

    def by_word(self) -> Float[Tensor, "T S"]:
        """The shares, summed over the tokens of each word: (target words, source words)."""
        rows = membership(self.target.places, len(self.target.words))
        return rows.T @ self.shares @ membership(self.source.places, len(self.source.words))

    def values(self) -> dict[str, Any]:
        return {
            "source_pieces": self.source.pieces,
            "target_pieces": self.target.pieces,
            "weights": [[round(share, 6) for share in row] for row in self.shares.tolist()],
        }


def align(
    model: nn.Module, tokenizer: Tokenizer, source: Sequence[int], target: Sequence[int], start: int, layer: int = -1
) -> Alignment:
    """The alignment of a source, with its special tokens, and its translation, by a layer of the decoder."""
    if not attends(model):
        raise InputError(
            "this model has no attention to its source: nothing can be aligned. Train a transformer, or an "
            "rnn-translator with --set model.attention=bilinear."
        )
    seen: list[AttentionValues] = []
    subject = Subject(model, tokenizer, "translator", Inputs((start, *target[:-1]), source=tuple(source)))
    with open_attention(model):
        trace_attention(subject, seen.append, layers={"cross": [layer]})
    shares = seen[0].weights.cpu().mean(0)[: len(target)]  # (H, T, S) -> (T, S)
    return Alignment(words_of(tokenizer, source), words_of(tokenizer, target), shares)


def attends(model: nn.Module) -> bool:
    """Whether the model has attention to its source."""
    return "cross" in stacks(model)

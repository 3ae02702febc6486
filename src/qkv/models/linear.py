"""Logistic and softmax regression, or ridge, on the n-grams of whole texts: deck 001's linear model at its best.

    scores = W f + b       f_g = (1 + log n_g) · idf_g / |f|       idf_g = 1 + log((1 + texts) / (1 + texts with g))

n_g is how often a text has the n-gram g: words and their n-grams and, where they help, the letters of words. Each of
the two kinds has length one in every text. The weights have one optimum, which a solver finds (`training/lbfgs.py`);
the n-grams that it knows are those that several training texts have, by their keys (`blocks/ngrams.py`).

As an encoder it gives a vector for every character: what the n-grams that end there add to the scores, such that the
mean over the text is the text's scores. A classifier puts no head on it. table.py has the same for numbers.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from qkv.blocks.embeddings import Segments, TokenMask, Tokens
from qkv.blocks.ngrams import Alphabet, letter_ngrams, word_ngrams
from qkv.blocks.sparse_rows import SparseRows, product
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers

WHOLE = 2**20  # characters: texts are not cut


@strict
class LinearConfig:
    kind: Literal["linear"] = "linear"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's, which is of characters
    width: WidthOrZero = 0  # scores; 0: one a label
    context: Context = WHOLE  # where texts are cut; nothing in the model depends on it
    ngrams: Annotated[int, Field(ge=1, le=5)] = 2  # words of the longest n-gram; 1: words alone
    letters: Annotated[int, Field(ge=0, le=8)] = 0  # of the longest n-gram of letters; 0: none
    features: CountOrZero = 0  # n-grams that it knows; 0: as many as the training texts give
    classifiers: ClassVar[Classifiers] = {
        "linear": ClassifierDefaults(
            {"context": WHOLE}, dropout=0.0, learning_rate=1.0, epochs=300.0, solver="lbfgs", tokenizer="characters"
        ),
    }

    @property
    def layers(self) -> int:
        return 1

    def build(self) -> Linear:
        return Linear(self)


def weighted(
    rows: Int[Tensor, "E"], counts: Int[Tensor, "E"], idf: Float[Tensor, "E"], keys: Int[Tensor, "E"], texts: int
) -> Float[Tensor, "E"]:
    """The values of n-grams in their texts; the words of a text have length one, and so have the letters."""
    values = (1 + counts.log()) * idf
    part = 2 * rows + (keys & 1)
    squares = torch.zeros(2 * texts, dtype=torch.float64, device=values.device).index_add_(
        0, part, values.double() ** 2
    )
    return values / squares.sqrt().to(values.dtype)[part]


class Linear(nn.Module):
    codes: Tensor
    kinds: Tensor
    keys: Tensor
    idf: Tensor

    together = 2**17  # characters that are computed together in an evaluation: nothing is kept of each but its scores

    def __init__(self, config: LinearConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.ngrams, self.letters = config.ngrams, config.letters
        self.weight = nn.Parameter(torch.zeros(config.features, config.width))
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.register_buffer("codes", torch.zeros(config.vocabulary, dtype=torch.int32))
        self.register_buffer("kinds", torch.zeros(config.vocabulary, dtype=torch.int8))
        self.register_buffer("keys", torch.zeros(config.features, dtype=torch.int64))  # in order
        self.register_buffer("idf", torch.zeros(config.features))
        self.embedded = Tap()
        self.blocks = nn.ModuleList()  # none: weights are only added

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(self.codes, self.kinds)

    @torch.no_grad()
    def learn_features(self, alphabet: Alphabet, keys: Int[Tensor, "F"], idf: Float[Tensor, "F"]) -> None:
        """Take the n-grams of the training texts, whose keys are in order; before training, once."""
        self.codes.copy_(alphabet.codes)
        self.kinds.copy_(alphabet.kinds)
        self.keys.copy_(keys)
        self.idf.copy_(idf)

    def scores(self, rows: SparseRows) -> Float[Tensor, "R L"]:
        """The scores of texts whose n-grams have been counted: what a solver asks for, time and again."""
        return product(rows, self.weight) + self.bias

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T L"]:
        """Of each character what the n-grams that end with it add to the scores, times the length of the text."""
        there = torch.ones_like(tokens, dtype=torch.bool) if present is None else present
        rows, places = there.nonzero(as_tuple=True)
        second = None if segments is None else segments[rows, places] == 1
        characters = self.alphabet.read(tokens[rows, places], rows, second)
        grams = word_ngrams(characters, self.ngrams)
        if self.letters:
            grams = grams.and_also(letter_ngrams(characters, self.letters))
        found = torch.searchsorted(self.keys, grams.keys).clamp(max=max(0, len(self.keys) - 1))
        known = (self.keys[found] == grams.keys).nonzero().squeeze(1) if len(self.keys) else found[:0]
        found, row, place = found[known], grams.rows[known], grams.places[known]
        codes, entry, counts = torch.unique(row * len(self.keys) + found, return_inverse=True, return_counts=True)
        at, column = codes // max(1, len(self.keys)), codes % max(1, len(self.keys))
        values = weighted(at, counts, self.idf[column], self.keys[column], len(tokens)) / counts
        lengths = there.sum(1)
        each = self.weight[found] * (values[entry] * lengths[row]).unsqueeze(-1)
        added = torch.zeros(len(rows), self.width, dtype=each.dtype, device=each.device).index_add(0, place, each)
        x = torch.zeros(*tokens.shape, self.width, dtype=each.dtype, device=each.device)
        return self.embedded(x.index_put((rows, places), added + self.bias))

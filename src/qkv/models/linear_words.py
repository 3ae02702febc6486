"""A linear tagger: scores of a word are sums of weights of its features and of its neighbours', without a network.

    scores_t = b + Σ_{o=-2}^{2} Σ_{f of word t+o} W[hash(o, f)] + W[hash(w_{t-1}, w_t)] + W[hash(w_t, w_{t+1})]

With a linear-chain CRF on top (models/tagger.py) these are the features of CRFsuite's taggers (Okazaki 2007; Lafferty
et al. 2001), and the loss has one minimum. On little data it is hard to beat.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import STIR, Segments, TokenMask, Tokens
from qkv.blocks.tap import Tap
from qkv.blocks.word_features import FIXED, FORM, SHAPES, BatchWords, Spelling, at_tokens, in_table
from qkv.config import Context, Count, CountOrZero, Share, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers

REACH = 2  # words to each side
NEIGHBOURS = [*SHAPES, FORM]  # features of neighbours; more, or n-grams, are memorised on little data


@strict
class LinearWordsConfig:
    kind: Literal["linear-words"] = "linear-words"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    width: WidthOrZero = 0  # scores; 0: one a label
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    features: Count = 2**18  # rows of the table of features
    feature_dropout: Share = 0.0
    taggers: ClassVar[Classifiers] = {
        "linear": ClassifierDefaults(
            {}, dropout=0.0, head="crf", learning_rate=0.02, batch=32, epochs=15.0, steps=2000, weight_decay=0.0
        ),
    }

    @property
    def layers(self) -> int:
        return 1

    def build(self) -> LinearWords:
        return LinearWords(self)


class LinearWords(nn.Module):
    def __init__(self, config: LinearWordsConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.words = Spelling(config.vocabulary)
        self.weights = nn.Embedding(config.features, config.width, padding_idx=0)  # no "embedding": it decays
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.kept = Dropout(config.feature_dropout)
        self.embedded = Tap()
        self.blocks = nn.ModuleList()  # none: the weights are only added
        nn.init.zeros_(self.weights.weight)  # every label equally likely

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """Padding comes after the text."""
        words = self.words(tokens, present)
        return self.embedded(at_tokens(self._scores(words), words) + self.bias)

    def _scores(self, words: BatchWords) -> Float[Tensor, "B W L"]:
        there = words.present.unsqueeze(2)
        scores = torch.zeros(*words.which.shape, self.width, device=there.device, dtype=self.bias.dtype)
        for offset in range(-REACH, REACH + 1):
            features = words.features[:, :FIXED] if not offset else words.features[:, NEIGHBOURS]
            own = self._weights(features, offset)[words.which] * there
            begin, end = max(0, -offset), scores.size(1) - max(0, offset)
            if begin < end:
                moved = own[:, max(0, offset) : scores.size(1) + min(0, offset)]
                scores = scores + F.pad(moved, (0, 0, begin, scores.size(1) - end))
        forms = words.features[:, FORM][words.which]
        pairs = (forms[:, :-1] * 31 + forms[:, 1:]) % (2**31 - 1)
        both = there[:, 1:]
        before, after = (self._weights(pairs.unsqueeze(2), place) * both for place in (REACH + 1, REACH + 2))
        return scores + F.pad(before, (0, 0, 1, 0)) + F.pad(after, (0, 0, 0, 1))

    def _weights(self, features: Tensor, place: int) -> Float[Tensor, "*_ L"]:
        """The sum of the weights of these features at a place."""
        moved = torch.where(features == 0, features, (features + place + REACH) % (2**31 - 1) * STIR % (2**31 - 1))
        rows = in_table(moved, self.weights.num_embeddings)
        flat = rows.flatten(0, -2)
        kept = self.kept((flat != 0).to(self.weights.weight.dtype))
        summed = F.embedding_bag(flat, self.weights.weight, mode="sum", per_sample_weights=kept, padding_idx=0)
        return summed.view(*rows.shape[:-1], self.width)

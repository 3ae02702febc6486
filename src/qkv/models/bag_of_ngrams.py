"""Bags of words and hashed n-grams: only the n-grams carry information on the order of words.

    x_t = E[w_t] + Σ_{n=2}^{N} N[hash(w_{t-n+1} … w_t)]              deck 004's classifier takes their mean

With n-grams a bag knows a little about order: fastText (Joulin et al. 2016). In training whole words can be left out,
as in deep averaging networks (Iyyer et al. 2015), whose layers are the classifier's head.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import NgramSum, Segments, TokenMask, Tokens
from qkv.blocks.tap import Tap
from qkv.config import Context, Count, CountOrZero, Share, Width, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


@strict
class BagConfig:
    kind: Literal["bag"] = "bag"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    width: Width = 128
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    ngrams: Annotated[int, Field(ge=1, le=5)] = 1  # tokens of the longest n-gram; 1: words alone
    buckets: Count = 65_536  # rows of the n-grams' table, whatever their length
    word_dropout: Share = 0.0
    classifiers: ClassVar[Classifiers] = {
        "bag": ClassifierDefaults(
            {"width": 128, "ngrams": 2, "word_dropout": 0.3}, learning_rate=3e-3, epochs=4.0, steps=700
        ),
        "mlp": ClassifierDefaults(  # hashed n-grams into a hidden layer
            {"width": 128, "ngrams": 2, "word_dropout": 0.3}, head="two-layer", epochs=4.0, steps=700
        ),
    }

    @property
    def layers(self) -> int:
        return 1

    def build(self) -> Bag:
        return Bag(self)


class Bag(nn.Module):
    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.embedding = NgramSum(config.vocabulary, config.width, longest=config.ngrams, table=config.buckets)
        self.words = Dropout(config.word_dropout)
        self.embedded = Tap()
        self.blocks = nn.ModuleList()  # none: a bag has no layers
        self._initialize()

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        x = self.embedding(tokens, present)
        kept = self.words(torch.ones_like(x[..., :1]))  # one draw a word: it stays with all its n-grams, or goes
        return self.embedded(x * kept)

    def _initialize(self) -> None:
        """Words that differ, n-grams that add nothing yet."""
        nn.init.normal_(self.embedding.tokens.weight, std=0.1)
        if isinstance(self.embedding.ngrams, nn.Embedding):
            nn.init.zeros_(self.embedding.ngrams.weight)

"""Logistic and softmax regression on text: every word and n-gram has a score for every label. Deck 001.

    scores_t = b + W[w_t] + Σ_{n=2}^{N} W[hash(w_{t-n+1} … w_t)]

Their mean over the text is W f + b, where f holds how often each word and n-gram occurs in it. The width is the number
of labels, and a classifier puts no head on it: nothing is hidden, and the loss has one minimum. table.py has the same
for numbers.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from qkv.blocks.ngrams import NgramSum
from qkv.blocks.tap import Tap
from qkv.config import Context, Count, CountOrZero, WidthOrZero, strict


@strict
class LinearConfig:
    kind: Literal["linear"] = "linear"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    width: WidthOrZero = 0  # scores; 0: one a label
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    ngrams: Annotated[int, Field(ge=1, le=5)] = 2  # tokens of the longest n-gram; 1: words alone
    buckets: Count = 262_144  # rows of the n-grams' table, whatever their length

    @property
    def layers(self) -> int:
        return 1

    def build(self) -> Linear:
        return Linear(self)


class Linear(nn.Module):
    def __init__(self, config: LinearConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.embedding = NgramSum(config.vocabulary, config.width, longest=config.ngrams, table=config.buckets)
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.embedded = Tap()
        self.blocks = nn.ModuleList()  # none: what is looked up is added
        for part in self.embedding.parameters():
            nn.init.zeros_(part)  # every label equally likely

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        present: Bool[Tensor, "B T"] | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.embedded(self.embedding(tokens, present) + self.bias)

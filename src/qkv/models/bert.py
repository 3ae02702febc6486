"""BERT: the bidirectional encoder of Devlin et al. 2019. Decks 000 and 002.

    x = norm(E[tokens] + P[positions] + S[segments]);  N times: x = norm(x + attention(x)), x = norm(x + feedforward(x))

GPT's block with three parts exchanged: the norm comes after each sublayer, GELU is the exact one, and the mask hides
padding instead of the future. DistilBERT (Sanh et al. 2019) is the same without segments and pooler. What the vectors
are used for is the business of masked.py, classifier.py and tagger.py.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, FeedForward, PostNorm
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding, Segments, TokenMask, Tokens
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions, NoPositions
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Positive, Share, Width, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


@strict
class BertConfig:
    kind: Literal["bert"] = "bert"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 4
    heads: Width = 4
    width: Width = 256
    hidden: WidthOrZero = 0  # of the feed-forward; 0: four times the width
    context: Context = 512
    segments: CountOrZero = 2  # sentence A and sentence B; 0: none, as DistilBERT
    norm_epsilon: Positive = 1e-12
    pooler: Literal["none", "first"] = "none"  # first: a layer on [CLS], for decisions about the whole text
    dropout: Share = 0.0
    classifiers: ClassVar[Classifiers] = {
        "bert": ClassifierDefaults(
            {"layers": 2, "heads": 4, "width": 128, "dropout": 0.1, "pooler": "first"},
            "pooler",
            0.1,
            learning_rate=1e-3,
        ),
    }

    def __post_init__(self) -> None:
        width_of_head(self.width, self.heads)

    def build(self) -> Bert:
        return Bert(self)


# Turc et al. 2019 (tiny to medium), Devlin et al. 2019 (base, large)
PRESETS = {
    "bert-tiny": BertConfig(layers=2, heads=2, width=128, pooler="first"),
    "bert-mini": BertConfig(layers=4, heads=4, width=256, pooler="first"),
    "bert-small": BertConfig(layers=4, heads=8, width=512, pooler="first"),
    "bert-medium": BertConfig(layers=8, heads=8, width=512, pooler="first"),
    "bert-base": BertConfig(layers=12, heads=12, width=768, pooler="first"),
    "bert-large": BertConfig(layers=24, heads=16, width=1024, pooler="first"),
}


class Pooler(nn.Module):
    """tanh(W x₀ + b): the vector of [CLS] through one layer; called as the poolings of blocks/heads.py are."""

    def __init__(self, dense: nn.Linear) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B D"]:
        return torch.tanh(self.dense(x[:, 0]))


class Bert(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, epsilon, dropout = config.width, config.norm_epsilon, config.dropout
        hidden = config.hidden or 4 * width
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width

        def attention() -> MultiHeadAttention:
            query, key, value, output = (nn.Linear(width, width) for _ in range(4))
            return MultiHeadAttention(query, key, value, output, heads=config.heads, dropout=dropout)

        def feedforward() -> FeedForward:
            return FeedForward(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

        self.embedding = Embedding(config.vocabulary, width)
        self.positions = LearnedPositions(config.context, width)
        self.segments = LearnedPositions(config.segments, width) if config.segments else NoPositions()
        self.embedding_norm, self.dropout = LayerNorm(width, epsilon), Dropout(dropout)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            Block(
                PostNorm(attention(), LayerNorm(width, epsilon), dropout),
                PostNorm(feedforward(), LayerNorm(width, epsilon), dropout),
            )
            for _ in range(config.layers)
        )
        self.pooler = Pooler(nn.Linear(width, width)) if config.pooler == "first" else nn.Identity()
        initialization.normal_(self.modules(), 0.02)

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """A vector for every token. `present` is True for real tokens (none given: all); segments are 0 by default."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.positions(self.embedding(tokens), positions)
        x = self.segments(x, torch.zeros_like(tokens) if segments is None else segments)
        x = self.embedded(self.dropout(self.embedding_norm(x)))
        mask = None if present is None else masks.padding(present)
        for block in self.blocks:
            x = block(x, mask=mask)
        return x

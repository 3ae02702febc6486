"""The Transformer encoder of the decks (001-004), with the parts they offer to choose from (Vaswani et al. 2017).

    x = E[tokens] + P[positions] (+ S[segments])
    pre:   N times: x += attention(norm(x)), x += feedforward(norm(x));  norm(x)
    post:  N times: x = norm(x + attention(x)), x = norm(x + feedforward(x))

Every token attends to both sides; the mask hides padding. bert.py is the architecture of one paper, this is not.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, FeedForward, PostNorm, PreNorm
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding, Segments, TokenMask, Tokens
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions, NoPositions, RotaryPositions, SinusoidalPositions
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


@strict
class EncoderConfig:
    kind: Literal["encoder"] = "encoder"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 2
    heads: Width = 4
    width: Width = 128
    hidden: WidthOrZero = 0  # of the feed-forward; 0: four times the width
    context: Context = 512
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu"] = "relu"
    segments: CountOrZero = 0  # sentence A, sentence B, …; 0: all alike
    dropout: Share = 0.0
    classifiers: ClassVar[Classifiers] = {
        "encoder": ClassifierDefaults({"layers": 2, "heads": 4, "width": 128, "dropout": 0.2}, learning_rate=1e-3),
    }

    def __post_init__(self) -> None:
        if width_of_head(self.width, self.heads) % 2 and self.positions == "rotary":
            raise ValueError("rotary positions turn pairs: the head width (width / heads) must be even")

    def build(self) -> Encoder:
        return Encoder(self)


class Encoder(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, heads, hidden = config.width, config.heads, config.hidden or 4 * config.width
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width
        added = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
        turned = [RotaryPositions(config.context, width // heads)] if config.positions == "rotary" else [NoPositions()]
        activation = {"relu": nn.ReLU, "gelu": nn.GELU}[config.activation]
        order = {"pre": PreNorm, "post": PostNorm}[config.norm]

        def attention() -> MultiHeadAttention:
            query, key, value, output = (nn.Linear(width, width) for _ in range(4))
            return MultiHeadAttention(
                query, key, value, output, heads=heads, dropout=config.dropout, positions=turned[0]
            )

        def feedforward() -> FeedForward:
            return FeedForward(nn.Linear(width, hidden), activation(), nn.Linear(hidden, width))

        self.embedding = Embedding(config.vocabulary, width)
        self.positions = added[config.positions](config.context, width) if config.positions in added else NoPositions()
        self.segments = LearnedPositions(config.segments, width) if config.segments else NoPositions()
        self.dropout = Dropout(config.dropout)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            Block(
                order(attention(), LayerNorm(width), config.dropout),
                order(feedforward(), LayerNorm(width), config.dropout),
            )
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(width) if config.norm == "pre" else nn.Identity()
        self._initialize()

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """A vector for every token. `present` is True for real tokens (none given: all); segments are 0 by default."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.positions(self.embedding(tokens), positions)
        x = self.segments(x, torch.zeros_like(tokens) if segments is None else segments)
        x = self.embedded(self.dropout(x))
        mask = None if present is None else masks.padding(present)
        for block in self.blocks:
            x = block(x, mask=mask, positions=positions)
        return self.norm(x)

    def _initialize(self) -> None:
        """Every block starts as the identity, embeddings have the size of sinusoidal positions; learned positions start
        small."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.embedding.weight, std=0.5)
        for part in (self.positions, self.segments):
            if isinstance(part, LearnedPositions):
                nn.init.normal_(part.table.weight, std=0.02)

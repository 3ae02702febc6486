"""Vision: a Transformer on patches of an image (Dosovitskiy et al. 2021). Deck 003, "any tokens".

    x = W patches + b + P[positions];  N times: x += attention(norm(x)), x += feedforward(norm(x));  norm(x)

GPT's and BERT's block, without a mask. Instead of a token for the whole image there is the classifier's mean pooling
(Beyer et al. 2022).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, FeedForward, PreNorm
from qkv.blocks.dropout import Dropout
from qkv.blocks.image_patches import Patches, RandomShift
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions
from qkv.blocks.tap import Tap
from qkv.config import CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


@strict
class PatchesConfig:
    kind: Literal["patches"] = "patches"
    height: Width = 28
    width_pixels: Width = 28
    channels: Width = 1  # 1: grey, 3: red, green and blue
    patch: Width = 4  # pixels a side
    layers: Layers = 4
    heads: Width = 4
    width: Width = 64
    hidden: WidthOrZero = 0  # of the feed-forward; 0: four times the width
    shift: CountOrZero = 1  # in training, pixels by which an image may be moved to each side
    dropout: Share = 0.0
    classifiers: ClassVar[Classifiers] = {
        "vision": ClassifierDefaults({"patch": 7, "layers": 2}, learning_rate=3e-3, epochs=40.0, dropout=0.1),
    }

    def __post_init__(self) -> None:
        width_of_head(self.width, self.heads)
        if self.height % self.patch or self.width_pixels % self.patch:
            raise ValueError(
                f"an image of {self.height} x {self.width_pixels} does not divide into patches of {self.patch}"
            )

    @property
    def vocabulary(self) -> int:
        return 0

    @property
    def context(self) -> int:
        """How many patches an image has."""
        return (self.height // self.patch) * (self.width_pixels // self.patch)

    def build(self) -> PatchEncoder:
        return PatchEncoder(self)


class PatchEncoder(nn.Module):
    def __init__(self, config: PatchesConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden or 4 * config.width
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width

        def attention() -> MultiHeadAttention:
            query, key, value, output = (nn.Linear(width, width) for _ in range(4))
            return MultiHeadAttention(query, key, value, output, heads=config.heads, dropout=config.dropout)

        def feedforward() -> FeedForward:
            return FeedForward(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

        self.shift, self.patches = RandomShift(config.shift), Patches(config.patch)
        self.embedding = nn.Linear(config.patch**2 * config.channels, width)
        self.positions = LearnedPositions(config.context, width)
        self.dropout = Dropout(config.dropout)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            Block(
                PreNorm(attention(), LayerNorm(width), config.dropout),
                PreNorm(feedforward(), LayerNorm(width), config.dropout),
            )
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(width)
        self._initialize()

    def forward(
        self, pixels: Float[Tensor, "B H W C"], present: None = None, segments: None = None
    ) -> Float[Tensor, "B T D"]:
        """Called as every encoder is; an image has no padding and no segments."""
        x = self.embedding(self.patches(2 * self.shift(pixels) - 1))
        x = self.embedded(self.dropout(self.positions(x, torch.arange(x.size(1), device=x.device))))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def _initialize(self) -> None:
        """Every block starts as the identity; positions differ from the first step on."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.positions.table.weight, std=0.2)

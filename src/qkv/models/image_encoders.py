"""Encoders of pictures: a CNN (LeCun et al. 1998; deck 001) and a Transformer on patches (Dosovitskiy et al. 2021).

    CNN       x = 2 pixels - 1;  N times: x = maxpool(relu(conv(x)));  flat: one vector relu(W x + b);  grid: one a cell
    patches   x = W patches + b + P[places];  N times: x += attention(norm(x)), x += feedforward(norm(x));  norm(x)

Each layer of the CNN halves the sides and doubles the features, up to the width; the classifier's head is the last
layer of its MLP. Patches are "any tokens" (deck 003): GPT's and BERT's block, without a mask. Instead of a token for
the whole picture there is the classifier's mean pooling (Beyer et al. 2022).
"""

from __future__ import annotations

from typing import Literal

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


@strict
class PictureCNNConfig:
    kind: Literal["picture-cnn"] = "picture-cnn"
    height: Width = 28
    width_pixels: Width = 28
    channels: Width = 1  # 1: grey, 3: red, green and blue
    layers: Layers = 2
    width: Width = 64
    kernel: Width = 3
    joined: Literal["flat", "grid"] = "flat"  # flat: all cells at once through a layer; grid: the pooling joins them
    shift: CountOrZero = 1  # in training, pixels by which a picture may be moved to each side

    def __post_init__(self) -> None:
        if not self.kernel % 2:
            raise ValueError(f"kernel = {self.kernel} has no middle; expected an odd number")
        if min(self.height, self.width_pixels) >> self.layers < 1:
            raise ValueError(
                f"a picture of {self.height} x {self.width_pixels} cannot be halved {self.layers} times; "
                "choose fewer layers"
            )

    @property
    def vocabulary(self) -> int:
        return 0

    @property
    def cells(self) -> int:
        return (self.height >> self.layers) * (self.width_pixels >> self.layers)

    @property
    def context(self) -> int:
        """How many vectors come out."""
        return 1 if self.joined == "flat" else self.cells

    def build(self) -> PictureCNN:
        return PictureCNN(self)


class PictureCNN(nn.Module):
    def __init__(self, config: PictureCNNConfig) -> None:
        super().__init__()
        width, layers = config.width, config.layers
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width
        features = [max(1, width >> depth) for depth in reversed(range(layers))]
        inputs = [config.channels, *features[:-1]]

        def block(inputs: int, outputs: int) -> nn.Sequential:
            convolution = nn.Conv2d(inputs, outputs, config.kernel, padding=config.kernel // 2)
            return nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2), Tap())

        self.shift = RandomShift(config.shift)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(block(*sizes) for sizes in zip(inputs, features, strict=True))
        flat = nn.Sequential(nn.Flatten(), nn.Linear(config.cells * width, width), nn.ReLU(), nn.Unflatten(1, (1, -1)))
        self.joined = flat if config.joined == "flat" else GridCells()

    def forward(
        self, pixels: Float[Tensor, "B H W C"], present: None = None, segments: None = None
    ) -> Float[Tensor, "B T D"]:
        """Called as every encoder is; a picture has no padding and no segments."""
        x = self.embedded(2 * self.shift(pixels) - 1).permute(0, 3, 1, 2)  # (B, H, W, C) -> (B, C, H, W)
        for block in self.blocks:
            x = block(x)
        return self.joined(x)


class GridCells(nn.Module):
    """The grid as a sequence, row by row."""

    def forward(self, x: Float[Tensor, "B D H W"]) -> Float[Tensor, "B T D"]:
        return x.flatten(2).transpose(1, 2)


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
    shift: CountOrZero = 1  # in training, pixels by which a picture may be moved to each side
    dropout: Share = 0.0

    def __post_init__(self) -> None:
        width_of_head(self.width, self.heads)
        if self.height % self.patch or self.width_pixels % self.patch:
            raise ValueError(
                f"a picture of {self.height} x {self.width_pixels} does not divide into patches of {self.patch}"
            )

    @property
    def vocabulary(self) -> int:
        return 0

    @property
    def context(self) -> int:
        """How many patches a picture has."""
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
        """Called as every encoder is; a picture has no padding and no segments."""
        x = self.embedding(self.patches(2 * self.shift(pixels) - 1))
        x = self.embedded(self.dropout(self.positions(x, torch.arange(x.size(1), device=x.device))))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def _initialize(self) -> None:
        """Every block starts as the identity; places are told apart from the first step on."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.positions.table.weight, std=0.2)

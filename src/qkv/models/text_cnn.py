"""Text CNN: kernels of several widths look for phrases (Kim 2014), and `max` pooling keeps the largest value of each.

    y_t = [relu(conv_3(x))_t; relu(conv_4(x))_t; relu(conv_5(x))_t],  x = E[tokens]

The kernels see both sides; beyond the text there are zeros, and so are padding tokens. Further layers are added to the
stream, x += y(norm(x)); the paper has one.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.block import PreNorm
from qkv.blocks.convolution import Convolution
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding, Segments, TokenMask, Tokens
from qkv.blocks.norms import LayerNorm
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


@strict
class TextCNNConfig:
    kind: Literal["text-cnn"] = "text-cnn"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 1
    width: Width = 192  # features of all kernels together
    kernels: Annotated[tuple[Width, ...], Field(min_length=1, max_length=16)] = (3, 4, 5)  # tokens that each one sees
    embedding_width: WidthOrZero = 0  # 0: the width
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    dropout: Share = 0.0
    classifiers: ClassVar[Classifiers] = {
        "cnn": ClassifierDefaults({"width": 384, "embedding_width": 128, "dropout": 0.3}, pooling="max", dropout=0.5),
    }

    def __post_init__(self) -> None:
        if self.width % len(self.kernels):
            raise ValueError(f"width {self.width} does not divide into {len(self.kernels)} kernels")

    def build(self) -> TextCNN:
        return TextCNN(self)


class Phrases(nn.Module):
    """Convolutions side by side, over real tokens only."""

    def __init__(self, *kernels: Convolution) -> None:
        super().__init__()
        self.kernels = nn.ModuleList(kernels)

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T _"]:
        x = x if present is None else x.masked_fill(~present.unsqueeze(-1), 0.0)
        return torch.cat([kernel(x) for kernel in self.kernels], -1).relu()


class TextCNN(nn.Module):
    def __init__(self, config: TextCNNConfig) -> None:
        super().__init__()
        width, numbers = config.width, config.embedding_width or config.width
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width

        def phrases(inputs: int) -> Phrases:
            features = width // len(config.kernels)
            return Phrases(*(Convolution(inputs, kernel, outputs=features) for kernel in config.kernels))

        self.embedding = Embedding(config.vocabulary, numbers)
        self.dropout = Dropout(config.dropout)
        self.embedded = Tap()
        further = (PreNorm(phrases(width), LayerNorm(width), config.dropout) for _ in range(config.layers - 1))
        self.blocks = nn.ModuleList([phrases(numbers), *further])
        initialization.fan_in_(self.modules(), 1.0)
        nn.init.normal_(self.embedding.weight, std=0.5)

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        x = self.embedded(self.dropout(self.embedding(tokens)))
        for block in self.blocks:
            x = block(x, present)
        return x

"""A classifier: text in, a decision out. Encoder, pooling and head are parts that are passed in (all decks).

    scores = head(pooling(encoder(tokens)))

BERT classifies by its pooler and one linear layer (Devlin et al. 2019), DistilBERT by [CLS] and two layers.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.dropout import Dropout
from qkv.blocks.heads import MultiLayerHead
from qkv.blocks.pooling import FirstPooling, LastPooling, MeanPooling
from qkv.blocks.tap import Tap
from qkv.config import Share, strict
from qkv.models.bert import BertConfig
from qkv.models.encoded import Encoded


@strict
class ClassifierConfig(Encoded):
    kind: Literal["classifier"] = "classifier"
    encoder: BertConfig = BertConfig()
    pooling: Literal["pooler", "first", "mean", "last"] = "mean"  # pooler: the encoder's own
    head: Literal["linear", "two-layer"] = "linear"
    labels: tuple[str, ...] = ()
    problem: Literal["single", "multi", "regression"] = "single"  # one label a text, any number, or numbers
    dropout: Share = 0.0  # before the last layer

    def __post_init__(self) -> None:
        expected = "first" if self.pooling == "pooler" else "none"
        if self.encoder.pooler != expected:
            found = self.encoder.pooler
            raise ValueError(f"pooling = {self.pooling!r} needs encoder.pooler = {expected!r}, not {found!r}")

    def build(self) -> Classifier:
        encoder, width = self.encoder.build(), self.width
        poolings = {"first": FirstPooling, "mean": MeanPooling, "last": LastPooling}
        pooling = EncoderPooling(encoder.pooler) if self.pooling == "pooler" else poolings[self.pooling]()
        last, dropout = nn.Linear(width, len(self.labels)), Dropout(self.dropout)
        if self.head == "linear":
            return Classifier(encoder, pooling, last, dropout)
        between = nn.Sequential(nn.ReLU(), dropout)
        return Classifier(encoder, pooling, MultiLayerHead(nn.Linear(width, width), between, last), nn.Identity())


class EncoderPooling(nn.Module):
    """The pooling that the encoder has learned."""

    def __init__(self, pooler: nn.Module) -> None:
        super().__init__()
        self._pooler = (pooler,)  # in a tuple: it stays the encoder's, and is saved once

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        return self._pooler[0](x, present)


class Classifier(nn.Module):
    def __init__(self, encoder: nn.Module, pooling: nn.Module, head: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.vocabulary, self.context = encoder.vocabulary, encoder.context
        self.encoder, self.pooling, self.head, self.dropout = encoder, pooling, head, dropout
        self.pooled, self.logits = Tap(), Tap()
        initialization.normal_(head.modules(), 0.02)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        present: Bool[Tensor, "B T"] | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B L"]:
        """A score for every label."""
        there = torch.ones_like(tokens, dtype=torch.bool) if present is None else present
        pooled = self.pooled(self.pooling(self.encoder(tokens, present, segments), there))
        return self.logits(self.head(self.dropout(pooled)))

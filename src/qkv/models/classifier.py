"""Classifier: a decision for a text. Encoder, pooling and head are passed in.

    scores = head(pooling(encoder(tokens)))

BERT classifies by its pooler and one linear layer (Devlin et al. 2019), DistilBERT by [CLS] and two layers, GPT by the
last vector and one matrix (Radford et al. 2018); deck 004 by the mean, deck 001 by an RNN's last vector and an MLP. An
image is classified the same way.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.dropout import Dropout
from qkv.blocks.heads import AttentionPooling, FirstPooling, LastPooling, MaxPooling, MeanPooling, MultiLayerHead
from qkv.blocks.tap import Tap
from qkv.config import Positive, Share, strict
from qkv.models.bert import BertConfig
from qkv.models.encoders import GIVES_SCORES, Encoded, TextOrImageEncoder, build, require_fit


@strict
class ClassifierConfig(Encoded):
    kind: Literal["classifier"] = "classifier"
    encoder: TextOrImageEncoder = BertConfig()
    pooling: Literal["pooler", "first", "mean", "last", "max", "attention"] = "mean"  # pooler: the encoder's own
    head: Literal["linear", "no-bias", "two-layer"] = "linear"  # no-bias: scores are W x, nothing is added
    labels: tuple[str, ...] = ()
    problem: Literal["single", "multi", "regression"] = "single"  # one label a text, any number, or numbers
    texts: Literal[1, 2] = 1  # that are classified together
    dropout: Share = 0.0  # before the last layer
    center: Annotated[float, Field(ge=-3e38, le=3e38, allow_inf_nan=False)] = 0.0
    """Of numbers to predict: scores are learned as (y - center) / spread."""
    spread: Positive = 1.0

    def __post_init__(self) -> None:
        require_fit(self.encoder, len(self.labels))
        expected = "first" if self.pooling == "pooler" else "none"
        pooler = getattr(self.encoder, "pooler", "none")
        if pooler != expected:
            raise ValueError(f"pooling = {self.pooling!r} needs encoder.pooler = {expected!r}, not {pooler!r}")
        if self.encoder.kind in GIVES_SCORES and (self.head != "linear" or self.dropout):
            given = f"not head = {self.head!r}, dropout = {self.dropout}"
            raise ValueError(f"a linear model gives the scores itself: expected head = 'linear', dropout = 0, {given}")

    def build(self) -> Classifier:
        classifier = self._built()
        if (self.center, self.spread) != (0.0, 1.0):
            classifier.scale = ScoreScale(self.center, self.spread)
        return classifier

    def _built(self) -> Classifier:
        encoder, width = build(self.encoder, len(self.labels)), self.width
        match self.pooling:
            case "pooler":
                pooling: nn.Module = EncoderPooling(encoder.pooler)
            case "attention":
                pooling = AttentionPooling(width)
            case plain:
                pooling = {"first": FirstPooling, "mean": MeanPooling, "last": LastPooling, "max": MaxPooling}[plain]()
        dropout = Dropout(self.dropout)
        if self.encoder.kind in GIVES_SCORES:
            return Classifier(encoder, pooling, nn.Identity(), nn.Identity())
        last = nn.Linear(width, len(self.labels), bias=self.head != "no-bias")
        if self.head != "two-layer":
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


class ScoreScale(nn.Module):
    """From scores around zero to numbers as people give them."""

    def __init__(self, center: float, spread: float) -> None:
        super().__init__()
        self.center, self.spread = center, spread

    def forward(self, x: Float[Tensor, "B L"]) -> Float[Tensor, "B L"]:
        return x.float() * self.spread + self.center  # bf16 has three digits: years would be multiples of 8


class Classifier(nn.Module):
    def __init__(self, encoder: nn.Module, pooling: nn.Module, head: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.vocabulary, self.context = encoder.vocabulary, encoder.context
        self.encoder, self.pooling, self.head, self.dropout = encoder, pooling, head, dropout
        self.pooled, self.logits = Tap(), Tap()
        self.scale: nn.Module = nn.Identity()
        initialization.normal_(head.modules(), 0.02)

    def forward(
        self,
        tokens: Int[Tensor, "B T"] | Float[Tensor, "B H W C"],
        present: Bool[Tensor, "B T"] | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B L"]:
        """A score for every label; for an encoder of images, `tokens` are pixels."""
        x = self.encoder(tokens, present, segments)
        there = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if present is None else present
        return self.of_pooled(self.pooling(x, there))

    def of_pooled(self, pooled: Float[Tensor, "B D"]) -> Float[Tensor, "B L"]:
        """The scores of texts whose vectors are known."""
        return self.logits(self.scale(self.head(self.dropout(self.pooled(pooled)))))

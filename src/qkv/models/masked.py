"""A masked language model: which token stood under [MASK]? (Devlin et al. 2019, section 3.1; deck 002)

    logits = norm(gelu(W x + b)) Eᵀ + c          E: the encoder's own table

With a next-sentence head it also predicts whether the second sentence followed the first, from the pooled [CLS].
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.embeddings import Segments, TokenMask, Tokens
from qkv.blocks.norms import LayerNorm
from qkv.blocks.tap import Tap
from qkv.config import strict
from qkv.models.bert import Bert, BertConfig
from qkv.models.defaults import Defaults, ModelDefaults, OptimizerDefaults, adamw
from qkv.models.encoders import Encoded


@strict
class MaskedConfig(Encoded):
    kind: Literal["masked"] = "masked"
    encoder: BertConfig = BertConfig()
    next_sentence: Literal["none", "linear"] = "none"  # linear: as BertForPreTraining
    defaults: ClassVar[Defaults] = {
        "masked": ModelDefaults(
            {
                "muon": OptimizerDefaults(3e-3, (0.9, 0.98), matrix_learning_rate=0.02, momentum=0.95),
                "adamw": adamw(1e-3, (0.9, 0.98)),
            }
        ),
    }

    def __post_init__(self) -> None:
        expected = "none" if self.next_sentence == "none" else "first"
        if self.encoder.pooler != expected:
            pooler = self.encoder.pooler
            raise ValueError(
                f"next_sentence = {self.next_sentence!r} needs encoder.pooler = {expected!r}, not {pooler!r}"
            )

    def build(self) -> Masked:
        encoder = self.encoder.build()
        order = nn.Linear(self.width, 2) if self.next_sentence == "linear" else nn.Identity()
        return Masked(encoder, MaskedHead(encoder.embedding, self.encoder.norm_epsilon), order)


class MaskedHead(nn.Module):
    """From vectors, at any positions, to a score for every token, by the embedding table used backwards."""

    def __init__(self, embedding: nn.Embedding, epsilon: float) -> None:
        super().__init__()
        width = embedding.embedding_dim
        self.dense, self.activation, self.norm = nn.Linear(width, width), nn.GELU(), LayerNorm(width, epsilon)
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings))
        self._embedding = (embedding,)  # in a tuple: the table stays the encoder's, and is saved once

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        return F.linear(self.norm(self.activation(self.dense(x))), self._embedding[0].weight, self.bias)


class Masked(nn.Module):
    def __init__(self, encoder: Bert, head: MaskedHead, order: nn.Module) -> None:
        super().__init__()
        self.vocabulary, self.context = encoder.vocabulary, encoder.context
        self.encoder, self.head, self.order = encoder, head, order
        self.logits = Tap()
        initialization.normal_([head.dense, order], 0.02)

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T V"]:
        """A score for every token at every position."""
        return self.logits(self.head(self.encoder(tokens, present, segments)))

    def followed(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B 2"]:
        """From the encoder's vectors: scores for "the second sentence follows" and for "it does not"."""
        return self.order(self.encoder.pooler(x))

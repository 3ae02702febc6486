"""Tagger: a decision for every token, as for names in text (Devlin et al. 2019, section 5.3).

scores = head(encoder(tokens))          of a word of several tokens, the first decides

Each word alone, by a softmax, or the tags of a sentence together, by a linear-chain CRF (Lample et al. 2016).
"""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.crf import IndependentTags, LinearChainCRF
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Segments, TokenMask, Tokens
from qkv.blocks.tap import Tap
from qkv.config import Share, strict
from qkv.models.bert import BertConfig
from qkv.models.encoders import GIVES_SCORES, Encoded, TextEncoder, build, require_fit
from qkv.models.tag_schemes import Scheme, forbidden


@strict
class TaggerConfig(Encoded):
    kind: Literal["tagger"] = "tagger"
    encoder: TextEncoder = BertConfig()
    labels: tuple[str, ...] = ()
    head: Literal["linear", "crf"] = "linear"  # crf: the tags of a sentence are chosen together
    scheme: Scheme = "none"  # sequences of tags that it does not allow are never decoded; for crf
    dropout: Share = 0.0  # before the last layer

    def __post_init__(self) -> None:
        require_fit(self.encoder, len(self.labels))
        if getattr(self.encoder, "pooler", "none") != "none":
            raise ValueError("a tagger has no use for a pooler: expected encoder.pooler = 'none'")
        if self.scheme != "none" and self.head != "crf":
            raise ValueError(f"scheme = {self.scheme!r} is kept by head = 'crf' alone, not by {self.head!r}")

    def build(self) -> Tagger:
        encoder, labels = build(self.encoder, len(self.labels)), len(self.labels)
        head = nn.Identity() if self.encoder.kind in GIVES_SCORES else nn.Linear(self.width, labels)
        if self.head == "linear":
            return Tagger(encoder, head, self.dropout)
        chain = LinearChainCRF(labels)
        if self.scheme != "none":
            chain.forbid(*forbidden(self.labels, self.scheme))
        return Tagger(encoder, head, self.dropout, chain)


class Tagger(nn.Module):
    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        dropout: float = 0.0,
        chain: IndependentTags | LinearChainCRF | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary, self.context = encoder.vocabulary, encoder.context
        self.encoder, self.head = encoder, head
        self.chain = chain or IndependentTags()
        self.dropout = Dropout(dropout)
        self.logits = Tap()
        initialization.normal_(head.modules(), 0.02)

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T L"]:
        """A score for every label at every token; `chain` makes probabilities and tags of those of words."""
        return self.logits(self.head(self.dropout(self.encoder(tokens, present, segments))))

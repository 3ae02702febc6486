"""MLP: a feed-forward network over the last n tokens (Bengio et al. 2003), the skeptic's first guess in deck 000.

    x = H [E[w_{t-n+1}]; …; E[w_t]];  N times: x += W₂ f(W₁ norm(x));  logits = W norm(x)

Each place of the past has weights of its own, and nothing is shared between them but the embeddings: what attention and
convolution know about text, it has to learn. Before the start of a text there are zeros. The paper has one layer and no
residual; with them it can be made as deep as asked.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.block import FeedForward, PreNorm, SquaredReLU
from qkv.blocks.bounded_state import PastState
from qkv.blocks.convolution import Convolution
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding
from qkv.blocks.norms import RMSNorm
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import Defaults, ModelDefaults, adamw, muon


@strict
class MLPConfig:
    kind: Literal["mlp"] = "mlp"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 2
    width: Width = 256
    hidden: WidthOrZero = 0  # inside each layer; 0: twice the width
    context: Context = 64  # how far back it sees
    embedding_width: WidthOrZero = 0  # numbers a token; 0: all tokens together have 8 times the width
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        "mlp": ModelDefaults({"muon": muon((0.9, 0.95)), "adamw": adamw(0.008)}, layers=2, shorter_windows=False),
    }

    def build(self) -> MLP:
        return MLP(self)


class MLP(nn.Module):
    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden or 2 * config.width
        numbers = config.embedding_width or max(4, round(8 * width / config.context))
        self.vocabulary, self.context = config.vocabulary, config.context

        def feedforward() -> FeedForward:
            return FeedForward(
                nn.Linear(width, hidden, bias=False), SquaredReLU(), nn.Linear(hidden, width, bias=False)
            )

        self.embedding = Embedding(config.vocabulary, numbers)
        self.embedded = Tap()
        self.dropout = Dropout(config.dropout)
        self.joined = Convolution(numbers, config.context, "causal", outputs=width)
        self.blocks = nn.ModuleList(
            PreNorm(feedforward(), RMSNorm(width, 1e-6), config.dropout) for _ in range(config.layers)
        )
        self.norm = RMSNorm(width, 1e-6)
        self.head = nn.Linear(width, config.vocabulary, bias=False)
        self.logits = Tap()
        self._initialize()

    def state(self, rows: int, capacity: int | None = None) -> PastState:
        return self.joined.state(rows)

    def forward(self, tokens: Int[Tensor, "B T"], state: PastState | None = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.head(self.vectors(tokens, state)))

    def vectors(self, tokens: Int[Tensor, "B T"], state: PastState | None = None) -> Float[Tensor, "B T D"]:
        x = self.embedded(self.dropout(self.embedding(tokens)))
        x = self.joined(x, state=state)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def _initialize(self) -> None:
        """As modern.py: every block starts as the identity, and every next token equally likely."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.embedding.weight, std=0.5)

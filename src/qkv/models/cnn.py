"""A CNN as a language model: convolutions over the past ("maybe a large MLP or CNN could do this", deck 000).

    x = E[tokens];  N times: x += W_down (σ(gate(norm(x))) ⊙ up(norm(x)));  logits = W norm(x)

Gate and up see `kernel` positions of the past (gated convolutions, Dauphin et al. 2017), further apart from layer to
layer (dilations, van den Oord et al. 2016); the stream is modern.py's.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.block import PreNorm
from qkv.blocks.bounded_state import PastState
from qkv.blocks.convolution import Convolution, GatedConvolution
from qkv.blocks.embeddings import Embedding
from qkv.blocks.norms import RMSNorm
from qkv.blocks.state import LayerStates
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import Defaults, ModelDefaults, adamw, muon


@strict
class CNNConfig:
    kind: Literal["cnn"] = "cnn"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 6
    width: Width = 128
    hidden: WidthOrZero = 0  # features of each convolution; 0: the width
    kernel: Width = 3
    growth: Width = 2  # how many times further back each layer reaches than the one below
    context: Context = 256  # the length of a training window; dilations stay below it, then start again from 1
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        "cnn": ModelDefaults({"muon": muon((0.9, 0.95)), "adamw": adamw(0.008)}, layers=6, shorter_windows=False),
    }

    @property
    def dilations(self) -> list[int]:
        """1, growth, growth² … while a kernel so far apart fits into the context, then again from 1."""
        dilations = [1]
        while len(dilations) < self.layers:
            further = dilations[-1] * self.growth
            dilations.append(further if (self.kernel - 1) * further < self.context else 1)
        return dilations

    @property
    def reach(self) -> int:
        """How many tokens a prediction depends on."""
        return 1 + (self.kernel - 1) * sum(self.dilations)

    def build(self) -> CNN:
        return CNN(self)


class CNN(nn.Module):
    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden or config.width
        self.vocabulary, self.context = config.vocabulary, config.context
        self.reaches = [(config.kernel - 1) * dilation for dilation in config.dilations]

        def convolution(dilation: int) -> GatedConvolution:
            gate, up = (
                Convolution(width, config.kernel, "causal", outputs=hidden, dilation=dilation) for _ in range(2)
            )
            return GatedConvolution(gate, up, nn.Sigmoid(), nn.Linear(hidden, width, bias=False))

        self.embedding = Embedding(config.vocabulary, width)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            PreNorm(convolution(dilation), RMSNorm(width, 1e-6), config.dropout) for dilation in config.dilations
        )
        self.norm = RMSNorm(width, 1e-6)
        self.head = nn.Linear(width, config.vocabulary, bias=False)
        self.logits = Tap()
        self._initialize()

    def state(self, rows: int, capacity: int | None = None) -> LayerStates:
        return LayerStates([PastState(rows, reach) for reach in self.reaches])

    def forward(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.head(self.vectors(tokens, state)))

    def vectors(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T D"]:
        x = self.embedded(self.embedding(tokens))
        for depth, block in enumerate(self.blocks):
            x = block(x, state=state.layers[depth] if state else None)
        return self.norm(x)

    def _initialize(self) -> None:
        """As modern.py: every block starts as the identity, and every next token equally likely."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.embedding.weight, std=0.5)

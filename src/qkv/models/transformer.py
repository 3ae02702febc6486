"""The Transformer that translates: encoder and decoder of Vaswani et al. 2017, figure 1; decks 000-002.

    x = √D E[source] + P;  N times: x = norm(x + attention(x)), x = norm(x + feedforward(x))
    y = √D E[tokens] + P;  N times: as above, and between the two y = norm(y + attention(y, x));  logits = y Eᵀ + b

As it stands it is Marian's: norms after each sublayer, all sines before all cosines, one table for source, target and
head. With `norm = "pre"` the norms come first (Xiong et al. 2020), and one more ends each stack.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, CrossBlock, FeedForward, PostNorm, PreNorm
from qkv.blocks.decoder import DecoderState, Memory, Present, Source, TiedBiasedHead
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions, SinusoidalPositions
from qkv.blocks.state import KeyValueState, MemoryState, next_positions
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, LayersOrZero, Share, Width, WidthOrZero, strict
from qkv.models.defaults import Defaults, ModelDefaults, OptimizerDefaults

Remembered = DecoderState[KeyValueState]


@strict
class TransformerConfig:
    kind: Literal["transformer"] = "transformer"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 3
    decoder_layers: LayersOrZero = 0  # 0: as many as the encoder's
    heads: Width = 4
    width: Width = 256
    hidden: WidthOrZero = 0  # of the feed-forward; 0: four times the width
    context: Context = 512
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    norm: Literal["post", "pre"] = "post"
    activation: Literal["relu", "silu", "gelu"] = "relu"
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        "transformer": ModelDefaults({"muon": OptimizerDefaults(3e-3, (0.9, 0.98), matrix_learning_rate=0.02)}),
    }

    def __post_init__(self) -> None:
        width_of_head(self.width, self.heads)

    def build(self) -> Transformer:
        return Transformer(self)


PRESETS = {  # tiny: Wu et al. 2021, for 29,000 pairs; base and big: Vaswani et al. 2017, table 3
    "transformer-tiny": TransformerConfig(layers=4, heads=4, width=128, hidden=256, dropout=0.3),
    "transformer-small": TransformerConfig(layers=3, heads=8, width=256, hidden=512, dropout=0.2),
    "transformer-base": TransformerConfig(layers=6, heads=8, width=512, hidden=2048, dropout=0.1),
    "transformer-big": TransformerConfig(layers=6, heads=16, width=1024, hidden=4096, dropout=0.3),
}


class Transformer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, hidden, dropout = config.width, config.hidden or 4 * config.width, config.dropout
        self.context, self.width = config.context, width
        order = {"post": PostNorm, "pre": PreNorm}[config.norm]
        activation = {"relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}[config.activation]
        waves = SinusoidalPositions(config.context, width, "concatenated")

        def attention() -> nn.Module:
            query, key, value, output = (nn.Linear(width, width) for _ in range(4))
            return order(MultiHeadAttention(query, key, value, output, heads=config.heads), LayerNorm(width), dropout)

        def feedforward() -> nn.Module:
            layer = FeedForward(nn.Linear(width, hidden), activation(), nn.Linear(hidden, width))
            return order(layer, LayerNorm(width), dropout)

        self.embedding = Embedding(config.vocabulary, width)
        self.positions = waves if config.positions == "sinusoidal" else LearnedPositions(config.context, width)
        self.dropout, self.embedded, self.logits = Dropout(dropout), Tap(), Tap()
        self.encoder = nn.ModuleList(Block(attention(), feedforward()) for _ in range(config.layers))
        depth = config.decoder_layers or config.layers
        self.decoder = nn.ModuleList(CrossBlock(attention(), attention(), feedforward()) for _ in range(depth))
        last = nn.Identity if config.norm == "post" else lambda: LayerNorm(width)
        self.encoder_norm, self.decoder_norm = last(), last()
        self.head = TiedBiasedHead(self.embedding)
        initialization.calm_(self, 0.5)
        initialization.normal_([self.embedding, *self.positions.modules()], width**-0.5)

    def state(self, rows: int, capacity: int | None = None) -> Remembered:
        layers = [KeyValueState(rows, capacity or self.context) for _ in self.decoder]
        return DecoderState(layers, [MemoryState() for _ in self.decoder], list(range(rows)))

    def forward(self, source: Source, present: Present, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Scores of the next token after each of `tokens`, all at once, given the source: as in training."""
        return self.logits(self.head(self.vectors(source, present, tokens)))

    def vectors(self, source: Source, present: Present, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return self.decoded(tokens, self.encode(source, present), present)

    def encode(self, source: Source, present: Present) -> Memory:
        """`present` is True for real tokens; no query attends to the others."""
        x = self._embed(source, torch.arange(source.size(1), device=source.device))
        for block in self.encoder:
            x = block(x, mask=masks.padding(present))
        return self.encoder_norm(x)

    def decode(
        self, tokens: Int[Tensor, "R T"], memory: Memory, present: Present, state: Remembered | None = None
    ) -> Float[Tensor, "R T V"]:
        """R is a multiple of B: neighbouring rows share a source. With a state, `tokens` are only the new ones."""
        return self.logits(self.head(self.decoded(tokens, memory, present, state)))

    def decoded(
        self, tokens: Int[Tensor, "R T"], memory: Memory, present: Present, state: Remembered | None = None
    ) -> Float[Tensor, "R T D"]:
        positions, keys = next_positions(state, tokens.size(1), tokens.device)
        held = [(None, None)] * len(self.decoder) if state is None else state.layers(len(memory))
        x, mask, there = self._embed(tokens, positions), masks.causal_or_none(positions, keys), masks.padding(present)
        for block, (own, crossed) in zip(self.decoder, held, strict=True):
            x = block(x, memory, mask=mask, memory_mask=there, state=own, memory_state=crossed)
        return self.decoder_norm(x)

    def _embed(self, tokens: Int[Tensor, "R T"], positions: Int[Tensor, "... T"]) -> Float[Tensor, "R T D"]:
        x = self.positions(self.embedding(tokens) * self.width**0.5, positions)
        return self.embedded(self.dropout(x))

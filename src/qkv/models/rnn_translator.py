"""The translators that Transformers replaced: a recurrence reads, a recurrence writes. Decks 001 and 002.

    m = recurrence(E[source]);  h₀ = tanh(W m_last);  h = recurrence(F[tokens], h₀);  logits = V h̃ + b

Without attention h̃ = h, and one vector holds the whole source (Cho et al. 2014, Sutskever et al. 2014). With it every
word attends to the source, h̃ = tanh(W [c; h]) (Luong et al. 2015; blocks/decoder.py); their input feeding, which
would make training a walk from word to word, is left out. The encoder may read from both sides (Bahdanau et al. 2015).
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.decoder import DecoderState, GlobalAttention, Memory, NoAttention, Present, Source
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding
from qkv.blocks.recurrent import CELLS, Directions, Recurrent, ZeroStart
from qkv.blocks.state import MemoryState, RecurrentState
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import Defaults, ModelDefaults, adamw

Remembered = DecoderState[RecurrentState]


@strict
class RNNTranslatorConfig:
    kind: Literal["rnn-translator"] = "rnn-translator"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    target_vocabulary: CountOrZero = 0  # 0: source and target share one, and its embedding
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    layers: Layers = 1  # of the encoder, and of the decoder
    width: Width = 256  # of the encoder's directions together, and of the decoder
    embedding_width: WidthOrZero = 0  # 0: the width
    directions: Literal[1, 2] = 2
    attention: Literal["dot", "bilinear", "none"] = "bilinear"
    bridge: Literal["linear", "last"] = "linear"  # last: the decoder starts from the encoder's last vector as it is
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        "rnn-translator": ModelDefaults({"adamw": adamw(4e-3, (0.9, 0.98))}),
    }

    def __post_init__(self) -> None:
        if self.width % self.directions:
            raise ValueError(f"width {self.width} does not divide into {self.directions} directions")
        if self.bridge == "last" and (self.layers > 1 or self.cell == "lstm"):
            raise ValueError("bridge = 'last' hands over one vector: it needs layers = 1, and the cell rnn or gru")

    def build(self) -> RNNTranslator:
        return RNNTranslator(self)


class RNNTranslator(nn.Module):
    def __init__(self, config: RNNTranslatorConfig) -> None:
        super().__init__()
        width, layers, numbers = config.width, config.layers, config.embedding_width or config.width
        self.context, self.width = config.context, width
        self.target_vocabulary = config.target_vocabulary or config.vocabulary
        cell, parts = CELLS[config.cell]
        self.shape, self.reading = (parts, layers, width), width // config.directions

        def direction(inputs: int) -> Recurrent:
            return Recurrent(cell(inputs, self.reading, batch_first=True), ZeroStart(parts, 1, self.reading))

        def attention() -> nn.Module:
            key = nn.Linear(width, width, bias=False) if config.attention == "bilinear" else nn.Identity()
            return GlobalAttention(key, nn.Linear(2 * width, width, bias=False))

        tables = [config.vocabulary, *([config.target_vocabulary] if config.target_vocabulary else [])]
        self.embedding = nn.ModuleList(Embedding(rows, numbers) for rows in tables)  # the source's, and the target's
        self.dropout, self.embedded, self.logits = Dropout(config.dropout), Tap(), Tap()
        inputs = [numbers, *(width for _ in range(layers - 1))]
        self.encoder = nn.ModuleList(Directions(*(direction(n) for _ in range(config.directions))) for n in inputs)
        linear = nn.Sequential(nn.Linear(width, math.prod(self.shape)), nn.Tanh())
        self.bridge = linear if config.bridge == "linear" else nn.Identity()
        between = config.dropout if layers > 1 else 0.0  # torch warns of dropout after the only layer
        written = cell(numbers, width, layers, batch_first=True, dropout=between)
        self.decoder = Recurrent(written, ZeroStart(parts, layers, width))
        self.attention = NoAttention() if config.attention == "none" else attention()
        self.head = nn.Linear(width, self.target_vocabulary)
        initialization.fan_in_(self.modules(), 1.0)
        initialization.normal_(self.embedding, 0.1)
        initialization.recurrent_(self.modules())

    def state(self, rows: int, capacity: int | None = None) -> Remembered:
        return DecoderState([self.decoder.state(rows)], [MemoryState()], list(range(rows)))

    def forward(self, source: Source, present: Present, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Scores of the next token after each of `tokens`, all at once, given the source: as in training."""
        return self.logits(self.head(self.vectors(source, present, tokens)))

    def vectors(self, source: Source, present: Present, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return self.decoded(tokens, self.encode(source, present), present)

    def encode(self, source: Source, present: Present) -> Memory:
        x = self.embedded(self.embedding[0](source))
        for layer in self.encoder:
            x = layer(self.dropout(x), present)
        return x

    def decode(
        self, tokens: Int[Tensor, "R T"], memory: Memory, present: Present, state: Remembered | None = None
    ) -> Float[Tensor, "R T V"]:
        """R is a multiple of B: neighbouring rows share a source. With a state, `tokens` are only the new ones."""
        return self.logits(self.head(self.decoded(tokens, memory, present, state)))

    def decoded(
        self, tokens: Int[Tensor, "R T"], memory: Memory, present: Present, state: Remembered | None = None
    ) -> Float[Tensor, "R T D"]:
        ((own, memory_state),) = (state or self.state(len(tokens))).layers(len(memory))
        if not own.begun:
            own.begin(self._start(memory, present, len(tokens)))
        x = self.decoder(self.dropout(self.embedded(self.embedding[-1](tokens))), state=own)
        return self.dropout(self.attention(x, memory, mask=masks.padding(present), state=memory_state))

    def _start(self, memory: Memory, present: Present, rows: int) -> tuple[Tensor, ...]:
        """From where each direction ended: the one at the last real token, the other at the first."""
        last = present.sum(1).clamp(min=1) - 1
        ends = memory[torch.arange(len(memory), device=memory.device), last, : self.reading]
        hidden = self.bridge(torch.cat([ends, memory[:, 0, self.reading :]], -1)).view(len(memory), *self.shape)
        return hidden.repeat_interleave(rows // len(memory), 0).permute(1, 2, 0, 3).unbind(0)

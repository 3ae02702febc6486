"""The recurrent models that Transformers replaced (Elman RNN, GRU, LSTM): language models and encoders. Decks 001, 003.

    language model   x = E[tokens] or one-hot;  h = recurrence(x);  logits = W h + b
    encoder          h_t = [recurrence(h_{t-1}, x_t); recurrence'(h'_{t+1}, x_t)],  x = E[tokens], then the layer below

Deck 003's character model is `input = "one-hot"` with one layer, and its loss looks only at the last position
(`task.positions = "last"`); all positions teach it faster. "Feed the final state to an MLP" (deck 001) is an encoder of
one direction with `last` pooling. With two (Schuster and Paliwal 1997) the second starts at the text's last real token,
whatever stands behind it, and mean or max pooling hears both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding, OneHot, Segments, SpelledEmbedding, TokenMask, Tokens
from qkv.blocks.recurrent import CELLS, Directions, LearnedStart, Recurrent, ZeroStart
from qkv.blocks.state import RecurrentState
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import ModelDefaults, adamw, muon


@strict
class RecurrentConfig:
    kind: Literal["rnn", "gru", "lstm"] = "lstm"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 1
    width: Width = 256
    context: Context = 128  # the length of a training window; nothing in the model depends on it
    input: Literal["embedding", "one-hot"] = "embedding"
    start: Literal["zero", "learned"] = "zero"  # the hidden vector before the first word, h0
    dropout: Share = 0.0
    defaults: ClassVar[Mapping[str, ModelDefaults]] = {
        "rnn": ModelDefaults(
            {"adamw": adamw(0.004, (0.9, 0.99)), "muon": muon((0.9, 0.99))},
            heap_fragmentation={"f32": 2.2, "bf16": 2.2},
            evaluated_widths=4,
        ),
        "gru": ModelDefaults(
            {"adamw": adamw(0.008, (0.9, 0.99)), "muon": muon((0.9, 0.99))},
            heap_fragmentation={"f32": 1.6, "bf16": 1.6},
            evaluated_widths=4,
        ),
        "lstm": ModelDefaults(
            {"adamw": adamw(0.012, (0.9, 0.99)), "muon": muon((0.9, 0.99))},
            heap_fragmentation={"f32": 1.25, "bf16": 1.3},
            evaluated_widths=4,
        ),
    }

    def build(self) -> RecurrentLanguageModel:
        return RecurrentLanguageModel(self)


class RecurrentLanguageModel(nn.Module):
    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        width, layers, vocabulary = config.width, config.layers, config.vocabulary
        self.vocabulary, self.context = vocabulary, config.context
        layer, parts = CELLS[config.kind]
        embedded = config.input == "embedding"
        self.embedding = Embedding(vocabulary, width) if embedded else OneHot(vocabulary)
        between = config.dropout if layers > 1 else 0.0  # torch warns of a dropout that has no place
        self.recurrent = Recurrent(
            layer(width if embedded else vocabulary, width, layers, batch_first=True, dropout=between),
            (LearnedStart if config.start == "learned" else ZeroStart)(parts, layers, width),
        )
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(width, vocabulary)
        self.embedded, self.logits = Tap(), Tap()
        initialization.fan_in_([self.head], 0.5)
        if isinstance(self.embedding, nn.Embedding):
            nn.init.normal_(self.embedding.weight, std=0.5)

    def state(self, rows: int, capacity: int | None = None) -> RecurrentState:
        return self.recurrent.state(rows)

    def forward(self, tokens: Int[Tensor, "B T"], state: RecurrentState | None = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.head(self.vectors(tokens, state)))

    def vectors(self, tokens: Int[Tensor, "B T"], state: RecurrentState | None = None) -> Float[Tensor, "B T D"]:
        x = self.embedded(self.dropout(self.embedding(tokens)))
        x = self.recurrent(x, state=state)
        return self.dropout(x)


@strict
class RecurrentEncoderConfig:
    kind: Literal["recurrent-encoder"] = "recurrent-encoder"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    layers: Layers = 1
    width: Width = 256  # of all directions together
    directions: Literal[1, 2] = 2
    start: Literal["zero", "learned"] = "zero"  # the hidden vector before the first word, h0
    embedding_width: WidthOrZero = 0  # 0: the width
    letters: CountOrZero = 0  # rows of a table of letter n-grams, so that a piece knows its spelling; 0: none
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    dropout: Share = 0.0

    def __post_init__(self) -> None:
        if self.width % self.directions:
            raise ValueError(f"width {self.width} does not divide into {self.directions} directions")
        if self.letters == 1:  # its first row stands for no letters
            raise ValueError("letters = 1: expected 0 (none) or at least 2")

    def build(self) -> RecurrentEncoder:
        return RecurrentEncoder(self)


class RecurrentEncoder(nn.Module):
    def __init__(self, config: RecurrentEncoderConfig) -> None:
        super().__init__()
        width, numbers = config.width, config.embedding_width or config.width
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width
        cell, parts = CELLS[config.cell]
        start = LearnedStart if config.start == "learned" else ZeroStart

        def direction(inputs: int) -> Recurrent:
            hidden = width // config.directions
            return Recurrent(cell(inputs, hidden, batch_first=True), start(parts, 1, hidden))

        self.embedding = (
            SpelledEmbedding(config.vocabulary, numbers, config.letters)
            if config.letters
            else Embedding(config.vocabulary, numbers)
        )
        self.dropout = Dropout(config.dropout)
        self.embedded = Tap()
        inputs = [numbers, *(width for _ in range(config.layers - 1))]
        self.blocks = nn.ModuleList(
            Directions(*(direction(numbers) for _ in range(config.directions))) for numbers in inputs
        )
        initialization.normal_(self.embedding.modules(), 0.05)
        initialization.recurrent_(self.modules())

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """Padding stands behind the text."""
        x = self.embedded(self.embedding(tokens))
        for block in self.blocks:
            x = block(self.dropout(x), present)
        return x

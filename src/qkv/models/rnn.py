"""The recurrent language models that Transformers replaced: Elman RNN, GRU, LSTM. Decks 001 and 003.

    x = E[tokens] or one-hot;  h = recurrence(x);  logits = W h + b

Deck 003's character model is `input = "one-hot"` with one layer, and its loss looks only at the last position
(`task.positions = "last"`); all positions teach it faster.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding, OneHot
from qkv.blocks.recurrent import CELLS, LearnedStart, Recurrent, ZeroStart
from qkv.blocks.state import RecurrentState
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, strict
from qkv.models.defaults import Defaults, ModelDefaults, adamw, muon


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
    recurrent: ClassVar[bool] = True  # it reads on, however short the texts were that taught it
    defaults: ClassVar[Defaults] = {
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
        between = config.dropout if layers > 1 else 0.0  # torch warns of dropout after the only layer
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

"""Recurrent encoders (Elman RNN, GRU, LSTM) that read a text in one direction or both. Decks 001 and 003.

    h_t = [recurrence(h_{t-1}, x_t); recurrence'(h'_{t+1}, x_t)],  x = E[tokens], then the layer below

"Feed the final state to an MLP" (deck 001) is an encoder of one direction with `last` pooling. With two directions
(Schuster and Paliwal 1997) the second starts at the text's last real token, and mean or max pooling sees both.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding, Segments, SpelledEmbedding, TokenMask, Tokens
from qkv.blocks.recurrent import CELLS, Directions, LearnedStart, Recurrent, ZeroStart
from qkv.blocks.tap import Tap
from qkv.blocks.word_features import WordFeatures, at_tokens
from qkv.config import Context, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


def _spelled(cell: str, dropout: float) -> dict[str, Any]:
    """Sizes of two directions over tokens that know their spelling."""
    return {"cell": cell, "width": 200, "embedding_width": 128, "letters": 20_000, "dropout": dropout}


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
    letters: CountOrZero = 0  # rows of a table of letter n-grams, so that a token knows its spelling; 0: none
    features: CountOrZero = 0  # rows of a table of features of words, which are then read word by word; 0: tokens
    feature_dropout: Share = 0.0
    context: Context = 512  # where texts are cut; nothing in the model depends on it
    dropout: Share = 0.0
    recurrent: ClassVar[bool] = True  # it reads on, however short the texts were that taught it
    classifiers: ClassVar[Classifiers] = {
        "rnn": ClassifierDefaults({"cell": "rnn", "width": 128, "dropout": 0.3}, pooling="max"),
        **{
            cell: ClassifierDefaults(
                _spelled(cell, 0.4), "max", dropout=0.5, learning_rate=rate, batch=48, epochs=4.0, steps=700
            )
            for cell, rate in (("gru", 3e-3), ("lstm", 4e-3))
        },
    }
    taggers: ClassVar[Classifiers] = {
        cell: ClassifierDefaults(
            {
                "cell": cell, "width": 200, "embedding_width": 128, "features": 32_768, "feature_dropout": 0.1,
                "dropout": 0.3,
            },
            dropout=0.3, head="crf", learning_rate=4e-3, batch=32, epochs=15.0, steps=2000,
        )
        for cell in ("rnn", "gru", "lstm")
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.width % self.directions:
            raise ValueError(f"width {self.width} does not divide into {self.directions} directions")
        if self.letters == 1:  # its first row stands for no letters
            raise ValueError("letters = 1: expected 0 (none) or at least 2")
        if self.features == 1 or (self.features and self.letters):
            raise ValueError(
                f"features = {self.features}, letters = {self.letters}: expected features = 0 (none) or at least 2, "
                "and one of the two, because the features of a word include its letters"
            )

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

        if config.features:
            self.embedding: nn.Module = WordFeatures(
                config.vocabulary, numbers, config.features, config.feature_dropout
            )
        elif config.letters:
            self.embedding = SpelledEmbedding(config.vocabulary, numbers, config.letters)
        else:
            self.embedding = Embedding(config.vocabulary, numbers)
        self.dropout = Dropout(config.dropout)
        self.embedded = Tap()
        inputs = [numbers, *(width for _ in range(config.layers - 1))]
        self.blocks = nn.ModuleList(
            Directions(*(direction(numbers) for _ in range(config.directions))) for numbers in inputs
        )
        if isinstance(self.embedding, WordFeatures):  # a feature that training never shows says nothing
            nn.init.zeros_(self.embedding.table.weight)
        else:
            initialization.normal_(self.embedding.modules(), 0.05)
        initialization.recurrent_(self.modules())

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """Padding comes after the text."""
        if isinstance(self.embedding, WordFeatures):
            words = self.embedding.words(tokens, present)
            return at_tokens(self._read(self.embedding(words), words.mask), words)
        return self._read(self.embedding(tokens), present)

    def _read(self, x: Float[Tensor, "B T _"], present: TokenMask) -> Float[Tensor, "B T D"]:
        x = self.embedded(x)
        for block in self.blocks:
            x = block(self.dropout(x), present)
        return x

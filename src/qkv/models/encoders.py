"""Configs of models around an encoder (masked.py, classifier.py, tagger.py): their sizes are the encoder's.

Every encoder that a classifier or a tagger can be built around. The union is the registry.

A text encoder gives a vector for every token, `encoder(tokens, present, segments)`, and has `vocabulary`, `context` and
`width`; padding stands behind the text and changes nothing. An encoder of pictures takes pixels instead of tokens. A
language model is one, too, without its head: each vector knows what came before it (Radford et al. 2018; deck 000).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.embeddings import Segments, TokenMask, Tokens
from qkv.models.bag_of_ngrams import BagConfig, LinearConfig
from qkv.models.bert import BertConfig
from qkv.models.cnn import CNNConfig
from qkv.models.encoder import EncoderConfig
from qkv.models.gpt import GPTConfig
from qkv.models.image_cnn import PictureCNNConfig
from qkv.models.llama import LlamaConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.modern_fast import ModernFastConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig
from qkv.models.rnn import RecurrentConfig
from qkv.models.text_cnn import TextCNNConfig
from qkv.models.vision import PatchesConfig


class Encoded:
    encoder: Any
    labels: tuple[str, ...] = ()

    @property
    def vocabulary(self) -> int:
        return self.encoder.vocabulary

    @property
    def layers(self) -> int:
        return self.encoder.layers

    @property
    def width(self) -> int:
        return self.encoder.width or len(self.labels)  # a linear model: a score a label

    @property
    def context(self) -> int:
        return self.encoder.context


ReaderConfig = BertConfig | EncoderConfig | BagConfig | LinearConfig | TextCNNConfig | RecurrentEncoderConfig
LanguageConfig = ModernConfig | GPTConfig | LlamaConfig | RecurrentConfig | MLPConfig | CNNConfig | ModernFastConfig
TextEncoderConfig = ReaderConfig | LanguageConfig
PictureEncoderConfig = PictureCNNConfig | PatchesConfig


def require_fit(config: TextEncoderConfig | PictureEncoderConfig, labels: int) -> None:
    """Refuse an encoder that cannot have this number of labels, where a recipe or a model's file names it."""
    if isinstance(config, LinearConfig) and config.width not in (0, labels):
        raise ValueError(
            f"a linear model has a score for each label: expected encoder.width = {labels} (or 0), not {config.width}"
        )


def build(config: TextEncoderConfig | PictureEncoderConfig, labels: int) -> Any:
    """The encoder of a config; a linear one gives a score for each label, a language model leaves its head behind."""
    if isinstance(config, LinearConfig):
        return replace(config, width=labels).build()
    if isinstance(config, get_args(LanguageConfig)):
        return FromLanguageModel(config.build(), config.width)
    return config.build()


class FromLanguageModel(nn.Module):
    """A language model as an encoder. Its parts keep their names, so that a trained one's weights fit; no head."""

    def __init__(self, model: Any, width: int) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = model.vocabulary, model.context, width
        del model.head
        self._model = (model,)  # in a tuple: its parts stand below under their own names, and are saved once
        for name, part in model.named_children():
            self.add_module(name, part)

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """Padding stands behind the text, where nobody looks: it needs no mask."""
        return self._model[0].vectors(tokens)

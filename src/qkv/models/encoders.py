"""Configs of models around an encoder (masked.py, classifier.py, tagger.py): their sizes are the encoder's.

A text encoder gives a vector for every token, `encoder(tokens, present, segments)`, and has `vocabulary`, `context` and
`width`; padding comes after the text and changes nothing. An encoder of images takes pixels instead of tokens. A
language model is one, too, without its head: each vector knows what came before it (Radford et al. 2018; deck 000).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.embeddings import Segments, TokenMask, Tokens
from qkv.config import ByKind
from qkv.models.registry import IMAGE_ENCODERS, LANGUAGE_MODELS, TEXT_ENCODERS, ModelConfig

TextEncoder = Annotated[ModelConfig, ByKind(TEXT_ENCODERS | LANGUAGE_MODELS)]
TextOrImageEncoder = Annotated[ModelConfig, ByKind(TEXT_ENCODERS | LANGUAGE_MODELS | IMAGE_ENCODERS)]


GIVES_SCORES = ("linear", "linear-words")  # encoders that give a score for each label themselves


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


def require_fit(config: ModelConfig, labels: int) -> None:
    """Refuse an encoder that cannot have this number of labels, where a recipe or a model's file names it."""
    if config.kind in GIVES_SCORES and config.width not in (0, labels):
        raise ValueError(
            f"a linear model has a score for each label: expected encoder.width = {labels} (or 0), not {config.width}"
        )


def build(config: ModelConfig, labels: int) -> Any:
    """The encoder of a config; a linear one gives a score for each label, a language model leaves its head behind."""
    if config.kind in GIVES_SCORES:
        return replace(config, width=labels).build()
    return FromLanguageModel(config.build(), config.width) if config.kind in LANGUAGE_MODELS else config.build()


class FromLanguageModel(nn.Module):
    """A language model as an encoder. Its parts keep their names, so that a trained one's weights fit; no head."""

    def __init__(self, model: Any, width: int) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = model.vocabulary, model.context, width
        self._reads_vectors = hasattr(model, "vectors")
        if self._reads_vectors:
            del model.head
        else:  # a model from outside
            model.head = nn.Identity()
        self._model = (model,)  # in a tuple: its parts stand below under their own names, and are saved once
        for name, part in model.named_children():
            self.add_module(name, part)

    def forward(self, tokens: Tokens, present: TokenMask = None, segments: Segments = None) -> Float[Tensor, "B T D"]:
        """Padding comes after the text, and no real token attends to it: it needs no mask."""
        model = self._model[0]
        vectors: Tensor = model.vectors(tokens) if self._reads_vectors else model(tokens)
        return vectors

"""Configs of models around an encoder (masked.py, classifier.py, tagger.py): their sizes are the encoder's."""

from __future__ import annotations

from typing import Any


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

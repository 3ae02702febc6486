"""Configs of models around an encoder (masked.py, classifier.py, tagger.py): their sizes are the encoder's."""

from __future__ import annotations

from typing import Any


class Encoded:
    encoder: Any

    @property
    def vocabulary(self) -> int:
        return self.encoder.vocabulary

    @property
    def layers(self) -> int:
        return self.encoder.layers

    @property
    def width(self) -> int:
        return self.encoder.width

    @property
    def context(self) -> int:
        return self.encoder.context

"""What a reader of another project's format gives: a config of ours, its tensors under our names, and a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Imported:
    config: Any  # of one of our models, with build()
    weights: Mapping[str, Tensor]  # f32; exactly the names and shapes of the built model
    tokenizer: Tokenizer
    name: str  # of the model, as its files say it
    notes: tuple[str, ...] = ()  # what was left out or decided, in words

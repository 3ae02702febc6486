"""What weights of fewer bits cost: the loss of a model as it writes in a number format, beside its own.

The answer is kept with the model. A format of fewer bits is used for writing only where this check was passed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F

from qkv.data.tokens import TokenStream
from qkv.generation.native import TOGETHER, Format, Native
from qkv.models.language_model import LanguageModel
from qkv.objectives.language_modelling import cut

TOLERATED = 0.005  # of the loss
CHECKED = 4096  # tokens
LONGEST = 128  # tokens of a window


@dataclass(frozen=True)
class FormatCheck:
    """Nats a token of the same text: with the weights as they are, and in the format."""

    plain: float
    loss: float
    tokens: int

    @property
    def passed(self) -> bool:
        return self.loss <= self.plain * (1 + TOLERATED)

    def values(self) -> dict[str, float]:
        return asdict(self)


def check(model: LanguageModel, stream: TokenStream, format: Format) -> FormatCheck:
    """Let the model read validation text token by token, as it writes, in windows spread over the text."""
    length = min(LONGEST, model.context, len(stream.tokens) - 1)
    number = max(1, min(CHECKED // length, (len(stream.tokens) - 1) // length))
    starts = np.linspace(0, len(stream.tokens) - 1 - length, number).astype(int).tolist()
    native, plain, found = Native(model, format), 0.0, 0.0
    with torch.inference_mode():
        for first in range(0, number, TOGETHER):
            tokens, targets = cut(stream.tokens, starts[first : first + TOGETHER], length)
            plain += float(F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum"))
            state = native.state(len(tokens), length)
            for place in range(length):
                logits = native(tokens[:, place : place + 1], state)[:, 0]
                found += float(F.cross_entropy(logits, targets[:, place], reduction="sum"))
    count = number * length
    return FormatCheck(plain / count, found / count, count)

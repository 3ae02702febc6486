"""Scores of a language model on text: loss, perplexity, bits per byte and per character, with an interval.

Every token is scored once. Longer than the context: windows overlap by half, and only what is new in a window counts;
`window` scores independent windows instead, as nanoGPT's validation loss does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from qkv.data.tokens import TokenStream
from qkv.models.language_model import LanguageModel
from qkv.tasks.language_modelling import cut


@dataclass(frozen=True)
class Score:
    loss: float  # nats a token
    low: float  # 95 % interval of the loss, from window to window
    high: float
    perplexity: float
    bits_per_byte: float
    bits_per_character: float
    tokens: int
    unknown: int  # tokens of the text that are not in the vocabulary: where there are some, bits are too low

    def values(self) -> dict[str, float]:
        return asdict(self)

    def interval(self) -> str:
        """The interval in words; a single window cannot tell how much another would differ."""
        return f"{self.low:.4f} to {self.high:.4f}" if math.isfinite(self.low) else "unknown: one window only"


@dataclass(frozen=True)
class Window:
    """Tokens from `start` on, of which the last `fresh` predictions count."""

    start: int
    length: int
    fresh: int


def plan(tokens: int, length: int, stride: int) -> list[Window]:
    """Windows in which each of the `tokens - 1` predictions counts exactly once."""
    targets = tokens - 1
    windows = []
    done = 0
    while done < targets:
        start = max(0, done - (length - stride))
        end = min(start + length, targets)
        windows.append(Window(start, end - start, end - done))
        done = end
    return windows


def score(
    model: LanguageModel,
    stream: TokenStream,
    *,
    window: int | None = None,
    limit: int | None = None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    progress: Callable[[int, int], None] | None = None,
) -> Score:
    """Score a text: in independent windows of length `window`, on a spread sample of about `limit` tokens."""
    length = window or model.context
    windows = plan(len(stream.tokens), length, length if window else max(1, length // 2))
    if limit and limit < len(stream.tokens):
        chosen = np.linspace(0, len(windows) - 1, max(1, limit // length)).round().astype(int)
        windows = [windows[index] for index in sorted(set(chosen.tolist()))]
    sums, counts = [], []
    with torch.inference_mode():
        for batch in batches(windows, max(1, 8192 // length)):
            with autocast():
                losses = losses_of(model, stream.tokens, batch)
            for own, place in zip(losses, batch, strict=True):
                sums.append(float(own[-place.fresh :].double().sum()))
                counts.append(place.fresh)
            if progress:
                progress(sum(counts), len(stream.tokens) - 1)
    return summary(np.asarray(sums), np.asarray(counts), stream)


def batches(windows: list[Window], size: int) -> Iterator[list[Window]]:
    """Neighbouring windows of one length, `size` at a time."""
    group: list[Window] = []
    for place in windows:
        if group and (len(group) == size or place.length != group[0].length):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def losses_of(model: LanguageModel, tokens: NDArray[Any], batch: list[Window]) -> Tensor:
    """-log p of each next token, (B, T)."""
    device = next(model.parameters()).device
    inputs, targets = cut(tokens, [place.start for place in batch], batch[0].length)
    was = model.training
    model.eval()
    logits = model(inputs.to(device)).float()
    model.train(was)
    return (
        F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten(), reduction="none").view(targets.shape).cpu()
    )


def summary(sums: NDArray[Any], counts: NDArray[Any], stream: TokenStream) -> Score:
    total, scored = float(sums.sum()), int(counts.sum())
    loss = total / scored
    error = 1.96 * math.sqrt(float(((sums - loss * counts) ** 2).sum())) / scored if len(sums) > 1 else math.inf
    share = scored / (len(stream.tokens) - 1)  # of the text, when only a sample of it was scored
    bits = total / math.log(2) / share
    return Score(
        loss=loss,
        low=loss - error,
        high=loss + error,
        perplexity=math.exp(min(loss, 700.0)),
        bits_per_byte=bits / max(1, stream.bytes),
        bits_per_character=bits / max(1, stream.characters),
        tokens=scored,
        unknown=stream.unknown,
    )

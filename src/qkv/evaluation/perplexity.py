"""Scores of a language model on text: loss, perplexity, bits per byte and per character, with an interval.

Every token is scored once. If a text is longer than the context, windows overlap by half, and each counts only the
tokens that are new in it; `window` scores independent windows instead, as nanoGPT's validation loss does.

`check_format` measures the cost of weights with fewer bits: the loss of a model that generates in a number format,
compared with the loss of the model itself. The result is saved with the model, and only a format that passed the check
is used for generation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.data.split import even_order
from qkv.data.tokens import TokenStream
from qkv.evaluation.intervals import Z_95, Array, Estimate, interval_text, widened
from qkv.evaluation.timed_scoring import Pace
from qkv.generation.native import TOGETHER, Format, Native
from qkv.models.language_model import LanguageModel
from qkv.objectives import objective
from qkv.objectives.language_modelling import cut
from qkv.visible import ShownResult

MAX_TOKENS, MAX_LOGITS = 2**13, 2**24  # computed at once
ROUNDING_ERROR = 1e-6  # as a fraction of the loss
PARTS = 16  # parts of a text whose losses are reported one by one


@dataclass(frozen=True, repr=False)
class Score(ShownResult):
    """Means over a text with their 95 % intervals, by the scatter between windows; NaN if there is only one window."""

    loss: float  # nats a token
    loss_low: float
    loss_high: float
    perplexity: float
    perplexity_low: float
    perplexity_high: float
    bits_per_byte: float
    bits_per_byte_low: float
    bits_per_byte_high: float
    bits_per_character: float
    bits_per_character_low: float
    bits_per_character_high: float
    tokens: int
    unknown: int  # tokens of the text that are not in the vocabulary: if there are any, the bits are too low
    parts: tuple[float, ...] = ()  # the losses of consecutive parts of the text: scores are compared part by part
    windows: tuple[int, ...] = field(default=(), repr=False)  # indices of those that were scored
    sums: Array | None = field(default=None, repr=False, compare=False)  # nats of each of these windows
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of the user's own

    def values(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int | float)} | {**self.own}

    def interval(self, name: str = "loss") -> str:
        """The interval as text; unknown for a single window, which does not show how much others differ."""
        low, high = (getattr(self, f"{name}_{end}") for end in ("low", "high"))
        return interval_text(low, high) or "unknown: one window only"


@dataclass(frozen=True)
class TextWindow:
    """`length` predictions from token `start` on, of which the last `counted` count in the score."""

    start: int
    length: int
    counted: int


@dataclass(frozen=True)
class WindowPlan:
    """Windows in which each of the `tokens - 1` predictions counts exactly once. Each window is made on demand."""

    tokens: int
    length: int
    stride: int

    def __len__(self) -> int:
        beyond = max(0, self.tokens - 1 - self.length)  # predictions that the first window does not reach
        return int(self.tokens > 1) + -(-beyond // self.stride)

    def __getitem__(self, index: int) -> TextWindow:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * self.stride
        end = min(start + self.length, self.tokens - 1)
        done = start - self.stride + self.length if index else 0
        return TextWindow(start, end - start, end - done)

    def evenly_spaced(self, limit: int | None) -> Sequence[int]:
        """The indices of evenly spaced windows with about `limit` tokens; of all windows without a limit.

        The windows of a smaller limit are among those of a larger one.
        """
        if not limit or limit >= self.tokens:
            return range(len(self))
        return sorted(even_order(len(self), max(1, limit // self.length)).tolist())

    def predictions_of(self, chosen: Iterable[int]) -> tuple[Array, Array]:
        """The positions of all tokens that count in these windows, and how many tokens before each the model sees."""
        windows = [self[index] for index in chosen]
        by_window = [np.arange(window.length - window.counted, window.length) + 1 for window in windows]
        starts = np.repeat([window.start for window in windows], [len(lengths) for lengths in by_window])
        context_lengths = np.concatenate(by_window)
        return starts + context_lengths, context_lengths


def score(
    model: LanguageModel,
    stream: TokenStream,
    *,
    window: int | None = None,
    limit: int | None = None,
    rows: int | None = None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    pace: Pace | None = None,
) -> Score:
    """Score a text: in independent windows of length `window`, on about `limit` evenly spread tokens, or on as much of
    it as `pace` has time for. At most `rows` windows are computed at once.
    """
    pace = pace or Pace()
    length = window or model.context
    plan = WindowPlan(len(stream.tokens), length, length if window else max(1, length // 2))
    chosen = plan.evenly_spaced(limit)
    together = max(1, min(MAX_TOKENS, MAX_LOGITS // model.vocabulary) // length)
    together = min(together, rows or together)
    sums, counts = np.zeros(len(chosen)), np.zeros(len(chosen), np.int64)
    token_losses: list[Array] = []  # used where there are fewer windows than PARTS
    order, done, scored = pace.order(len(chosen)), 0, 0
    with torch.inference_mode():
        for first, last in pace.portions(len(chosen), together):
            portion = np.sort(order[first:last]).tolist()
            indices = iter(portion)
            for batch in batches((plan[chosen[index]] for index in portion), together):
                with autocast():
                    losses = window_losses(model, stream.tokens, batch)
                for row, part, index in zip(losses, batch, indices, strict=False):
                    nats = row[-part.counted :].double()
                    sums[index], counts[index] = float(nats.sum()), part.counted
                    scored += part.counted
                    if len(chosen) < PARTS:
                        token_losses.append(nats.numpy())
                pace.report(scored, len(stream.tokens) - 1)
            done = last
    scored_windows = np.sort(order[:done])
    by_window = sums[scored_windows], counts[scored_windows]
    parts = part_losses(np.concatenate(token_losses)) if token_losses else part_losses(*by_window)
    return replace(
        summary(*by_window, stream, model.vocabulary),
        parts=parts,
        windows=tuple(chosen[index] for index in scored_windows.tolist()),
        sums=by_window[0],
    )


def batches(windows: Iterable[TextWindow], size: int) -> Iterator[list[TextWindow]]:
    """Neighbouring windows of one length, `size` at a time."""
    group: list[TextWindow] = []
    for window in windows:
        if group and (len(group) == size or window.length != group[0].length):
            yield group
            group = []
        group.append(window)
    if group:
        yield group


def window_losses(model: LanguageModel, tokens: Array, batch: list[TextWindow]) -> Tensor:
    """-log p of each next token, (B, T)."""
    device = next(model.parameters()).device
    inputs, targets = cut(tokens, [window.start for window in batch], batch[0].length)
    was_training = model.training
    model.eval()
    logits = model(inputs.to(device)).float()
    model.train(was_training)
    return objective.token_losses(logits.flatten(0, 1), targets.to(device).flatten()).view(targets.shape).cpu()


def summary(sums: Array, counts: Array, stream: TokenStream, vocabulary: int) -> Score:
    total, scored = float(sums.sum()), int(counts.sum())
    loss = total / scored
    error = Z_95 * math.sqrt(float(((sums - loss * counts) ** 2).sum())) / scored if len(sums) > 1 else math.nan
    share = scored / (len(stream.tokens) - 1)  # of the text, when only a sample of it was scored
    low, high = 0.0 if loss < error else loss - error, loss + error
    if len(sums) > 1 and error <= ROUNDING_ERROR * loss:  # windows that are all equal do not show how others differ
        interval = widened(Estimate(loss, low, high), (0.0, max(loss, math.log(vocabulary))), len(sums))
        low, high = interval.low or 0.0, interval.high or high
    means: dict[str, Any] = {}
    for end, nats, mean in (("", total, loss), ("_low", low * scored, low), ("_high", high * scored, high)):
        bits = nats / math.log(2) / share
        means |= {f"loss{end}": mean, f"perplexity{end}": perplexity(mean)}
        means[f"bits_per_byte{end}"] = bits / max(1, stream.bytes)
        means[f"bits_per_character{end}"] = bits / max(1, stream.characters)
    return Score(**means, tokens=scored, unknown=stream.unknown)


def part_losses(sums: Array, counts: Array | None = None) -> tuple[float, ...]:
    """The mean losses of at most PARTS consecutive parts of a text."""
    edges = np.linspace(0, len(sums), min(PARTS, len(sums)) + 1).astype(int)[:-1]
    weights = np.ones(len(sums)) if counts is None else counts
    return tuple((np.add.reduceat(sums, edges) / np.add.reduceat(weights, edges)).tolist())


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0)) if math.isfinite(loss) else loss


MAX_LOSS_INCREASE = 0.005  # as a fraction of the loss
CHECKED_TOKENS = 4096
MAX_CHECKED_WINDOW = 128  # tokens


@dataclass(frozen=True)
class FormatCheck:
    """The loss on the same text, in nats a token: of the model as it is (`plain`), and in the format."""

    plain: float
    loss: float
    tokens: int

    @property
    def passed(self) -> bool:
        return self.loss <= self.plain * (1 + MAX_LOSS_INCREASE)

    def values(self) -> dict[str, float]:
        return asdict(self)


def check_format(model: LanguageModel, stream: TokenStream, format: Format) -> FormatCheck:
    """Measure the loss of the model in the format, token by token as in generation, in evenly spaced windows."""
    length = min(MAX_CHECKED_WINDOW, model.context, len(stream.tokens) - 1)
    number = max(1, min(CHECKED_TOKENS // length, (len(stream.tokens) - 1) // length))
    starts = np.linspace(0, len(stream.tokens) - 1 - length, number).astype(int).tolist()
    native, plain, loss = Native(model, format), 0.0, 0.0
    with torch.inference_mode():
        for first in range(0, number, TOGETHER):
            tokens, targets = cut(stream.tokens, starts[first : first + TOGETHER], length)
            plain += float(F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum"))
            state = native.state(len(tokens), length)
            for t in range(length):
                logits = native(tokens[:, t : t + 1], state)[:, 0]
                loss += float(F.cross_entropy(logits, targets[:, t], reduction="sum"))
    count = number * length
    return FormatCheck(plain / count, loss / count, count)

"""Scores of a language model on text: loss, perplexity, bits per byte and per character, with an interval.

Every token is scored once. Longer than the context: windows overlap by half, and only what is new in a window counts;
`window` scores independent windows instead, as nanoGPT's validation loss does.

`check_format` measures what weights of fewer bits cost: the loss of a model as it writes in a number format, compared
with its own. The answer is kept with the model: such a format is used for writing only where the check was passed.
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
from qkv.evaluation.intervals import DEVIATIONS, Array, Estimate, interval_text, widened
from qkv.evaluation.timed_scoring import Pace
from qkv.generation.native import TOGETHER, Format, Native
from qkv.models.language_model import LanguageModel
from qkv.objectives import objective
from qkv.objectives.language_modelling import cut
from qkv.visible import ShownResult

TOKENS, NUMBERS = 2**13, 2**24  # computed at once: no more tokens, and no more logits, than that
ALIKE = 1e-6  # of the loss: a smaller error is one of rounding
PARTS = 16  # stretches of a text whose losses are reported one by one


@dataclass(frozen=True, repr=False)
class Score(ShownResult):
    """Means over a text, each with its 95 % interval, from window to window; of one window alone it is unknown, NaN."""

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
    unknown: int  # tokens of the text that are not in the vocabulary: where there are some, bits are too low
    parts: tuple[float, ...] = ()  # the loss of each of some stretches of the text: scores are compared part by part
    windows: tuple[int, ...] = field(default=(), repr=False)  # numbers of those that were scored
    sums: Array | None = field(default=None, repr=False, compare=False)  # nats of each of these windows
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of one's own

    def values(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int | float)} | {**self.own}

    def interval(self, name: str = "loss") -> str:
        """The interval in words; a single window cannot tell how much another would differ."""
        low, high = (getattr(self, f"{name}_{end}") for end in ("low", "high"))
        return interval_text(low, high) or "unknown: one window only"


@dataclass(frozen=True)
class TextWindow:
    """Tokens from `start` on, of which the last `fresh` predictions count."""

    start: int
    length: int
    fresh: int


@dataclass(frozen=True)
class WindowPlan:
    """Windows in which each of the `tokens - 1` predictions counts exactly once; made one by one, when asked for."""

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

    def spread(self, limit: int | None) -> Sequence[int]:
        """Which windows to score for about `limit` tokens, at even distances; all of them without a limit.

        The windows of a smaller limit are among those of a larger one.
        """
        if not limit or limit >= self.tokens:
            return range(len(self))
        return sorted(even_order(len(self), max(1, limit // self.length)).tolist())

    def predictions_of(self, chosen: Iterable[int]) -> tuple[Array, Array]:
        """The places of all tokens that count in these windows, and how many tokens before each are seen."""
        windows = [self[index] for index in chosen]
        reach = [np.arange(place.length - place.fresh, place.length) + 1 for place in windows]
        starts = np.repeat([place.start for place in windows], [len(places) for places in reach])
        together = np.concatenate(reach)
        return starts + together, together


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
    """Score a text: in independent windows of length `window`, on a spread sample of about `limit` tokens, or on as
    much of it as `pace` has time for. At most `rows` windows are computed at once.
    """
    pace = pace or Pace()
    length = window or model.context
    plan = WindowPlan(len(stream.tokens), length, length if window else max(1, length // 2))
    chosen = plan.spread(limit)
    together = max(1, min(TOKENS, NUMBERS // model.vocabulary) // length)
    together = min(together, rows or together)
    sums, counts = np.zeros(len(chosen)), np.zeros(len(chosen), np.int64)
    single: list[Array] = []  # of each token, where there are too few windows to be parts
    order, done, scored = pace.order(len(chosen)), 0, 0
    with torch.inference_mode():
        for first, last in pace.portions(len(chosen), together):
            portion = np.sort(order[first:last]).tolist()
            numbers = iter(portion)
            for batch in batches((plan[chosen[number]] for number in portion), together):
                with autocast():
                    losses = losses_of(model, stream.tokens, batch)
                for own, place, number in zip(losses, batch, numbers, strict=False):
                    fresh = own[-place.fresh :].double()
                    sums[number], counts[number] = float(fresh.sum()), place.fresh
                    scored += place.fresh
                    if len(chosen) < PARTS:
                        single.append(fresh.numpy())
                pace.reached(scored, len(stream.tokens) - 1)
            done = last
    which = np.sort(order[:done])
    stretches = parts(np.concatenate(single)) if single else parts(sums[which], counts[which])
    windows = tuple(chosen[number] for number in which.tolist())
    return replace(
        summary(sums[which], counts[which], stream, model.vocabulary),
        parts=stretches,
        windows=windows,
        sums=sums[which],
    )


def batches(windows: Iterable[TextWindow], size: int) -> Iterator[list[TextWindow]]:
    """Neighbouring windows of one length, `size` at a time."""
    group: list[TextWindow] = []
    for place in windows:
        if group and (len(group) == size or place.length != group[0].length):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def losses_of(model: LanguageModel, tokens: Array, batch: list[TextWindow]) -> Tensor:
    """-log p of each next token, (B, T)."""
    device = next(model.parameters()).device
    inputs, targets = cut(tokens, [place.start for place in batch], batch[0].length)
    was = model.training
    model.eval()
    logits = model(inputs.to(device)).float()
    model.train(was)
    return objective.token_losses(logits.flatten(0, 1), targets.to(device).flatten()).view(targets.shape).cpu()


def summary(sums: Array, counts: Array, stream: TokenStream, vocabulary: int) -> Score:
    total, scored = float(sums.sum()), int(counts.sum())
    loss = total / scored
    error = DEVIATIONS * math.sqrt(float(((sums - loss * counts) ** 2).sum())) / scored if len(sums) > 1 else math.nan
    share = scored / (len(stream.tokens) - 1)  # of the text, when only a sample of it was scored
    low, high = 0.0 if loss < error else loss - error, loss + error
    if len(sums) > 1 and error <= ALIKE * loss:  # windows that are all alike do not show how others would differ
        interval = widened(Estimate(loss, low, high), (0.0, max(loss, math.log(vocabulary))), len(sums))
        low, high = interval.low or 0.0, interval.high or high
    means: dict[str, Any] = {}
    for end, nats, own in (("", total, loss), ("_low", low * scored, low), ("_high", high * scored, high)):
        bits = nats / math.log(2) / share
        means |= {f"loss{end}": own, f"perplexity{end}": perplexity(own)}
        means[f"bits_per_byte{end}"] = bits / max(1, stream.bytes)
        means[f"bits_per_character{end}"] = bits / max(1, stream.characters)
    return Score(**means, tokens=scored, unknown=stream.unknown)


def parts(sums: Array, counts: Array | None = None) -> tuple[float, ...]:
    """The mean loss of each of at most PARTS neighbouring stretches."""
    edges = np.linspace(0, len(sums), min(PARTS, len(sums)) + 1).astype(int)[:-1]
    weights = np.ones(len(sums)) if counts is None else counts
    return tuple((np.add.reduceat(sums, edges) / np.add.reduceat(weights, edges)).tolist())


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0)) if math.isfinite(loss) else loss


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


def check_format(model: LanguageModel, stream: TokenStream, format: Format) -> FormatCheck:
    """Let the model read validation text token by token, as it writes, in windows spread over the text."""
    length = min(LONGEST, model.context, len(stream.tokens) - 1)
    number = max(1, min(CHECKED // length, (len(stream.tokens) - 1) // length))
    starts = np.linspace(0, len(stream.tokens) - 1 - length, number).astype(int).tolist()
    native, plain, loss = Native(model, format), 0.0, 0.0
    with torch.inference_mode():
        for first in range(0, number, TOGETHER):
            tokens, targets = cut(stream.tokens, starts[first : first + TOGETHER], length)
            plain += float(F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum"))
            state = native.state(len(tokens), length)
            for place in range(length):
                logits = native(tokens[:, place : place + 1], state)[:, 0]
                loss += float(F.cross_entropy(logits, targets[:, place], reduction="sum"))
    count = number * length
    return FormatCheck(plain / count, loss / count, count)

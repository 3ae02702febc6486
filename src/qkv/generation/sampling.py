"""Chooses the next token. Each setting is a function from logits to logits; they are applied in the order of `steps`.

repetition penalty (Keskar et al. 2019), temperature, top-k (Fan et al. 2018), top-p (Holtzman et al. 2020), min-p
(Nguyen et al. 2024). Temperature 0 is greedy: always the likeliest token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv import ranges
from qkv.errors import InputError

NEVER = float("-inf")
TEMPERATURE = 0.8  # the default of the library, `qkv generate` and `qkv chat`
MIN_TEMPERATURE = 1e-6  # division by a smaller one may exceed the range of f32


@dataclass(frozen=True)
class Sampling:
    temperature: float = 1.0
    top_k: int = 0  # keep the k likeliest; 0: all
    top_p: float = 1.0  # keep the likeliest tokens whose probabilities together reach this
    min_p: float = 0.0  # keep tokens with at least this fraction of the largest probability
    repetition_penalty: float = 1.0  # above 1, tokens that are already in the text become less likely

    def __post_init__(self) -> None:
        ranges.TEMPERATURE.require("temperature", self.temperature)
        ranges.TOP_K.require("top-k", self.top_k)
        ranges.POSITIVE_FRACTION.require("top-p", self.top_p)
        ranges.FRACTION.require("min-p", self.min_p)
        ranges.REPETITION_PENALTY.require("repetition-penalty", self.repetition_penalty)
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise InputError(f"temperature {self.temperature}: expected 0 (greedy), or {MIN_TEMPERATURE} and more.")


Logits = Float[Tensor, "B V"]


def penalize(logits: Logits, written: Int[Tensor, "B T"], penalty: float) -> Logits:
    scores = logits.gather(1, written)
    return logits.scatter(1, written, torch.where(scores > 0, scores / penalty, scores * penalty))


def keep_top_k(logits: Logits, k: int) -> Logits:
    least = logits.topk(min(k, logits.size(-1))).values[:, -1:]
    return logits.masked_fill(logits < least, NEVER)


def keep_top_p(logits: Logits, p: float) -> Logits:
    """Keep a token if the probabilities of all likelier tokens do not yet sum to p; the likeliest always stays."""
    ordered, order = logits.sort(descending=True)
    probabilities = ordered.softmax(-1)
    dropped = probabilities.cumsum(-1) - probabilities >= p
    return logits.masked_fill(dropped.scatter(1, order, dropped), NEVER)


def keep_min_p(logits: Logits, p: float) -> Logits:
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < p * probabilities.amax(-1, keepdim=True), NEVER)


def keep_best(logits: Logits) -> Logits:
    """Keep only the likeliest token; if several are equally likely, the first."""
    best = logits.argmax(-1, keepdim=True)
    return torch.full_like(logits, NEVER).scatter(1, best, logits.gather(1, best))


def steps(logits: Logits, sampling: Sampling, written: Int[Tensor, "B T"]) -> Iterator[tuple[str, float | int, Logits]]:
    """Apply each setting that has an effect, in order; yield its name, its value, and the logits after it."""
    if sampling.repetition_penalty != 1.0:
        logits = penalize(logits, written, sampling.repetition_penalty)
        yield "repetition penalty", sampling.repetition_penalty, logits
    if sampling.temperature == 0:
        yield "temperature", 0.0, keep_best(logits)
        return
    logits = logits / sampling.temperature
    yield "temperature", sampling.temperature, logits
    if sampling.top_k:
        logits = keep_top_k(logits, sampling.top_k)
        yield "top-k", sampling.top_k, logits
    if sampling.top_p < 1.0:
        logits = keep_top_p(logits, sampling.top_p)
        yield "top-p", sampling.top_p, logits
    if sampling.min_p > 0:
        yield "min-p", sampling.min_p, keep_min_p(logits, sampling.min_p)


def adjust(logits: Logits, sampling: Sampling, written: Int[Tensor, "B T"]) -> Logits:
    """The logits after all settings."""
    for _, _, adjusted in steps(logits, sampling, written):
        logits = adjusted
    return logits


def draw(logits: Logits, uniform: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Sample a token for each row with one random number from 0 to 1 (inverse transform sampling): the first token at
    which the cumulative probability is above this number."""
    probabilities = logits.double().softmax(-1)
    sampled = torch.searchsorted(probabilities.cumsum(-1), uniform.double().unsqueeze(-1), right=True).squeeze(-1)
    if bool((sampled < probabilities.size(-1)).all()):
        return sampled
    # by rounding, the sum of all probabilities may be below the number: then take the last possible token
    last = (probabilities > 0).double().cumsum(-1).argmax(-1)
    return torch.minimum(sampled, last)


def pick(
    logits: Logits, sampling: Sampling, written: Int[Tensor, "B T"], uniform: Float[Tensor, "B"]
) -> Int[Tensor, "B"]:
    """Choose the next token of each row. Greedy decoding skips the softmax, which may take longer than a small
    model."""
    adjusted = adjust(logits, sampling, written)
    return adjusted.argmax(-1) if sampling.temperature == 0 else draw(adjusted, uniform)

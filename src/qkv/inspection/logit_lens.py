"""The logit lens: what the model would say if it stopped after each layer (nostalgebraist 2020).

    p_l = softmax(head(norm(x_l)))        x_l: the residual stream after layer l; the last is the model's own answer

The layers below learned to be read by the next layer and not by the head: early rows are a hint, the last is exact.

The next-word table, one sampling knob after the other: how the model's own shares become those that are drawn from.

The knobs and their order are the sampler's own (`generation.sampling.steps`); deck 004's table is the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.generation.sampling import Sampling, steps
from qkv.inspection.subject import Subject, forward
from qkv.inspection.trace import trace

TOP = 5


@dataclass(frozen=True)
class LikelyToken:
    text: str
    p: float


@dataclass(frozen=True)
class LensLayer:
    """After a layer (0: what enters the first), the likeliest pieces at each position."""

    layer: int
    top: list[list[LikelyToken]]


def reads(subject: Subject) -> bool:
    """Whether every layer can be asked what it would say."""
    return subject.answer in ("next", "mask") and bool(getattr(subject.inside, "blocks", None) or _decoder(subject))


def _decoder(subject: Subject) -> bool:
    return isinstance(getattr(subject.inside, "decoder", None), nn.ModuleList)


def to_logits(subject: Subject) -> Callable[[Tensor], Tensor]:
    """From the residual stream to scores of pieces: the final norm, then the head."""
    model: Any = subject.model
    norm = getattr(subject.inside, "decoder_norm" if _decoder(subject) else "norm", nn.Identity())
    return lambda x: model.head(norm(x))


@torch.no_grad()
def lens(subject: Subject, top: int = TOP, places: Sequence[int] | None = None) -> list[LensLayer]:
    """The likeliest pieces after each layer at the places asked for; None is all."""
    if not reads(subject):
        raise InputError(
            f"a {subject.kind} model has no layers that give pieces: the lens needs a gpt, modern, llama, transformer "
            "or masked model."
        )
    streams = trace(subject, layers=[]).residual("decoder" if _decoder(subject) else "self")
    read, found = to_logits(subject), []
    for number, stream in enumerate(streams):
        x = stream if places is None else stream[list(places)]
        found.append(LensLayer(number, likeliest(subject, read(x.unsqueeze(0))[0], top)))
    return found


def likeliest(subject: Subject, logits: Float[Tensor, "T V"], top: int = TOP) -> list[list[LikelyToken]]:
    """The likeliest pieces of each row, with their probabilities."""
    best = logits.float().softmax(-1).topk(min(top, logits.size(-1)))
    return [
        [LikelyToken(*each) for each in zip(subject.pieces(ids), shares, strict=True)]
        for ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


NEXT_WORDS = 10
KNOBS = Sampling(temperature=0.8, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1)  # for the page: one of each


@dataclass(frozen=True)
class NextStep:
    name: str
    knob: float | int | None  # None: what the model says by itself
    rows: list[LikelyToken]
    left: int  # pieces that may still be drawn


@torch.no_grad()
def next_words(subject: Subject, sampling: Sampling = KNOBS, top: int = NEXT_WORDS) -> list[NextStep]:
    """The likeliest next pieces after the text, before any knob and after each."""
    if subject.answer != "next":
        raise InputError(f"a {subject.kind} model does not write: there is no next word. Use a language model.")
    logits = forward(subject.model, subject.inputs)[:, -1].float().cpu()
    written = torch.tensor([subject.inputs.tokens])
    found = [_step(subject, "the model", None, logits, top)]
    return found + [_step(subject, name, knob, made, top) for name, knob, made in steps(logits, sampling, written)]


def _step(subject: Subject, name: str, knob: float | int | None, logits: Float[Tensor, "1 V"], top: int) -> NextStep:
    rows = [each for each in likeliest(subject, logits, top)[0] if each.p > 0]
    return NextStep(name, knob, rows, int((logits[0].softmax(-1) > 0).sum()))

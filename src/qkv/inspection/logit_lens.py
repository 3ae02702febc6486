"""The logit lens: what the model would predict if it stopped after each layer (nostalgebraist 2020).

    p_l = softmax(head(norm(x_l)))        x_l: the residual stream after layer l; the last is the model's own answer

Lower layers learned to feed the next layer and not the head: early rows are a hint, the last is exact.

`next_words` is the next-word table, after one sampling setting after the other: how the model's probabilities become
those that are sampled from. The settings and their order are the sampler's own (`generation.sampling.steps`); deck 004
has the first step.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """After a layer (0: what enters the first), the likeliest tokens at each position."""

    layer: int
    top: list[list[LikelyToken]]


def reads(subject: Subject) -> bool:
    """Whether a prediction can be read from every layer."""
    return subject.answer in ("next", "mask") and bool(getattr(subject.inside, "blocks", None) or _decoder(subject))


def _decoder(subject: Subject) -> bool:
    return isinstance(getattr(subject.inside, "decoder", None), nn.ModuleList)


@torch.no_grad()
def lens(subject: Subject, top: int = TOP, positions: Sequence[int] | None = None) -> list[LensLayer]:
    """The likeliest tokens after each layer at these positions; None is all."""
    if not reads(subject):
        raise InputError(
            f"a {subject.kind} model has no layers that give tokens: the lens needs a gpt, modern, llama, transformer "
            "or masked model."
        )
    model: Any = subject.model
    norm = getattr(subject.inside, "decoder_norm" if _decoder(subject) else "norm", nn.Identity())
    streams = trace(subject, layers=[]).residual("decoder" if _decoder(subject) else "self")
    if len(streams) < 2:
        raise InputError(
            f"the layers of this {subject.kind} model have no taps: the lens needs a Tap named `stream` in each layer, "
            "on what the layer returns."
        )
    chosen = (stream if positions is None else stream[list(positions)] for stream in streams)
    logits = (model.head(norm(x.unsqueeze(0)))[0] for x in chosen)  # of one layer at a time: they are large
    return [LensLayer(number, likeliest(subject, scores, top)) for number, scores in enumerate(logits)]


def likeliest(subject: Subject, logits: Float[Tensor, "T V"], top: int = TOP) -> list[list[LikelyToken]]:
    """The likeliest tokens of each row, with their probabilities."""
    best = logits.float().softmax(-1).topk(min(top, logits.size(-1)))
    return [
        [LikelyToken(*pair) for pair in zip(subject.pieces(ids), shares, strict=True)]
        for ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


NEXT_WORDS = 10
KNOBS = Sampling(temperature=0.8, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1)  # for the page: one of each


@dataclass(frozen=True)
class NextStep:
    name: str
    knob: float | int | None  # None: the model's own probabilities
    rows: list[LikelyToken]
    left: int  # tokens that can still be sampled


@torch.no_grad()
def next_words(subject: Subject, sampling: Sampling = KNOBS, top: int = NEXT_WORDS) -> list[NextStep]:
    """The likeliest next tokens after the text, before any sampling setting and after each."""
    if subject.answer != "next":
        raise InputError(f"a {subject.kind} model does not write: there is no next word. Use a language model.")
    logits = forward(subject.model, subject.inputs)[:, -1].float().cpu()
    written = torch.tensor([subject.inputs.tokens])
    shown = []
    for name, knob, adjusted in (("the model", None, logits), *steps(logits, sampling, written)):
        rows = [token for token in likeliest(subject, adjusted, top)[0] if token.p > 0]
        shown.append(NextStep(name, knob, rows, int((adjusted[0].softmax(-1) > 0).sum())))
    return shown

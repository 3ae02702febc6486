"""The next-word table, one sampling knob after the other: how the model's own shares become those that are drawn from.

The knobs and their order are the sampler's own (`generation.sampling.steps`); deck 004's table is the first step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.errors import InputError
from qkv.generation.sampling import Sampling, steps
from qkv.inspection.logit_lens import Piece
from qkv.inspection.subject import Subject, forward

TOP = 10
KNOBS = Sampling(temperature=0.8, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1)  # for the page: one of each


@dataclass(frozen=True)
class NextStep:
    name: str
    knob: float | int | None  # None: what the model says by itself
    rows: list[Piece]
    left: int  # pieces that may still be drawn


@torch.no_grad()
def next_words(subject: Subject, sampling: Sampling = KNOBS, top: int = TOP) -> list[NextStep]:
    """The likeliest next pieces after the text, before any knob and after each."""
    if subject.answer != "next":
        raise InputError(f"a {subject.kind} model does not write: there is no next word. Use a language model.")
    logits = forward(subject.model, subject.inputs)[:, -1].float().cpu()
    written = torch.tensor([subject.inputs.tokens])
    found = [_step(subject, "the model", None, logits, top)]
    return found + [_step(subject, name, knob, made, top) for name, knob, made in steps(logits, sampling, written)]


def _step(subject: Subject, name: str, knob: float | int | None, logits: Float[Tensor, "1 V"], top: int) -> NextStep:
    shares = logits[0].softmax(-1)
    best = shares.topk(min(top, len(shares)))
    rows = zip(subject.pieces(best.indices.tolist()), best.values.tolist(), strict=True)
    return NextStep(name, knob, [Piece(*each) for each in rows if each[1] > 0], int((shares > 0).sum()))

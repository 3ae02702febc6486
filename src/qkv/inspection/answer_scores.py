"""The answers to several texts in one pass: only the scores that a view needs.

Texts are padded at their ends, and a mask hides the padding. The head reads one position of each text: logits at every
position of a long text would take hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from qkv.errors import InputError
from qkv.inspection.subject import Inputs, Subject

Item = TypeVar("Item")
TOKENS = 2048  # of one pass: a CPU is no faster with more, and they have to fit into memory


def answers(subject: Subject, rows: Sequence[Inputs]) -> Float[Tensor, "B V"]:
    """The scores of labels, of the next token, or of the token at the first mask."""
    if subject.answer not in ("label", "next", "mask"):
        raise InputError(
            f"a {subject.kind} model decides nothing about a whole text: there is no answer to explain. Take a "
            "classifier, a language model, a translator, or a masked model and a text with [MASK]."
        )
    places = [_place(subject, row) for row in rows]
    model: Any = subject.model.eval()
    tokens, present = _padded(subject, [row.tokens for row in rows])
    there = None if present.all() else present
    asked = torch.arange(len(rows)), torch.tensor(places)
    segments = [row.segments for row in rows if row.segments is not None]
    kinds = _padded(subject, segments, 0)[0] if segments else None
    if subject.answer == "label":
        return model(tokens, there, kinds)
    if subject.answer == "mask":
        vectors = model.encoder(tokens, there, kinds)
    elif rows[0].source is None and not hasattr(model, "vectors"):  # a model of the user's own
        return model(tokens)[asked]
    elif rows[0].source is None:
        vectors = model.vectors(tokens)
    else:
        vectors = model.vectors(*_padded(subject, [row.source or () for row in rows]), tokens)
    return model.head(vectors[asked].unsqueeze(1))[:, 0]  # (B, 1, V) -> (B, V)


@torch.no_grad()
def logs(subject: Subject, target: int, rows: Sequence[Inputs]) -> list[float]:
    """log p of an answer to each of several texts; -∞ where no word is left. A language model then answers after its
    start token, as it does without a text."""
    rows = [row if row.tokens or subject.answer != "next" else Inputs((subject.tokenizer.start,)) for row in rows]
    likely = [float("-inf")] * len(rows)
    real = [place for place, row in enumerate(rows) if _answerable(subject, row)]
    for some in batched(real, max((len(row.read) for row in rows), default=1)):
        scores = answers(subject, [rows[place] for place in some]).float().log_softmax(-1)
        for place, value in zip(some, scores[:, target].tolist(), strict=True):
            likely[place] = value
    return likely


def batched(items: Sequence[Item], length: int) -> Iterator[Sequence[Item]]:
    """Batches of as many items of `length` tokens as one pass takes, one at least."""
    many = max(1, TOKENS // max(1, length))
    for start in range(0, len(items), many):
        yield items[start : start + many]


def name_of(subject: Subject, target: int) -> str:
    return subject.labels[target] if subject.answer == "label" else subject.pieces([target])[0]


def blank(subject: Subject) -> int:
    """The token that replaces what is left out: padding, [MASK] or the separator."""
    own = subject.tokenizer
    return next(token for token in (own.padding, own.mask, own.separator) if token is not None)


def _answerable(subject: Subject, row: Inputs) -> bool:
    return bool(row.read) and (subject.answer != "mask" or subject.tokenizer.mask in row.tokens)


def _place(subject: Subject, row: Inputs) -> int:
    """The position of the answer."""
    if subject.answer != "mask":
        return len(row.tokens) - 1
    mask = subject.tokenizer.mask
    if mask not in row.tokens:
        raise InputError("the text has no [MASK]: write one where a token is to be explained.")
    return row.tokens.index(mask)


def _padded(
    subject: Subject, rows: Sequence[Sequence[int]], filler: int | None = None
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    length, device = max(map(len, rows)), next(subject.model.parameters()).device
    value = blank(subject) if filler is None else filler
    ids = torch.tensor([[*row, *[value] * (length - len(row))] for row in rows], device=device)
    ends = torch.tensor([[len(row)] for row in rows], device=device)
    return ids, torch.arange(length, device=device) < ends

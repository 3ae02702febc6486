"""Filling gaps: the likeliest pieces under each [MASK] of a text, and the text with the best of them. Deck 002."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from qkv.errors import InputError
from qkv.generation.writing import Next
from qkv.models.masked import Masked
from qkv.text.tokenizer import Tokenizer

BLANK = "___"  # at least so many strokes: what people write for a gap
EXAMPLE = "Paris is the capital of [MASK]."


@dataclass(frozen=True)
class Filled:
    """A text whose gaps are filled, and for each gap its likeliest pieces, the best first."""

    text: str
    gaps: tuple[tuple[Next, ...], ...]


@torch.inference_mode()
def fill(model: object, tokenizer: Tokenizer, text: str, top: int = 5) -> Filled:
    """What may stand in the gaps of `text`: the tokenizer's own [MASK], or ___. All gaps are looked at in one pass."""
    if not isinstance(model, Masked):
        raise InputError("this model does not fill gaps. Expected one that was taught to (a masked model, as BERT is).")
    if tokenizer.mask is None:
        raise InputError(f"the model's {tokenizer.kind} tokenizer has no [MASK]; filling gaps needs one that has.")
    if top < 1:
        raise InputError(f"top {top}: expected at least 1.")
    parts = parted(tokenizer, text)
    if len(parts) == 1:
        raise InputError(f"no gap in {_short(text)!r}. Write [MASK] or {BLANK} where a word is missing: {EXAMPLE!r}")
    tokens, places = encoded(tokenizer, parts)
    if len(tokens) > model.context:
        beyond = sum(place >= model.context for place in places)
        where = f"{beyond} of its gaps lie beyond" if beyond else "its end lies beyond"
        raise InputError(
            f"the text {_short(text)!r} has {len(tokens):,} tokens and {where} the model's context of "
            f"{model.context:,}. Give a shorter text around the gap."
        )
    device = next(model.parameters()).device
    vectors = model.eval().encoder(torch.tensor([tokens], device=device))[0, places]
    shares = model.head(vectors).float().softmax(-1)[:, : tokenizer.vocabulary]
    special = [number for number in range(tokenizer.vocabulary) if tokenizer.is_special(number)]
    shares[:, special] = -1.0  # nothing that fills a gap
    best = shares.topk(min(top, tokenizer.vocabulary - len(special)))
    gaps = tuple(
        tuple(Next(tokenizer.piece(token), token, share) for token, share in zip(ids, chances, strict=True))
        for ids, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    return Filled(_joined(parts, [gap[0].piece for gap in gaps]), gaps)


def parted(tokenizer: Tokenizer, text: str) -> list[str]:
    """What stands before, between and behind the gaps; one part where there is no gap, or no mask to put there."""
    if tokenizer.mask is None:
        return [text]
    return re.split(rf"{re.escape(tokenizer.token(tokenizer.mask))}|{BLANK}_*", text)


def encoded(tokenizer: Tokenizer, parts: list[str]) -> tuple[list[int], list[int]]:
    """The ids with what the model expects around them, and the places of the gaps."""
    assert tokenizer.mask is not None
    tokens, places = list(tokenizer.opening), []
    for number, ids in enumerate(tokenizer.encode_batch(parts)):
        if number:
            places.append(len(tokens))
            tokens.append(tokenizer.mask)
        tokens += ids
    return [*tokens, *tokenizer.closing], places


def _joined(parts: list[str], pieces: list[str]) -> str:
    """The text as it was given, with the pieces in its gaps; ##s is joined to what stands before it."""
    text = parts[0]
    for piece, part in zip(pieces, parts[1:], strict=True):
        text = (text.rstrip() + piece[2:] if piece.startswith("##") and len(piece) > 2 else text + piece) + part
    return text


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"

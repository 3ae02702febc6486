"""Generates text token by token, with or without a key-value cache (the state), and fills masks (deck 002).

When a text becomes longer than the context, the last half of the window is encoded again; so the results with and
without the state are the same. Every row has its own random generator, so sample 3 is the same among 4 or 400 samples.
A compiled copy of the model generates as long as the model has not changed; else the model itself does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from qkv.blocks.state import State
from qkv.errors import InputError
from qkv.generation.native import Native, choose, obstacle
from qkv.generation.sampling import Sampling, pick
from qkv.models.language_model import LanguageModel
from qkv.models.masked import Masked
from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Picked:
    """One token of one row: its id, and its log-probability under the model before temperature, top-k and so on."""

    token: int
    logprob: float


class Window:
    """The tokens a model sees: rows of equal length, never longer than the context."""

    def __init__(self, model: LanguageModel, prompt: list[int], rows: int, cached: bool) -> None:
        self.model, self.cached = model, cached
        self.device = next(model.parameters()).device
        self.tokens = torch.tensor([prompt] * rows, device=self.device)
        self.state: State | None = None
        self.fresh = len(prompt)  # tokens that the state has not seen

    def logits(self) -> Tensor:
        """The scores of the next token, (B, V)."""
        if self.tokens.size(1) > self.model.context:
            self.tokens = self.tokens[:, -max(1, self.model.context // 2) :]
            self.state = None
        if not self.cached:
            return self.model(self.tokens)[:, -1].float()
        if self.state is None:
            self.state = self.model.state(len(self.tokens))
            self.fresh = self.tokens.size(1)
        seen = self.model(self.tokens[:, -self.fresh :], self.state)
        self.fresh = 0
        return seen[:, -1].float()

    def append(self, tokens: Tensor) -> None:
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(1)], 1)
        self.fresh += 1


def write(
    model: LanguageModel,
    prompt: list[int],
    sampling: Sampling,
    *,
    length: int,
    rows: int = 1,
    seed: int = 0,
    ends: Collection[int] = (),
    cached: bool = True,
    vocabulary: int | None = None,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[list[Picked | None]]:
    """Yield, for each step, the new token of every row; None for a row that has ended. Stop when all have ended.

    `vocabulary` is the number of tokens of the tokenizer, if the model's embedding has more rows.
    """
    assert prompt, "a prompt needs at least one token"
    generators = [torch.Generator().manual_seed(seed * 1_000_003 + row) for row in range(rows)]
    model.eval()
    window = Window(model, prompt, rows, cached)
    written = window.tokens
    running = [True] * rows
    for _ in range(length):
        with torch.inference_mode(), autocast():
            logits = window.logits()[:, :vocabulary].cpu()
            uniform = torch.cat([torch.rand(1, generator=generator) for generator in generators])
            chosen = pick(logits, sampling, written.cpu(), uniform)
            logprobs = logits.log_softmax(-1).gather(1, chosen.unsqueeze(1)).squeeze(1)
            window.append(chosen.to(window.device))
            written = torch.cat([written, chosen.to(window.device).unsqueeze(1)], 1)
        tokens, values = chosen.tolist(), logprobs.tolist()
        yield [Picked(tokens[row], values[row]) if running[row] else None for row in range(rows)]
        running = [alive and token not in ends for alive, token in zip(running, tokens, strict=True)]
        if not any(running):
            return


@dataclass
class Written:
    """One sample: the text after the prompt, its tokens, and why it ended ("length", "end" or "stop")."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["length", "end", "stop"] = "length"


@dataclass(frozen=True)
class Next:
    """One row of the next-word table."""

    piece: str
    token: int
    probability: float


Precision = Literal["auto", "f32", "bf16", "int8"]


class Writers:
    """The compiled copies of a model, one for each number format that was used."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.copies: dict[str, Native] = {}

    def writer(self, precision: Precision = "auto", *, int8_passed: bool = False) -> LanguageModel:
        """The compiled copy in this number format, which is made again if the weights have changed; the model itself if
        it has hooks, replaced parts or another `mix`. `int8_passed`: int8 has passed its check, so `auto` may choose
        it."""
        if precision not in get_args(Precision):
            raise InputError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}.")
        if problem := obstacle(self.model):
            if precision not in ("auto", "f32"):
                raise InputError(
                    f"precision {precision}: this model generates in f32 only, because it {problem}. bf16 and int8 "
                    "need a modern, gpt, llama or qwen2 model with no part replaced and no window, the CPU, and a C "
                    "compiler."
                )
            return self.model
        chosen = choose(self.model, int8_passed) if precision == "auto" else precision
        copy = self.copies.get(chosen)
        if copy is None or not copy.current():
            copy = self.copies[chosen] = Native(self.model, chosen)
        return copy


BLANK = "___"  # three or more underscores may be written for a mask
EXAMPLE = "Paris is the capital of [MASK]."


@dataclass(frozen=True)
class Filled:
    """A text with its masks filled, and for each mask its likeliest tokens, the best first."""

    text: str
    gaps: tuple[tuple[Next, ...], ...]


@torch.inference_mode()
def fill(model: object, tokenizer: Tokenizer, text: str, top: int = 5) -> Filled:
    """Predict the tokens for all masks in `text`, which are the tokenizer's [MASK] or ___, in one forward pass."""
    if not isinstance(model, Masked):
        raise InputError("this model does not fill gaps; that needs a masked language model, such as BERT.")
    if tokenizer.mask is None:
        raise InputError(f"the model's {tokenizer.kind} tokenizer has no [MASK], which filling gaps needs.")
    if top < 1:
        raise InputError(f"top {top}: expected at least 1.")
    parts = split_masks(tokenizer, text)
    if len(parts) == 1:
        raise InputError(f"no gap in {_short(text)!r}. Write [MASK] or {BLANK} where a word is missing: {EXAMPLE!r}")
    tokens, places = encode_parts(tokenizer, parts)
    if len(tokens) > model.context:
        beyond = sum(place >= model.context for place in places)
        where = f"{beyond} of its gaps lie beyond" if beyond else "its end lies beyond"
        raise InputError(
            f"the text {_short(text)!r} has {len(tokens):,} tokens and {where} the model's context of "
            f"{model.context:,}. Give a shorter text around the gap."
        )
    device = next(model.parameters()).device
    vectors = model.eval().encoder(torch.tensor([tokens], device=device))[0, places]
    probabilities = model.head(vectors).float().softmax(-1)[:, : tokenizer.vocabulary]
    special = [number for number in range(tokenizer.vocabulary) if tokenizer.is_special(number)]
    probabilities[:, special] = -1.0  # a special token never fills a mask
    best = probabilities.topk(min(top, tokenizer.vocabulary - len(special)))
    gaps = tuple(
        tuple(Next(tokenizer.piece(token), token, share) for token, share in zip(ids, chances, strict=True))
        for ids, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    return Filled(_joined(parts, [gap[0].piece for gap in gaps]), gaps)


def split_masks(tokenizer: Tokenizer, text: str) -> list[str]:
    """The parts of a text before, between and after the masks. Without a mask, the text is one part."""
    if tokenizer.mask is None:
        return [text]
    return re.split(rf"{re.escape(tokenizer.token(tokenizer.mask))}|{BLANK}_*", text)


def encode_parts(tokenizer: Tokenizer, parts: list[str]) -> tuple[list[int], list[int]]:
    """The ids, with the special tokens around them, and the positions of the masks."""
    assert tokenizer.mask is not None
    tokens, places = list(tokenizer.opening), []
    for number, ids in enumerate(tokenizer.encode_batch(parts)):
        if number:
            places.append(len(tokens))
            tokens.append(tokenizer.mask)
        tokens += ids
    return [*tokens, *tokenizer.closing], places


def _joined(parts: list[str], pieces: list[str]) -> str:
    """The text with tokens in place of its masks; a token such as ##s is joined to the word before it."""
    text = parts[0]
    for piece, part in zip(pieces, parts[1:], strict=True):
        text = (text.rstrip() + piece[2:] if piece.startswith("##") and len(piece) > 2 else text + piece) + part
    return text


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"

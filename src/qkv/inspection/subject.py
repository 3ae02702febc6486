"""A model with a text: what every view of this package starts from, and the names of its parts.

Letters: T query positions, S key positions, L layers, H heads. A stack is a sequence of attention layers: "self" of a
model with one text; "encoder", "decoder" and "cross" of a translator (deck 002's figure has all three).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.decoder import GlobalAttention
from qkv.errors import InputError
from qkv.generation.beam import Translator
from qkv.models.classifier import Classifier
from qkv.models.language_model import LanguageModel
from qkv.models.masked import Masked
from qkv.models.tagger import Tagger
from qkv.text.tokenizer import Tokenizer

StackName = Literal["self", "encoder", "decoder", "cross"]
Answer = Literal["next", "mask", "label", "tags", "vectors"]
Attention = MultiHeadAttention | GlobalAttention


@dataclass(frozen=True)
class Inputs:
    """One text as a model reads it; of a translator, `tokens` are what it writes."""

    tokens: tuple[int, ...]
    source: tuple[int, ...] | None = None
    segments: tuple[int, ...] | None = None

    @property
    def read(self) -> tuple[int, ...]:
        """The input: the source of a translator, else the tokens."""
        return self.tokens if self.source is None else self.source

    def without(self, places: Sequence[int]) -> Inputs:
        """The same without some tokens of the input."""
        gone = set(places)
        kept = [place for place in range(len(self.read)) if place not in gone]
        names = ("tokens", "segments") if self.source is None else ("source",)
        rows = {name: getattr(self, name) for name in names}
        return replace(self, **{name: row and tuple(row[place] for place in kept) for name, row in rows.items()})


@dataclass(frozen=True)
class Subject:
    """A model, its tokenizer and a text; made from a bundle by `tasks.inspection_subject`."""

    model: nn.Module
    tokenizer: Tokenizer
    kind: str
    inputs: Inputs
    text: str = ""
    name: str = ""
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def inside(self) -> Any:
        """The part that has the blocks: the model itself, or the encoder of a classifier."""
        model: Any = self.model
        return model if isinstance(model, Translator) else getattr(model, "encoder", model)

    @property
    def answer(self) -> Answer:
        """What the model predicts: the next token, a masked one, labels, tags, or only vectors."""
        if isinstance(self.model, LanguageModel | Translator):
            return "next"
        kinds: dict[type, Answer] = {Masked: "mask", Classifier: "label", Tagger: "tags"}
        return next((name for kind, name in kinds.items() if isinstance(self.model, kind)), "vectors")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Ids as people read them; a row of the model without a token is its number."""
        known = self.tokenizer.vocabulary
        return [self.tokenizer.piece(token) if token < known else f"<{token}>" for token in ids]

    def context(self, default: int = 10**9) -> int:
        """How many tokens the model reads at most."""
        return int(getattr(self.inside, "context", default))

    @property
    def map_sizes(self) -> dict[StackName, tuple[int, int]]:
        """The numbers of query and key positions in the attention of each stack."""
        T, S = len(self.inputs.tokens), len(self.inputs.source or ())
        return {"self": (T, T), "encoder": (S, S), "decoder": (T, T), "cross": (T, S)}

    def reading(self, inputs: Inputs) -> Subject:
        """The same model with another text."""
        return replace(self, inputs=inputs)


def forward(model: nn.Module, inputs: Inputs) -> Float[Tensor, "1 ..."]:
    """One pass over one text in evaluation mode: the output, for a batch of one."""
    device = next(model.parameters()).device
    tokens = torch.tensor([inputs.tokens], device=device)
    model.eval()
    if inputs.source is not None:
        source = torch.tensor([inputs.source], device=device)
        return model(source, torch.ones_like(source, dtype=torch.bool), tokens)
    if inputs.segments is not None:
        return model(tokens, None, torch.tensor([inputs.segments], device=device))
    return model(tokens)


@dataclass(frozen=True)
class Stack:
    """One stack of attention layers, in order, each with its path in the model."""

    name: StackName
    paths: tuple[str, ...]
    layers: tuple[Attention, ...]

    @property
    def heads(self) -> int:
        return max(heads_of(layer) for layer in self.layers)


def heads_of(layer: Attention) -> int:
    return layer.heads if isinstance(layer, MultiHeadAttention) else 1


def stacks(model: nn.Module) -> dict[StackName, Stack]:
    """The stacks of a model, by name; none for a model without attention."""
    layers: dict[StackName, list[tuple[str, Attention]]] = {}
    two = isinstance(model, Translator)
    for path, module in model.named_modules():
        if isinstance(module, GlobalAttention) or (isinstance(module, MultiHeadAttention) and ".crossing" in path):
            layers.setdefault("cross", []).append((path, module))
        elif isinstance(module, MultiHeadAttention):
            name: StackName = "self" if not two else "encoder" if path.startswith("encoder.") else "decoder"
            layers.setdefault(name, []).append((path, module))
    order = [name for name in get_args(StackName) if name in layers]
    return {name: Stack(name, *map(tuple, zip(*layers[name], strict=True))) for name in order}


def membership(places: Sequence[int], words: int, device: torch.device | None = None) -> Float[Tensor, "T W"]:
    """1 where a token is part of a word; `places` has the number of the word of each token, or -1."""
    numbers = torch.tensor(list(places), dtype=torch.long, device=device)
    return (numbers.unsqueeze(1) == torch.arange(words, device=device)).float()


def main_stack(by_name: dict[StackName, Stack]) -> Stack:
    """The stack to show first: of a translator the one that attends to the source."""
    if not by_name:
        raise InputError(
            "this model has no attention layers: without --head, --heads, --svg and --png its parts are shown, and "
            "with --why its answer. gpt, modern, bert, transformer and rnn-translator have attention."
        )
    return by_name.get("self") or by_name.get("cross") or next(iter(by_name.values()))


def chosen(asked: Sequence[int] | None, count: int, what: str) -> tuple[int, ...]:
    """Numbers from 0; negative ones count from the end; None is all."""
    if asked is None:
        return tuple(range(count))
    for number in asked:
        if not -count <= number < count:
            raise InputError(f"{what} {number} of {count}: expected 0 to {count - 1}.")
    return tuple(sorted({number % count for number in asked}))

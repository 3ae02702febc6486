"""Vectors of texts, of their tokens and of words, from any layer of a model of blocks (decks 000 and 004).

Layers are counted as in Hugging Face's `output_hidden_states`: 0 is what enters the first block, n what leaves the
n-th, and the last of a decoder is taken behind its final norm (BERT has none). A recurrent model has 0 and 1. "mean",
"sum" and "concat" join the last four (Devlin et al. 2019, section 5.3), or all where there are fewer.

Texts go through the model sorted by length, a bounded number of tokens at a time; results come in the given order. A
word's vector is the mean of its tokens' vectors within the sentence; its sense is that of the nearest known example
(Loureiro et al. 2021; deck 000, "bank").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.heads import FirstPooling, LastPooling, MaxPooling, MeanPooling
from qkv.blocks.tap import hooked
from qkv.errors import InputError
from qkv.evaluation import unpadded_bert
from qkv.evaluation.decisions import cut_words
from qkv.models.language_model import LanguageModel
from qkv.objectives.objective import padded
from qkv.objectives.order import longest_first
from qkv.text.tokenizer import Tokenizer
from qkv.visible import ShortRepr

Joined = Literal["mean", "sum", "concat"]
Layer = int | Joined
Pool = Literal["mean", "first", "last", "max"]
Precision = unpadded_bert.Precision
POOLINGS = {"mean": MeanPooling(), "first": FirstPooling(), "last": LastPooling(), "max": MaxPooling()}
LAST = 4  # layers that are joined
TOGETHER = 8192  # tokens that go through the model at once

Rows = Sequence[Sequence[int]]


@dataclass(frozen=True, repr=False)
class Tokens(ShortRepr):
    """A text's tokens: their ids, as people read them, and a vector for each."""

    ids: list[int]
    pieces: list[str]
    vectors: Float[Tensor, "T D"]


def encode(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> tuple[list[list[int]], list[str]]:
    """Each text's ids, with what the model expects around them, and in words what was done to them.

    A text longer than the context loses its end, but not what closes it. One without a token is the separator alone.
    """
    opening, closing = list(tokenizer.opening), list(tokenizer.closing)
    room = context - len(opening) - len(closing)
    if room < 1:
        raise InputError(f"a context of {context} has no room for a text: {len(opening) + len(closing)} go around it.")
    inside = tokenizer.encode_batch(list(texts)) if texts else []
    cut = sum(len(ids) > room for ids in inside)
    unknown = sum(ids.count(tokenizer.unknown) for ids in inside) if tokenizer.unknown is not None else 0
    notes = []
    if cut:
        notes.append(f"{cut:,} of {len(texts):,} texts are longer than the context of {context:,} tokens; truncated.")
    if unknown:
        notes.append(f"{unknown:,} tokens of the texts are not in the vocabulary and become UNK.")
    rows = [[*opening, *ids[:room], *closing] or [tokenizer.separator] for ids in inside]
    return rows, notes


def pooled(
    model: nn.Module, rows: Rows, *, layer: Layer = -1, pool: Pool = "mean", precision: Precision = "f32"
) -> Float[Tensor, "N D"]:
    """One vector a text. The mean is over all its tokens, [CLS] and [SEP] too, as sentence-transformers does it."""
    if pool not in get_args(Pool):
        raise InputError(f"pool {pool!r}: expected one of {', '.join(get_args(Pool))}.")
    table = torch.empty(0, 0)
    for where, layers, present in batches(model, rows, chosen(layer, last(model)), precision):
        x = POOLINGS[pool](joined(layer, layers), present).float().cpu()
        table = table if len(table) else torch.empty(len(rows), x.size(-1))
        table[where] = x
    return table


def by_token(
    model: nn.Module, rows: Rows, *, layer: Layer = -1, precision: Precision = "f32"
) -> list[Float[Tensor, "_ D"]]:
    """For each text, one vector a token."""
    by_row: dict[int, Tensor] = {}
    for where, layers, _ in batches(model, rows, chosen(layer, last(model)), precision):
        for row, vectors in zip(where, joined(layer, layers).float().cpu(), strict=True):
            by_row[row] = vectors[: len(rows[row])].clone()
    return [by_row[row] for row in range(len(rows))]


def batches(
    model: nn.Module, rows: Rows, wanted: Sequence[int], precision: Precision = "f32"
) -> Iterator[tuple[list[int], list[Float[Tensor, "B T _"]], Bool[Tensor, "B T"]]]:
    """Which texts, their vectors at each of the wanted layers, and which of those are real; the longest texts first."""
    inside = getattr(model, "encoder", model)
    if precision not in get_args(Precision):
        raise InputError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}.")
    fast = unpadded_bert.UnpaddedBert(inside, precision) if unpadded_bert.fits(inside) else None
    device = next(model.parameters()).device
    for chosen in longest_first(np.array([len(row) for row in rows], dtype=np.int64), TOGETHER):
        where = chosen.tolist()
        tokens, present = (table.to(device) for table in padded([rows[row] for row in where]))
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, not fast and precision == "bf16"):
            layers = fast(tokens, present, wanted) if fast else hidden(inside, tokens, present, wanted)
        yield where, layers, present


def stages(model: nn.Module) -> list[nn.Module]:
    """The modules that give layer 0, 1, 2 …"""
    if hasattr(model, "recurrent"):
        return [model.get_submodule("embedded"), model.get_submodule("recurrent")]
    blocks = getattr(model, "blocks", None)
    if not isinstance(blocks, nn.ModuleList) or not hasattr(model, "embedded"):
        raise InputError(
            f"{type(model).__name__} has no layers called blocks (an nn.ModuleList), after a Tap called embedded, to "
            "read vectors of."
        )
    modules = [model.get_submodule("embedded"), *blocks]
    return [*modules[:-1], model.get_submodule("norm")] if hasattr(model, "norm") else modules


def last(model: nn.Module) -> int:
    """The number of the last layer."""
    return len(stages(getattr(model, "encoder", model))) - 1


def chosen(layer: Layer, last: int) -> list[int]:
    """The numbers of the layers that are asked for, of 0 to `last`."""
    if layer in get_args(Joined):
        return list(range(max(0, last + 1 - LAST), last + 1))
    if not isinstance(layer, int) or not -last - 1 <= layer <= last:
        raise InputError(
            f"layer {layer}: this model has 0 (what enters the first) to {last}, or -1 (the last) back to {-last - 1}; "
            f"{', '.join(get_args(Joined))} join the last {LAST}."
        )
    return [layer % (last + 1)]


class _Enough(Exception):  # noqa: N818  (no mistake: all layers that were asked for have been seen)
    pass


def hidden(
    model: nn.Module, tokens: Int[Tensor, "B T"], present: Bool[Tensor, "B T"], wanted: Sequence[int]
) -> list[Float[Tensor, "B T _"]]:
    """What the wanted layers give, by hooks; nothing after the last of them is computed, no head either."""
    seen: dict[int, Tensor] = {}

    def keep(number: int) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            seen[number] = output
            if number == max(wanted):
                raise _Enough

        return hook

    parts = stages(model)
    hooks = [parts[number].register_forward_hook(keep(number)) for number in wanted]
    with hooked(hooks), suppress(_Enough):
        # padding is behind the text: a language model, which never looks ahead, needs no mask
        model(tokens) if isinstance(model, LanguageModel) else model(tokens, None if present.all() else present)
    return [seen[number] for number in wanted]


def joined(layer: Layer, layers: list[Tensor]) -> Tensor:
    """The vectors of the chosen layers as one."""
    if len({x.size(-1) for x in layers}) > 1 and layer != "concat":
        widths = ", ".join(str(x.size(-1)) for x in layers)
        raise InputError(f"layer {layer!r}: the layers' widths differ ({widths}); take one layer, or concat.")
    match layer:
        case "mean":
            return torch.stack(layers).mean(0)
        case "sum":
            return torch.stack(layers).sum(0)
        case "concat":
            return torch.cat(layers, -1)
    return layers[0]


@dataclass(frozen=True)
class WordAt:
    """A sentence in words, and the place of the one that is meant."""

    words: list[str]
    place: int


def vectors_of_words(model: nn.Module, tokenizer: Tokenizer, examples: Sequence[WordAt]) -> list[Float[Tensor, "N _"]]:
    """For each layer, from 0 on, a vector for every example."""
    context = int(getattr(model, "context"))  # noqa: B009  (an nn.Module's attributes have no type)
    rows, spans = [], []
    for example in examples:
        words = tokenizer.encode_batch(example.words)
        start = len(tokenizer.opening) + sum(map(len, words[: example.place]))
        spans.append((start, start + len(words[example.place])))
        rows.append([*tokenizer.opening, *(token for word in words for token in word), *tokenizer.closing][:context])
        if spans[-1][1] > len(rows[-1]):
            word = example.words[example.place]
            raise InputError(f"{word!r} stands at token {start + 1:,}, behind the context of {context:,}.")
    by_layer: list[dict[int, Tensor]] = [{} for _ in range(last(model) + 1)]
    for where, layers, _ in batches(model, rows, range(len(by_layer))):
        for means, x in zip(by_layer, layers, strict=True):
            for row, tokens in zip(where, x, strict=True):
                means[row] = tokens[slice(*spans[row])].mean(0).float().cpu()
    return [torch.stack([means[row] for row in range(len(rows))]) for means in by_layer]


def nearest(asked: Float[Tensor, "N D"], known: Float[Tensor, "M D"], senses: Sequence[str]) -> list[str]:
    """For each vector the sense of the known one that is most alike, by cosine."""
    best = (F.normalize(asked) @ F.normalize(known).T).argmax(1)
    return [senses[place] for place in best.tolist()]


CONTEXTS = {
    "bank": (
        "she sat on the river bank",
        "the captain has a bank account",
        "in fact they should not bank on the result",
    ),
    "station": (
        "The train left the station on time",
        "The radio station was playing 60s hits",
        "I was stationed on a remote island in Polynesia",
    ),
    "it": (
        "The animal didn't cross the street because it was too tired",
        "The animal didn't cross the street because it was too wide",
    ),
}
"""The decks' own: bank in 000, station and it in 004."""


def locate_word(text: str, word: str) -> WordAt:
    """The first place of a word in a text; where it does not stand alone, of a word that begins with it."""
    words = cut_words(text)
    low, wanted = [own.lower() for own in words], word.lower()
    if wanted in low:
        return WordAt(words, low.index(wanted))
    longer = [place for place, own in enumerate(low) if own.startswith(wanted)]
    if not longer or not wanted:
        raise InputError(f"word {word!r}: does not occur in {text[:80]!r}. Give texts that hold the word.")
    return WordAt(words, longer[0])


def alike_by_layer(
    model: nn.Module, tokenizer: Tokenizer, word: str, texts: Sequence[str]
) -> list[Float[Tensor, "N N"]]:
    """For each layer from 0 on, the cosines between the word's vectors in every two texts."""
    layers = vectors_of_words(model, tokenizer, [locate_word(text, word) for text in texts])
    return [F.normalize(x) @ F.normalize(x).T for x in layers]


def nearest_texts(
    asked: Float[Tensor, "N D"], parts: Iterator[tuple[list[str], Float[Tensor, "_ D"]]], top: int
) -> list[list[tuple[str, float]]]:
    """For each vector the texts that are most alike, with their cosines; the texts come in parts, and few are held."""
    best: list[list[tuple[str, float]]] = [[] for _ in asked]
    wanted = F.normalize(asked)
    for texts, vectors in parts:
        values, places = (wanted @ F.normalize(vectors).T).topk(min(top, len(texts)), dim=1)
        for row, (cosines, chosen) in enumerate(zip(values.tolist(), places.tolist(), strict=True)):
            held = best[row] + [(texts[place], cosine) for place, cosine in zip(chosen, cosines, strict=True)]
            best[row] = sorted(held, key=lambda pair: -pair[1])[:top]
    return best

"""Vectors of texts, of their tokens and of words, from any layer of a model of blocks (decks 000 and 004).

Layers are numbered as in Hugging Face's `output_hidden_states`: 0 is the input of the first block, n the output of the
n-th, and the last layer of a decoder is taken after its final norm (BERT has none). A recurrent model has 0 and 1.
"mean", "sum" and "concat" combine the last four layers (Devlin et al. 2019, section 5.3), or all if there are fewer.

Texts go through the model sorted by length, in batches of a bounded number of tokens; results come in the given order.
The vector of a word is the mean of its tokens' vectors within the sentence; its sense is that of the nearest known
example (Loureiro et al. 2021; deck 000, "bank").
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
from qkv.evaluation.decisions import split_words
from qkv.models.language_model import LanguageModel
from qkv.objectives.objective import padded
from qkv.objectives.order import longest_first
from qkv.text.tokenizer import Tokenizer
from qkv.visible import ShortRepr

Combination = Literal["mean", "sum", "concat"]
Layer = int | Combination
Pool = Literal["mean", "first", "last", "max"]
Precision = unpadded_bert.Precision
POOLINGS = {"mean": MeanPooling(), "first": FirstPooling(), "last": LastPooling(), "max": MaxPooling()}
COMBINED_LAYERS = 4
BATCH_TOKENS = 8192

Rows = Sequence[Sequence[int]]


@dataclass(frozen=True, repr=False)
class TokenVectors(ShortRepr):
    """The tokens of a text: their ids, their readable forms, and a vector for each."""

    ids: list[int]
    tokens: list[str]
    vectors: Float[Tensor, "T D"]


def encode(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> tuple[list[list[int]], list[str]]:
    """The ids of each text, with the special tokens that the model expects around them; and notes on what was cut.

    Of a text longer than the context, the end is cut, but not the closing tokens. An empty text is a separator.
    """
    opening, closing = list(tokenizer.opening), list(tokenizer.closing)
    room = context - len(opening) - len(closing)
    if room < 1:
        raise InputError(
            f"a context of {context} has no room for a text and its {len(opening) + len(closing)} special tokens."
        )
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


def text_vectors(
    model: nn.Module, rows: Rows, *, layer: Layer = -1, pool: Pool = "mean", precision: Precision = "f32"
) -> Float[Tensor, "N D"]:
    """One vector for each text. Pooling is over all its tokens, with [CLS] and [SEP], as in sentence-transformers."""
    if pool not in get_args(Pool):
        raise InputError(f"pool {pool!r}: expected one of {', '.join(get_args(Pool))}.")
    table = torch.empty(0, 0)
    for indices, layers, present in batches(model, rows, layer_numbers(layer, last_layer(model)), precision):
        x = POOLINGS[pool](combined(layer, layers), present).float().cpu()
        table = table if len(table) else torch.empty(len(rows), x.size(-1))
        table[indices] = x
    return table


def token_vectors(
    model: nn.Module, rows: Rows, *, layer: Layer = -1, precision: Precision = "f32"
) -> list[Float[Tensor, "_ D"]]:
    """For each text, a vector for each token."""
    by_row: dict[int, Tensor] = {}
    for indices, layers, _ in batches(model, rows, layer_numbers(layer, last_layer(model)), precision):
        for row, vectors in zip(indices, combined(layer, layers).float().cpu(), strict=True):
            by_row[row] = vectors[: len(rows[row])].clone()
    return [by_row[row] for row in range(len(rows))]


def batches(
    model: nn.Module, rows: Rows, wanted: Sequence[int], precision: Precision = "f32"
) -> Iterator[tuple[list[int], list[Float[Tensor, "B T _"]], Bool[Tensor, "B T"]]]:
    """Yield batches, longest texts first: their indices, their vectors at each wanted layer, and False for padding."""
    encoder = getattr(model, "encoder", model)
    if precision not in get_args(Precision):
        raise InputError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}.")
    fast = unpadded_bert.UnpaddedBert(encoder, precision) if unpadded_bert.fits(encoder) else None
    device = next(model.parameters()).device
    for batch in longest_first(np.array([len(row) for row in rows], dtype=np.int64), BATCH_TOKENS):
        indices = batch.tolist()
        tokens, present = (table.to(device) for table in padded([rows[row] for row in indices]))
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, not fast and precision == "bf16"):
            layers = fast(tokens, present, wanted) if fast else hidden_states(encoder, tokens, present, wanted)
        yield indices, layers, present


def layer_modules(model: nn.Module) -> list[nn.Module]:
    """The modules whose outputs are layers 0, 1, 2 …"""
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


def last_layer(model: nn.Module) -> int:
    """The number of the last layer."""
    return len(layer_modules(getattr(model, "encoder", model))) - 1


def layer_numbers(layer: Layer, last: int) -> list[int]:
    """The numbers, from 0 to `last`, of the layer or the layers that `layer` stands for."""
    if layer in get_args(Combination):
        return list(range(max(0, last + 1 - COMBINED_LAYERS), last + 1))
    if not isinstance(layer, int) or not -last - 1 <= layer <= last:
        raise InputError(
            f"layer {layer}: this model has 0 (the input of block 1) to {last}, or -1 (the last) back to {-last - 1}; "
            f"{', '.join(get_args(Combination))} combine the last {COMBINED_LAYERS}."
        )
    return [layer % (last + 1)]


class _AllSeen(Exception):  # noqa: N818  (no error: the last wanted layer was computed, and the pass ends)
    pass


def hidden_states(
    model: nn.Module, tokens: Int[Tensor, "B T"], present: Bool[Tensor, "B T"], wanted: Sequence[int]
) -> list[Float[Tensor, "B T _"]]:
    """The outputs of the wanted layers, taken by hooks; nothing after the last of them is computed."""
    seen: dict[int, Tensor] = {}

    def keep(number: int) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            seen[number] = output
            if number == max(wanted):
                raise _AllSeen

        return hook

    modules = layer_modules(model)
    hooks = [modules[number].register_forward_hook(keep(number)) for number in wanted]
    with hooked(hooks), suppress(_AllSeen):
        # padding comes after the text: a language model, which is causal, needs no mask
        model(tokens) if isinstance(model, LanguageModel) else model(tokens, None if present.all() else present)
    return [seen[number] for number in wanted]


def combined(layer: Layer, layers: list[Tensor]) -> Tensor:
    """The vectors of the layers, combined as `layer` says."""
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
class WordInSentence:
    """The words of a sentence, and the index of one of them."""

    words: list[str]
    index: int


def vectors_of_words(
    model: nn.Module, tokenizer: Tokenizer, examples: Sequence[WordInSentence]
) -> list[Float[Tensor, "N _"]]:
    """For each layer, from 0 on, the vectors of the words, one for each example."""
    context = int(getattr(model, "context"))  # noqa: B009  (an nn.Module's attributes have no type)
    rows, spans = [], []
    for example in examples:
        words = tokenizer.encode_batch(example.words)
        start = len(tokenizer.opening) + sum(map(len, words[: example.index]))
        spans.append((start, start + len(words[example.index])))
        rows.append([*tokenizer.opening, *(token for word in words for token in word), *tokenizer.closing][:context])
        if spans[-1][1] > len(rows[-1]):
            word = example.words[example.index]
            raise InputError(f"{word!r} is at token {start + 1:,}, beyond the context of {context:,}.")
    by_layer: list[dict[int, Tensor]] = [{} for _ in range(last_layer(model) + 1)]
    for indices, layers, _ in batches(model, rows, range(len(by_layer))):
        for means, x in zip(by_layer, layers, strict=True):
            for row, tokens in zip(indices, x, strict=True):
                means[row] = tokens[slice(*spans[row])].mean(0).float().cpu()
    return [torch.stack([means[row] for row in range(len(rows))]) for means in by_layer]


def nearest_senses(queries: Float[Tensor, "N D"], known: Float[Tensor, "M D"], senses: Sequence[str]) -> list[str]:
    """For each query, the sense of the known vector with the highest cosine similarity."""
    best = (F.normalize(queries) @ F.normalize(known).T).argmax(1)
    return [senses[index] for index in best.tolist()]


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
"""The examples of the decks: bank in 000, station and it in 004."""


def locate_word(text: str, word: str) -> WordInSentence:
    """The first occurrence of a word in a text or, if there is none, of a longer word that begins with it."""
    words = split_words(text)
    lowercased, wanted = [own.lower() for own in words], word.lower()
    if wanted in lowercased:
        return WordInSentence(words, lowercased.index(wanted))
    longer = [index for index, own in enumerate(lowercased) if own.startswith(wanted)]
    if not longer or not wanted:
        raise InputError(f"word {word!r}: does not occur in {text[:80]!r}. Give texts that contain the word.")
    return WordInSentence(words, longer[0])


def similarities_by_layer(
    model: nn.Module, tokenizer: Tokenizer, word: str, texts: Sequence[str]
) -> list[Float[Tensor, "N N"]]:
    """For each layer, from 0 on, the cosine similarities between the vectors of the word in each pair of texts."""
    layers = vectors_of_words(model, tokenizer, [locate_word(text, word) for text in texts])
    return [F.normalize(x) @ F.normalize(x).T for x in layers]


def nearest_texts(
    queries: Float[Tensor, "N D"], parts: Iterator[tuple[list[str], Float[Tensor, "_ D"]]], top: int
) -> list[list[tuple[str, float]]]:
    """For each query, the `top` texts with the highest cosine similarity; only one of `parts` is in memory at once."""
    best: list[list[tuple[str, float]]] = [[] for _ in queries]
    wanted = F.normalize(queries)
    for texts, vectors in parts:
        values, indices = (wanted @ F.normalize(vectors).T).topk(min(top, len(texts)), dim=1)
        for row, (cosines, chosen) in enumerate(zip(values.tolist(), indices.tolist(), strict=True)):
            candidates = best[row] + [(texts[index], cosine) for index, cosine in zip(chosen, cosines, strict=True)]
            best[row] = sorted(candidates, key=lambda pair: -pair[1])[:top]
    return best

"""Vectors of texts and of their tokens, from any layer of a model of blocks (deck 000, "contextual embeddings").

Layers are counted as in Hugging Face's `output_hidden_states`: 0 is what enters the first block, n what leaves the
n-th, and the last of a decoder is taken behind its final norm (BERT has none). A recurrent model has 0 and 1. "mean",
"sum" and "concat" join the last four (Devlin et al. 2019, section 5.3), or all where there are fewer.

Texts go through the model sorted by length, a bounded number of tokens at a time; results come in the given order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.heads import FirstPooling, LastPooling, MaxPooling, MeanPooling
from qkv.errors import InputError
from qkv.evaluation import unpadded_bert
from qkv.models.language_model import LanguageModel
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
        notes.append(f"{cut:,} of {len(texts):,} texts are longer than the context of {context:,} tokens; cut there.")
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
    found = torch.empty(0, 0)
    for where, layers, present in batches(model, rows, chosen(layer, last(model)), precision):
        x = joined(layer, layers)
        if not len(found):
            found = torch.empty(len(rows), x.size(-1))
        found[where] = POOLINGS[pool](x, present).float().cpu()
    return found


def by_token(
    model: nn.Module, rows: Rows, *, layer: Layer = -1, precision: Precision = "f32"
) -> list[Float[Tensor, "_ D"]]:
    """For each text, one vector a token."""
    found: list[Any] = [None] * len(rows)
    for where, layers, _ in batches(model, rows, chosen(layer, last(model)), precision):
        for place, vectors in zip(where, joined(layer, layers).float().cpu(), strict=True):
            found[place] = vectors[: len(rows[place])].clone()
    return found


def batches(
    model: nn.Module, rows: Rows, wanted: Sequence[int], precision: Precision = "f32"
) -> Iterator[tuple[list[int], list[Float[Tensor, "B T _"]], Bool[Tensor, "B T"]]]:
    """Which texts, their vectors at each of the wanted layers, and which of those are real; the longest texts first."""
    inside = getattr(model, "encoder", model)
    if precision not in get_args(Precision):
        raise InputError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}.")
    fast = unpadded_bert.Packed(inside, precision) if unpadded_bert.fits(inside) else None
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    device = next(model.parameters()).device
    for where in _cut(order, rows):
        tokens, present = padded([rows[row] for row in where], device)
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, not fast and precision == "bf16"):
            found = fast(tokens, present, wanted) if fast else hidden(inside, tokens, present, wanted)
        yield where, found, present


def _cut(order: list[int], rows: Rows) -> Iterator[list[int]]:
    """Consecutive texts that hold no more than so many tokens, padding included."""
    start = 0
    while start < len(order):
        size = max(1, TOGETHER // max(1, len(rows[order[start]])))
        yield order[start : start + size]
        start += size


def padded(rows: Rows, device: torch.device | str = "cpu") -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Rows of unequal length as one tensor, zeros after their ends, and where they are real."""
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.as_tensor(row)
    present = torch.arange(tokens.size(1)) < lengths.unsqueeze(1)
    return tokens.to(device), present.to(device)


def stages(model: nn.Module) -> list[nn.Module]:
    """The modules that give layer 0, 1, 2 …"""
    parts: Any = model
    if hasattr(parts, "recurrent"):
        return [parts.embedded, parts.recurrent]
    blocks = [parts.embedded, *parts.blocks]
    return [*blocks[:-1], parts.norm] if hasattr(parts, "norm") else blocks


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

    def look(number: int) -> Any:
        def hook(module: nn.Module, given: Any, made: Tensor) -> None:
            seen[number] = made
            if number == max(wanted):
                raise _Enough

        return hook

    parts = stages(model)
    hooks = [parts[number].register_forward_hook(look(number)) for number in wanted]
    try:
        # padding is behind the text: a language model, which never looks ahead, needs no mask
        model(tokens) if isinstance(model, LanguageModel) else model(tokens, None if present.all() else present)
    except _Enough:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return [seen[number] for number in wanted]


def joined(layer: Layer, found: list[Tensor]) -> Tensor:
    """The vectors of the chosen layers as one."""
    if len({each.size(-1) for each in found}) > 1 and layer != "concat":
        widths = ", ".join(str(each.size(-1)) for each in found)
        raise InputError(f"layer {layer!r}: the layers' widths differ ({widths}); take one layer, or concat.")
    match layer:
        case "mean":
            return torch.stack(found).mean(0)
        case "sum":
            return torch.stack(found).sum(0)
        case "concat":
            return torch.cat(found, -1)
    return found[0]

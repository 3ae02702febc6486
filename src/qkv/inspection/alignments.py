"""Which words of the source a translator looks at while it writes each word: its attention, as an alignment.

    share(j, i) = mean over heads of the attention to source piece i where target piece j is written
    to each target word belongs the source word with the largest share of its pieces     Bahdanau 2015, figure 3

The translation is given, so one pass shows all of it; the open attention and taps let the shares be seen. They are a
look inside, no dictionary: heads also look at ends of sentences and at neighbours (Koehn & Knowles 2017, section 3.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.attention import open_attention
from qkv.blocks.decoder import GlobalAttention, SharedCrossBlock
from qkv.errors import InputError
from qkv.text.tokenizer import Tokenizer
from qkv.text.words import Words, words_of


@dataclass(frozen=True)
class Alignment:
    """One sentence: pieces and words of both sides, and the shares of source pieces, (target pieces, source pieces)."""

    source: Words
    target: Words
    shares: Float[Tensor, "T S"]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Source word and target word, for each target word; what is no word, as the end, is not looked at."""
        if not self.source.words or not self.target.words:
            return []
        return [(int(place), word) for word, place in enumerate(self.by_word().argmax(1).tolist())]

    def by_word(self) -> Float[Tensor, "T S"]:
        """The shares, summed over the pieces of each word: (target words, source words)."""
        by_word = torch.zeros(len(self.target.words), len(self.source.words))
        columns = torch.tensor(self.source.places)
        kept = columns >= 0
        for row, word in enumerate(self.target.places):
            if word >= 0:
                by_word[word].index_add_(0, columns[kept], self.shares[row, kept])
        return by_word

    def values(self) -> dict[str, Any]:
        return {
            "source_pieces": self.source.pieces,
            "target_pieces": self.target.pieces,
            "weights": [[round(share, 6) for share in row] for row in self.shares.tolist()],
        }


@torch.inference_mode()
def aligned(
    model: Any, tokenizer: Tokenizer, source: Sequence[int], target: Sequence[int], start: int, layer: int = -1
) -> Alignment:
    """The alignment of a source, with all that stands around it, and its translation, by a layer of the decoder."""
    device = next(model.parameters()).device
    given = torch.tensor([list(source)], device=device)
    tokens = torch.tensor([[start, *target[:-1]]], device=device)
    with watched(model, layer) as seen:
        model.eval()(given, torch.ones_like(given, dtype=torch.bool), tokens)
    (shares,) = seen
    whole = shares[0].float().cpu()
    mean = whole.mean(0) if whole.dim() == 3 else whole  # (H, T, S) -> (T, S)
    return Alignment(words_of(tokenizer, source), words_of(tokenizer, target), mean[: len(target)])


def attends(model: nn.Module) -> bool:
    """Whether it looks at its source while it writes."""
    return bool(_crossing(model))


def _crossing(model: nn.Module) -> list[Any]:
    return [
        module.crossing.sublayer if isinstance(module, SharedCrossBlock) else module
        for module in model.modules()
        if isinstance(module, SharedCrossBlock | GlobalAttention)
    ]


@contextmanager
def watched(model: nn.Module, layer: int = -1) -> Iterator[list[Tensor]]:
    """Within it, what one layer's attention to the source gives at each call."""
    crossing = _crossing(model)
    if not crossing:
        raise InputError(
            "this model has no attention to its source: nothing can be aligned. Train a transformer, or an "
            "rnn-translator with --set model.attention=bilinear."
        )
    if not -len(crossing) <= layer < len(crossing):
        raise InputError(f"layer {layer}: the decoder has {len(crossing)}; expected 0 to {len(crossing) - 1}.")
    seen: list[Tensor] = []
    hook = crossing[layer].weights.register_forward_hook(lambda module, given, made: seen.append(made.detach()))
    try:
        with open_attention(model):
            yield seen
    finally:
        hook.remove()

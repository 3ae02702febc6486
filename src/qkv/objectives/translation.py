"""Translation: the next piece of the target, given the source and all pieces before it (deck 002; Sutskever 2014).

    -Σ_t log p(y_t | y_<t, x),  with label smoothing ε: (1 - ε) of the target's share, ε spread over all pieces

A text ends with the separator, and the decoder starts with it. Batches hold about equally many tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.config import Count, Share, strict
from qkv.data.parallel.encoding import PairRows
from qkv.data.split import even_order
from qkv.objectives.objective import Batch, cross_entropy
from qkv.objectives.order import ByTokens

TOGETHER = 64  # pairs whose loss is looked at at once


@strict
class TranslationConfig:
    kind: Literal["translation"] = "translation"
    smoothing: Share = 0.1
    tokens: Count = 2048  # of a batch, padding included, on the longer side
    metric: Literal["bleu", "errors"] = "bleu"  # errors: of symbols parted by blanks, as phonemes
    evaluation_sentences: Count | None = None  # translated in each evaluation during training; None: open
    final_evaluation_sentences: Count | None = None  # translated after training, of each of validation and test set


@dataclass(frozen=True)
class Translated:
    """A batch: sources, what was written so far, and what comes next; `asked` is True where a target stands."""

    source: Int[Tensor, "B S"]
    present: Bool[Tensor, "B S"]
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    asked: Bool[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int(self.asked.sum())

    def split(self, parts: int) -> Iterator[Translated]:
        pieces = zip(*(part.chunk(parts) for part in self._tensors()), strict=True)
        return (Translated(*piece) for piece in pieces)

    def to(self, device: str) -> Translated:
        return Translated(*(part.to(device) for part in self._tensors()))

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.source, self.present, self.tokens, self.targets, self.asked


def together(pairs: PairRows, which: NDArray[np.int64], start: int) -> Translated:
    """Some pairs as one batch; padding, which nobody looks at, is the start."""
    source, present = padded([pairs.sources.row(row) for row in which.tolist()], start)
    targets, asked = padded([pairs.targets.row(row) for row in which.tolist()], start)
    tokens = torch.cat([torch.full((len(targets), 1), start), targets[:, :-1]], 1)
    return Translated(source, present, tokens, targets, asked)


def padded(rows: list[NDArray[Any]], filler: int) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), int(lengths.max())), filler, dtype=np.int64)
    there = np.arange(table.shape[1]) < lengths[:, None]
    table[there] = np.concatenate(rows)
    return torch.from_numpy(table), torch.from_numpy(there)


class Translation:
    """One sample is one planned batch: `training.batch` counts them, and is 1 unless somebody wants larger steps."""

    def __init__(self, config: TranslationConfig, pairs: PairRows, start: int, seed: int) -> None:
        self.config, self.pairs, self.start = config, pairs, start
        lengths = np.maximum(pairs.sources.lengths, pairs.targets.lengths)
        self.order = ByTokens(lengths, config.tokens, seed)
        self.samples = self.order.batches

    def batch(self, first: int, size: int) -> Translated:
        which = np.concatenate([self.order.rows(number) for number in range(first, first + size)])
        return together(self.pairs, which, self.start)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum over the target's pieces; the head sees no padding."""
        assert isinstance(batch, Translated)
        reader: Any = model
        vectors = reader.vectors(batch.source, batch.present, batch.tokens)
        return cross_entropy(reader.head(vectors[batch.asked]), batch.targets[batch.asked], self.config.smoothing)


def spread(count: int, most: int) -> NDArray[np.int64]:
    """Which of so many rows are looked at: evenly spread, for files are often sorted."""
    return np.sort(even_order(count, most))


@torch.inference_mode()
def pairs_loss(model: nn.Module, pairs: PairRows, start: int, most: int | NDArray[np.int64], device: str) -> float:
    """-log p a piece of the target, over so many pairs, or these, without smoothing; those that the context cannot hold
    are left out."""
    reader: Any = model
    lengths = np.maximum(pairs.sources.lengths, pairs.targets.lengths)
    which = spread(len(pairs), most) if isinstance(most, int) else most
    order = which[np.argsort(lengths[which], kind="stable")]
    order = order[lengths[order] <= reader.context]
    total, pieces, training = 0.0, 0, model.training
    model.eval()
    for part in np.array_split(order, max(1, -(-len(order) // TOGETHER))) if len(order) else ():
        batch = together(pairs, part, start).to(device)
        vectors = reader.vectors(batch.source, batch.present, batch.tokens)
        total += float(cross_entropy(reader.head(vectors[batch.asked]), batch.targets[batch.asked]))
        pieces += batch.count
    model.train(training)
    return total / max(1, pieces)

"""Translation: the next token of the target, given the source and all tokens before it (deck 002; Sutskever 2014).

    -Σ_t log p(y_t | y_<t, x),  with label smoothing ε: (1 - ε) of the target's share, ε spread over all tokens

A text ends with the separator, and the decoder starts with it. Batches hold about equally many tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.blocks.fast_paths import evaluating
from qkv.config import Count, Share, strict
from qkv.data.encode import PairRows
from qkv.data.split import even_order
from qkv.objectives.objective import Batch, TensorBatch, cross_entropy, padded
from qkv.objectives.order import ByTokens

TOGETHER = 64  # pairs whose loss is computed at once


@strict
class TranslationConfig:
    kind: Literal["translation"] = "translation"
    smoothing: Share = 0.1
    tokens: Count = 2048  # of a batch, padding included, on the longer side
    metric: Literal["bleu", "errors"] = "bleu"  # errors: of symbols separated by blanks, as phonemes
    evaluation_sentences: Count | None = None  # translated in each evaluation during training; None: open
    final_evaluation_sentences: Count | None = None  # translated after training, of each of validation and test set


@dataclass(frozen=True)
class TranslationBatch(TensorBatch):
    """Sources, what was written so far, and what comes next; `asked` is True where a target stands."""

    source: Int[Tensor, "B S"]
    present: Bool[Tensor, "B S"]
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    asked: Bool[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int(self.asked.sum())

    def loss(self, model: nn.Module, smoothing: float = 0.0) -> Tensor:
        """The sum over the target's tokens; the head sees no padding."""
        assert isinstance(model, TargetVectors)
        vectors = model.vectors(self.source, self.present, self.tokens)
        return cross_entropy(model.head(vectors[self.asked]), self.targets[self.asked], smoothing)


@runtime_checkable
class TargetVectors(Protocol):
    """What a translator offers to learn by: a vector for each token that was written so far, and the head."""

    context: int

    def vectors(
        self, source: Int[Tensor, "B S"], present: Bool[Tensor, "B S"], tokens: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]: ...
    @property
    def head(self) -> nn.Module: ...


def together(pairs: PairRows, which: NDArray[np.int64], start: int) -> TranslationBatch:
    """Some pairs as one batch; padding, which nobody looks at, is the start."""
    source, present = padded([pairs.sources.row(row) for row in which.tolist()], start)
    targets, asked = padded([pairs.targets.row(row) for row in which.tolist()], start)
    tokens = torch.cat([torch.full((len(targets), 1), start), targets[:, :-1]], 1)
    return TranslationBatch(source, present, tokens, targets, asked)


class Translation:
    """One sample is one planned batch: `training.batch` counts them, and is 1 unless somebody wants larger steps."""

    def __init__(self, config: TranslationConfig, pairs: PairRows, start: int, seed: int) -> None:
        self.config, self.pairs, self.start = config, pairs, start
        lengths = np.maximum(pairs.sources.lengths, pairs.targets.lengths)
        self.order = ByTokens(lengths, config.tokens, seed)
        self.samples = self.order.batches

    def batch(self, first: int, size: int) -> TranslationBatch:
        which = np.concatenate([self.order.rows(number) for number in range(first, first + size)])
        return together(self.pairs, which, self.start)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(batch, TranslationBatch)
        return batch.loss(model, self.config.smoothing)


def spread(count: int, most: int) -> NDArray[np.int64]:
    """Which of the rows are evaluated, at most so many: evenly spread, for files are often sorted."""
    return np.sort(even_order(count, most))


@torch.inference_mode()
def pairs_loss(model: nn.Module, pairs: PairRows, start: int, most: int | NDArray[np.int64], device: str) -> float:
    """-log p a token of the target, over at most so many pairs, or these, without smoothing; those that the context
    cannot hold are left out."""
    assert isinstance(model, TargetVectors)
    lengths = np.maximum(pairs.sources.lengths, pairs.targets.lengths)
    which = spread(len(pairs), most) if isinstance(most, int) else most
    order = which[np.argsort(lengths[which], kind="stable")]
    order = order[lengths[order] <= model.context]
    total, tokens = 0.0, 0
    with evaluating(model):
        for part in np.array_split(order, -(-len(order) // TOGETHER)) if len(order) else ():
            batch = together(pairs, part, start).to(device)
            total += float(batch.loss(model))
            tokens += batch.count
    return total / max(1, tokens)

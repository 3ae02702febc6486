"""The objective of translation: predict each next target token from the source and the tokens before it.

    loss = -Σ_t log p(y_t | y_<t, x)       deck 002; Sutskever et al. 2014

With label smoothing ε, the target probability is 1 - ε on the right token plus ε spread evenly over all tokens. A text
ends with the separator, and the decoder also starts with it. Batches have about equal numbers of tokens.
"""

from __future__ import annotations

import math
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

EVALUATED_TOGETHER = 64  # pairs in a batch of an evaluation
PARTS = 16  # groups of pairs at least, by which two evaluations are compared


@strict
class TranslationConfig:
    kind: Literal["translation"] = "translation"
    smoothing: Share = 0.1
    tokens: Count = 2048  # in a batch, of sources or of targets (whichever are longer), padding included
    metric: Literal["bleu", "errors"] = "bleu"  # errors: of symbols separated by spaces, such as phonemes
    evaluation_sentences: Count | None = None  # translated in each evaluation during training; None: open
    final_evaluation_sentences: Count | None = None  # translated after training, of each of validation and test set


@dataclass(frozen=True)
class TranslationBatch(TensorBatch):
    """Pairs of texts: `tokens` are the inputs of the decoder, `targets` the tokens that follow them.

    `present` is False where the source is padding, `target_present` where the targets are.
    """

    source: Int[Tensor, "B S"]
    present: Bool[Tensor, "B S"]
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    target_present: Bool[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int(self.target_present.sum())

    def loss(self, model: nn.Module, smoothing: float = 0.0) -> Tensor:
        """The sum of the losses of all target tokens. The head is not computed for padding."""
        assert isinstance(model, TargetVectors)
        vectors = model.vectors(self.source, self.present, self.tokens)
        return cross_entropy(model.head(vectors[self.target_present]), self.targets[self.target_present], smoothing)


@runtime_checkable
class TargetVectors(Protocol):
    """The interface of translators in training: a vector for each input token of the decoder, and the head."""

    context: int

    def vectors(
        self, source: Int[Tensor, "B S"], present: Bool[Tensor, "B S"], tokens: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]: ...
    @property
    def head(self) -> nn.Module: ...


def make_batch(pairs: PairRows, rows: NDArray[np.int64], start: int) -> TranslationBatch:
    """A batch of the pairs with these indices. Padding has the id of the start token; no loss depends on it."""
    source, present = padded([pairs.sources.row(row) for row in rows.tolist()], start)
    targets, target_present = padded([pairs.targets.row(row) for row in rows.tolist()], start)
    tokens = torch.cat([torch.full((len(targets), 1), start), targets[:, :-1]], 1)
    return TranslationBatch(source, present, tokens, targets, target_present)


class Translation:
    """The objective. A sample is a whole planned batch of pairs, so `training.batch` is 1 by default."""

    def __init__(self, config: TranslationConfig, pairs: PairRows, start: int, seed: int) -> None:
        self.config, self.pairs, self.start = config, pairs, start
        lengths = np.maximum(pairs.sources.lengths, pairs.targets.lengths)
        self.order = ByTokens(lengths, config.tokens, seed)
        self.samples = self.order.batches

    def batch(self, first: int, size: int) -> TranslationBatch:
        rows = np.concatenate([self.order.rows(index) for index in range(first, first + size)])
        return make_batch(self.pairs, rows, self.start)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(batch, TranslationBatch)
        return batch.loss(model, self.config.smoothing)


def evenly_spread(count: int, limit: int) -> NDArray[np.int64]:
    """The indices of at most `limit` of `count` rows, evenly spread because files are often sorted."""
    return np.sort(even_order(count, limit))


@torch.inference_mode()
def pairs_loss(
    model: nn.Module, pairs: PairRows, start: int, rows: int | NDArray[np.int64], device: str
) -> tuple[float, list[float]]:
    """The mean of -log p(target token), without smoothing, on these rows or on this number of them; and the means of
    some groups of these rows.

    Pairs that are longer than the context are left out.
    """
    assert isinstance(model, TargetVectors)
    lengths = np.maximum(pairs.sources.lengths, pairs.targets.lengths)
    chosen = evenly_spread(len(pairs), rows) if isinstance(rows, int) else rows
    order = chosen[np.argsort(lengths[chosen], kind="stable")]
    order = order[lengths[order] <= model.context]
    sums, tokens = [], []
    groups = max(min(len(order), PARTS), -(-len(order) // EVALUATED_TOGETHER))
    with evaluating(model):
        for part in np.array_split(order, groups) if len(order) else ():
            batch = make_batch(pairs, part, start).to(device)
            sums.append(float(batch.loss(model)))
            tokens.append(batch.count)
    return math.fsum(sums) / max(1, sum(tokens)), [own / max(1, count) for own, count in zip(sums, tokens, strict=True)]

"""Classification: one decision about a text, a pair of texts, a picture or a row of numbers. Decks 000, 001, 002, 004.

one class      -log softmax(z)[target]
several        -Σ y log σ(z) + (1 - y) log(1 - σ(z)), over all labels, divided by their number
a number       (z - y)² / variance of y in training, so that losses of all tasks are of one size

Weights, where they are asked for, have a mean of one over the training side: by class, or by length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.config import Count, Share, strict
from qkv.data.labelled.encoding import Rows
from qkv.objectives import reading
from qkv.objectives.objective import Batch
from qkv.objectives.order import ByLength
from qkv.objectives.reading import Inputs, Source

Problem = Literal["single", "multi", "regression"]


@strict
class ClassificationConfig:
    kind: Literal["classification"] = "classification"
    # balanced: every class counts alike, however rare; length: a text as much as it is long
    weights: Literal["none", "balanced", "length"] = "none"
    smoothing: Share = 0.0  # of the target's share that is spread over all classes
    evaluation_examples: Count | None = None  # of the validation set, in each evaluation during training; None: open


@dataclass(frozen=True)
class Judged:
    """A batch: what is read, and the right answers."""

    read: Inputs
    targets: Tensor
    weights: Tensor  # of each example

    @property
    def count(self) -> int:
        return len(self.targets)

    def split(self, parts: int) -> Iterator[Judged]:
        cut = (reading.cut(self.read, parts), self.targets.chunk(parts), self.weights.chunk(parts))
        for read, targets, weights in zip(*cut, strict=True):
            yield Judged(read, targets, weights)

    def to(self, device: str) -> Judged:
        return Judged(reading.moved(self.read, device), self.targets.to(device), self.weights.to(device))


class Classification:
    """`rows` are texts as ids, pictures as pixels, or numbers; `targets` as data/labelled/examples.py has them."""

    def __init__(
        self,
        config: ClassificationConfig,
        rows: Source,
        targets: NDArray[Any],
        problem: Problem,
        batch: int,
        seed: int,
    ) -> None:
        self.config, self.rows, self.targets, self.problem = config, rows, targets, problem
        lengths = rows.lengths if isinstance(rows, Rows) else np.zeros(len(rows), dtype=np.int64)
        self.order = ByLength(lengths, batch, seed)
        self.samples = self.order.samples
        self.variance = max(float(np.var(targets)), 1e-12) if problem == "regression" else 1.0
        self.weights = weights(config, targets, lengths, problem)

    def batch(self, first: int, size: int) -> Judged:
        which = self.order.rows(first, size)
        kind = np.int64 if self.problem == "single" else np.float32
        targets = torch.from_numpy(self.targets[which].astype(kind))
        return Judged(reading.inputs(self.rows, which), targets, self.weights[torch.from_numpy(which)])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum over the batch; the loop divides by the count."""
        assert isinstance(batch, Judged)
        logits = batch.read.read_by(model).float()
        match self.problem:
            case "single":
                found = F.cross_entropy(logits, batch.targets, reduction="none", label_smoothing=self.config.smoothing)
            case "multi":
                found = F.binary_cross_entropy_with_logits(logits, batch.targets, reduction="none").mean(-1)
            case "regression":
                found = F.mse_loss(logits.squeeze(-1), batch.targets, reduction="none") / self.variance
        return (batch.weights * found).sum()


def weights(
    config: ClassificationConfig, targets: NDArray[Any], lengths: NDArray[np.integer], problem: Problem
) -> Tensor:
    """How much each example counts; one in the mean."""
    if config.weights == "balanced" and problem == "single":
        return balanced(targets)[torch.from_numpy(targets.astype(np.int64))]
    if config.weights == "length" and lengths.any():
        return torch.from_numpy((lengths / lengths.mean()).astype(np.float32))
    return torch.ones(len(targets))


def balanced(targets: NDArray[Any]) -> Tensor:
    """A weight for each class, so that all classes count alike and the mean over the examples is one."""
    counts = np.bincount(targets.astype(np.int64))
    return torch.tensor(len(targets) / (np.count_nonzero(counts) * np.maximum(counts, 1)), dtype=torch.float32)

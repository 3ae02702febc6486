"""Classification: one decision about a text, a pair of texts, an image or a row of numbers. Decks 000, 001, 002, 004.

one class      -log softmax(z)[target]
several        -Σ y log σ(z) + (1 - y) log(1 - σ(z)), over all labels, divided by their number
a number       (z - y)² / variance of y in training, so that losses of all tasks are of one size

Weights, where they are asked for, have a mean of one over the training side: by class, or by length.

Tagging: a decision about every word, as its part of speech or whether it belongs to a name (deck 002). A word of
several tokens is tagged at its first one (Devlin et al. 2019, section 5.3); the others have no target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.config import Count, Share, strict
from qkv.data.encode import EncodedRows
from qkv.objectives.objective import ArrayInputs, Batch, Source, TensorBatch, TextInputs, inputs, text_inputs
from qkv.objectives.order import ByLength

Targets = NDArray[Any]  # classes, true or false for each label, or numbers
Problem = Literal["single", "multi", "regression"]


@strict
class ClassificationConfig:
    kind: Literal["classification"] = "classification"
    # balanced: every class counts alike, however rare; length: a text as much as it is long
    weights: Literal["none", "balanced", "length"] = "none"
    smoothing: Share = 0.0  # of the target's share that is spread over all classes
    evaluation_examples: Count | None = None  # of the validation set, in each evaluation during training; None: open


@dataclass(frozen=True)
class ClassificationBatch(TensorBatch):
    """What is read, and the right answers."""

    read: TextInputs | ArrayInputs
    targets: Tensor
    weights: Tensor  # of each example

    @property
    def count(self) -> int:
        return len(self.targets)


class Classification:
    """`rows` are texts as ids, images as pixels, or numbers; `targets` as data/examples.py has them."""

    def __init__(
        self,
        config: ClassificationConfig,
        rows: Source,
        targets: Targets,
        problem: Problem,
        batch: int,
        seed: int,
    ) -> None:
        self.config, self.rows, self.targets, self.problem = config, rows, targets, problem
        lengths = rows.lengths if isinstance(rows, EncodedRows) else np.zeros(len(rows), dtype=np.int64)
        self.order = ByLength(lengths, batch, seed)
        self.samples = self.order.samples
        self.variance = max(float(np.var(targets)), 1e-12) if problem == "regression" else 1.0
        self.weights = weights(config, targets, lengths, problem)

    def batch(self, first: int, size: int) -> ClassificationBatch:
        which = self.order.rows(first, size)
        kind = np.int64 if self.problem == "single" else np.float32
        targets = torch.from_numpy(self.targets[which].astype(kind))
        return ClassificationBatch(inputs(self.rows, which), targets, self.weights[torch.from_numpy(which)])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum over the batch; the loop divides by the count."""
        assert isinstance(batch, ClassificationBatch)
        logits = batch.read.read_by(model).float()
        match self.problem:
            case "single":
                losses = F.cross_entropy(logits, batch.targets, reduction="none", label_smoothing=self.config.smoothing)
            case "multi":
                losses = F.binary_cross_entropy_with_logits(logits, batch.targets, reduction="none").mean(-1)
            case "regression":
                losses = F.mse_loss(logits.squeeze(-1), batch.targets, reduction="none") / self.variance
        return (batch.weights * losses).sum()


def weights(config: ClassificationConfig, targets: Targets, lengths: NDArray[np.integer], problem: Problem) -> Tensor:
    """How much each example counts; one in the mean."""
    if config.weights == "balanced" and problem == "single":
        return balanced(targets)[torch.from_numpy(targets.astype(np.int64))]
    if config.weights == "length" and lengths.any():
        return torch.from_numpy((lengths / lengths.mean()).astype(np.float32))
    return torch.ones(len(targets))


def balanced(targets: Targets) -> Tensor:
    """A weight for each class, so that all classes count alike and the mean over the examples is one."""
    counts = np.bincount(targets.astype(np.int64))
    return torch.tensor(len(targets) / (np.count_nonzero(counts) * np.maximum(counts, 1)), dtype=torch.float32)


NONE = -1  # the target of a token that has none


@strict
class TaggingConfig:
    kind: Literal["tagging"] = "tagging"
    smoothing: Share = 0.0
    evaluation_examples: Count | None = None  # of the validation set, in each evaluation during training; None: open


@dataclass(frozen=True)
class TaggingBatch(TensorBatch):
    """What is read, and the right tag at the first token of each word."""

    read: TextInputs
    targets: Int[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int((self.targets != NONE).sum())


class Tagging:
    """`tags` are those of all words, one after the other."""

    def __init__(
        self, config: TaggingConfig, rows: EncodedRows, tags: NDArray[np.integer], batch: int, seed: int
    ) -> None:
        self.config, self.rows, self.tags = config, rows, tags
        self.order = ByLength(rows.lengths, batch, seed)
        self.samples = self.order.samples

    def batch(self, first: int, size: int) -> TaggingBatch:
        which = self.order.rows(first, size)
        read = text_inputs(self.rows, which)
        targets = np.full(read.tokens.shape, NONE, dtype=np.int64)
        for place, row in enumerate(which.tolist()):
            begin, end, places = words_of(self.rows, row)
            targets[place, places] = self.tags[begin:end]
        return TaggingBatch(read, torch.from_numpy(targets))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(batch, TaggingBatch)
        logits = batch.read.read_by(model).float()
        flat, targets = logits.flatten(0, 1), batch.targets.flatten()
        return F.cross_entropy(flat, targets, ignore_index=NONE, reduction="sum", label_smoothing=self.config.smoothing)


def words_of(rows: EncodedRows, row: int) -> tuple[int, int, NDArray[np.int64]]:
    """The first word of a row, the one behind its last, and where their first tokens stand."""
    assert rows.words is not None
    assert rows.places is not None
    begin, end = int(rows.words[row]), int(rows.words[row + 1])
    return begin, end, rows.places[begin:end]

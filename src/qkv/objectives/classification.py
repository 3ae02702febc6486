"""The objectives of classification and tagging (decks 000, 001, 002 and 004).

Classification is one decision about a text, a pair of texts, an image or a row of numbers. The loss of an example:

one class         -log softmax(z)[target]
several labels    -Σ (y log σ(z) + (1 - y) log(1 - σ(z))) / number of labels
a number          (z - y)² / variance of y in the training data, so that losses are of similar size in all tasks

Examples may be weighted by class or by length; the weights have a mean of one over the training data.

Tagging is a decision about each word, such as its part of speech or whether it belongs to a name (deck 002). A word of
several tokens is tagged at its first token (Devlin et al. 2019, section 5.3); the other tokens have no target. The loss
of a sentence is -log p of its tags: each by a softmax, or all together by a linear-chain CRF (blocks/crf.py). Spans are
rare, and a model that is in doubt leaves them out. With a cost c of missed words the tags compete with those that are
wrong in this way and score c more: recall-oriented softmax-margin (Gimpel and Smith 2010; Mohit et al. 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.blocks.crf import LinearChainCRF
from qkv.config import Count, PositiveOrZero, Share, strict
from qkv.data.encode import EncodedRows
from qkv.objectives.objective import ArrayInputs, Batch, Source, TensorBatch, TextInputs, inputs, text_inputs
from qkv.objectives.order import ByLength

Targets = NDArray[Any]  # class numbers, a table of booleans with a column for each label, or numbers
Problem = Literal["single", "multi", "regression"]  # one class, several labels, a number


@strict
class ClassificationConfig:
    kind: Literal["classification"] = "classification"
    # balanced: all classes have the same total weight; length: the weight of a text is proportional to its length
    weights: Literal["none", "balanced", "length"] = "none"
    smoothing: Share = 0.0  # part of the target's probability that is spread over all classes
    evaluation_examples: Count | None = None  # of the validation set, in each evaluation during training; None: open


@dataclass(frozen=True)
class ClassificationBatch(TensorBatch):
    read: TextInputs | ArrayInputs
    targets: Tensor
    weights: Tensor

    @property
    def count(self) -> int:
        return len(self.targets)


class Classification:
    """The objective for `rows` of ids, pixels or numbers, and their `targets` (`data/examples.py`)."""

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
        indices = self.order.rows(first, size)
        dtype = np.int64 if self.problem == "single" else np.float32
        targets = torch.from_numpy(self.targets[indices].astype(dtype))
        return ClassificationBatch(inputs(self.rows, indices), targets, self.weights[torch.from_numpy(indices)])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The weighted sum over the batch; the training loop divides it by the count."""
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
    """The weight of each example, one on average."""
    if config.weights == "balanced" and problem == "single":
        return class_weights(targets)[torch.from_numpy(targets.astype(np.int64))]
    if config.weights == "length" and lengths.any():
        return torch.from_numpy((lengths / lengths.mean()).astype(np.float32))
    return torch.ones(len(targets))


def class_weights(targets: Targets) -> Tensor:
    """The weight of each class, so that all classes have the same total weight and examples one on average."""
    counts = np.bincount(targets.astype(np.int64))
    return torch.tensor(len(targets) / (np.count_nonzero(counts) * np.maximum(counts, 1)), dtype=torch.float32)


NO_TARGET = -1  # the target of a token that is not the first of a word


@strict
class TaggingConfig:
    kind: Literal["tagging"] = "tagging"
    smoothing: Share = 0.0
    missed_cost: PositiveOrZero = 0.0  # of tagging a word of a span as outside, in a CRF: more spans are found
    evaluation_examples: Count | None = None  # of the validation set, in each evaluation during training; None: open


@dataclass(frozen=True)
class TaggingBatch(TensorBatch):
    read: TextInputs
    targets: Int[Tensor, "B T"]  # the tag at the first token of each word, NO_TARGET at all others

    @property
    def count(self) -> int:
        return int((self.targets != NO_TARGET).sum())


class Tagging:
    """The objective for sentences; `tags` are the tags of all their words in one array."""

    def __init__(
        self,
        config: TaggingConfig,
        rows: EncodedRows,
        tags: NDArray[np.integer],
        batch: int,
        seed: int,
        outside: int | None = None,  # the number of the tag outside of spans, where tags mark spans
    ) -> None:
        self.config, self.rows, self.tags, self.outside = config, rows, tags, outside
        self.order = ByLength(rows.lengths, batch, seed)
        self.samples = self.order.samples

    def batch(self, first: int, size: int) -> TaggingBatch:
        indices = self.order.rows(first, size)
        read = text_inputs(self.rows, indices)
        targets = np.full(read.tokens.shape, NO_TARGET, dtype=np.int64)
        for target_row, row in zip(targets, indices.tolist(), strict=True):
            begin, end, positions = words_of(self.rows, row)
            target_row[positions] = self.tags[begin:end]
        return TaggingBatch(read, torch.from_numpy(targets))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(batch, TaggingBatch)
        logits = batch.read.read_by(model).float()
        if isinstance(chain := getattr(model, "chain", None), LinearChainCRF):
            scores, words = words_first(logits, batch.targets != NO_TARGET)
            targets, _ = words_first(batch.targets.unsqueeze(2), batch.targets != NO_TARGET)
            tags = targets.squeeze(2)
            if self.outside is not None and self.config.missed_cost:
                scores = scores.clone()
                scores[..., self.outside] += self.config.missed_cost * (tags != self.outside)
            return -chain.log_likelihood(scores, tags, words).sum()
        return F.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(),
            ignore_index=NO_TARGET, reduction="sum", label_smoothing=self.config.smoothing,
        )  # fmt: skip


def words_first(
    values: Shaped[Tensor, "B T N"], chosen: Bool[Tensor, "B T"]
) -> tuple[Shaped[Tensor, "B W N"], Bool[Tensor, "B W"]]:
    """The values at the chosen places of each row, one after the other, and where there are such."""
    number = int(chosen.sum(1).max())
    order = torch.argsort(~chosen, dim=1, stable=True)[:, :number]
    there = torch.arange(number, device=chosen.device) < chosen.sum(1, keepdim=True)
    return values.gather(1, order.unsqueeze(2).expand(-1, -1, values.size(2))), there


def words_of(rows: EncodedRows, row: int) -> tuple[int, int, NDArray[np.int64]]:
    """The range of a row's words among all words, and the positions of their first tokens in the row."""
    assert rows.words is not None
    assert rows.word_starts is not None
    begin, end = int(rows.words[row]), int(rows.words[row + 1])
    return begin, end, rows.word_starts[begin:end]

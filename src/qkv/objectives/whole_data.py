"""Classification on all examples at once, of texts whose n-grams have been counted: what a convex solver asks for.

A step sees every example, so its batch is always the same one; the loss is that of `classification.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from qkv.blocks.sparse_rows import SparseRows
from qkv.models.classifier import Classifier
from qkv.models.linear import Linear
from qkv.objectives.classification import (
    Classification,
    ClassificationBatch,
    ClassificationConfig,
    Problem,
    Targets,
    weights,
)
from qkv.objectives.objective import ArrayInputs


@dataclass(frozen=True)
class CountedTexts(ArrayInputs):
    """Texts as the numbers that a linear model multiplies; `values` are those of `rows`, which are divided with it."""

    rows: SparseRows

    def read_by(self, model: object) -> Float[Tensor, "B L"]:
        assert isinstance(model, Classifier)
        assert isinstance(model.encoder, Linear)
        return model.of_pooled(model.encoder.scores(self.rows))

    def to(self, device: str) -> CountedTexts:
        return self if str(self.rows.values.device) == device else counted(self.rows.to(device))

    def chunk(self, parts: int) -> list[CountedTexts]:
        if parts == 1:
            return [self]
        return [counted(self.rows.select(which)) for which in torch.arange(len(self.rows)).chunk(parts)]


def counted(rows: SparseRows) -> CountedTexts:
    return CountedTexts(rows.values, rows)


class WholeData(Classification):
    """The objective whose every batch is all examples, in their order."""

    def __init__(
        self,
        config: ClassificationConfig,
        rows: SparseRows,
        targets: Targets,
        problem: Problem,
        lengths: NDArray[np.int64] | None = None,
    ) -> None:
        self.config, self.targets, self.problem, self.samples = config, targets, problem, len(rows)
        self.variance = max(float(np.var(targets)), 1e-12) if problem == "regression" else 1.0
        answers = torch.from_numpy(targets.astype(np.int64 if problem == "single" else np.float32))
        whole = weights(config, targets, np.zeros(len(rows), dtype=np.int64) if lengths is None else lengths, problem)
        self.whole = ClassificationBatch(counted(rows), answers, whole)

    def batch(self, first: int, size: int) -> ClassificationBatch:
        return self.whole

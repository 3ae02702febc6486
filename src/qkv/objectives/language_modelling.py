"""The objective of language modelling: predict each next token (decks 000, 003 and 004).

The text is one long sequence of ids. Each epoch cuts it into windows as long as the context, at another offset, so that
over the epochs a token is seen at every position of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.config import Count, strict
from qkv.objectives import order
from qkv.objectives.objective import Batch, TensorBatch, cross_entropy


@strict
class LanguageModellingConfig:
    kind: Literal["language-modelling"] = "language-modelling"
    positions: Literal["all", "last"] = "all"  # the predictions of a window that count in the loss
    evaluation_tokens: Count | None = None  # of the validation text, in each evaluation during training; None: open
    final_evaluation_tokens: Count | None = None  # scored after training; more if a tenth of the run's tokens is more

    @property
    def synthetic_objective(self) -> SyntheticText:
        return SyntheticText(self.positions)


@dataclass(frozen=True)
class SyntheticText:
    """Makes the objective for a text of a few windows, all of the same token, for forecasts of memory."""

    positions: Literal["all", "last"]

    def __call__(self, context: int) -> LanguageModelling:
        config = LanguageModellingConfig(positions=self.positions)
        return LanguageModelling(config, np.zeros(4 * context, dtype=np.int64), context, 0)


@dataclass(frozen=True)
class Windows(TensorBatch):
    """Windows of tokens, the tokens that follow them, and which of these count in the loss."""

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    counted: Bool[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int(self.counted.sum())


def cut(stream: NDArray[np.integer], starts: list[int], length: int) -> tuple[Tensor, Tensor]:
    """Windows of the stream and the same windows one token later, (B, T) each."""
    positions = np.asarray(starts)[:, None] + np.arange(length + 1)
    rows = torch.from_numpy(stream[positions].astype(np.int64))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class LanguageModelling:
    def __init__(self, config: LanguageModellingConfig, stream: NDArray[np.integer], context: int, seed: int) -> None:
        self.config, self.stream, self.context, self.seed = config, stream, context, seed
        self.max_offset = min(context, len(stream) - context)
        self.samples = (len(stream) - self.max_offset) // context

    def batch(self, first: int, size: int) -> Windows:
        drawn = order.drawn_samples(self.seed, first, size, self.samples)
        starts = [order.offset(self.seed, epoch, self.max_offset) + sample * self.context for epoch, sample in drawn]
        tokens, targets = cut(self.stream, starts, self.context)
        counted = torch.ones_like(targets, dtype=torch.bool)
        if self.config.positions == "last":
            counted[:, :-1] = False
        return Windows(tokens, targets, counted)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum of -log p(next token); the training loop divides it by the count."""
        assert isinstance(batch, Windows)
        logits = model(batch.tokens)
        if self.config.positions == "last":
            return cross_entropy(logits[:, -1], batch.targets[:, -1])
        return cross_entropy(logits.flatten(0, 1), batch.targets.flatten())

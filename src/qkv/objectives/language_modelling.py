"""Language modelling: predict each next token. Decks 000 (the examples), 003 (the last position), 004 (all at once).

The text is one long row of ids. An epoch cuts it into windows of the context's length, at an offset of its own, so that
over the epochs every token is seen at every place of a window.
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
    positions: Literal["all", "last"] = "all"  # which predictions of a window teach
    evaluation_tokens: Count | None = None  # of the validation text, in each evaluation during training; None: open
    final_evaluation_tokens: Count | None = None  # at least so many after training, or a tenth of the run's tokens

    @property
    def sample(self) -> MadeUpText:
        return MadeUpText(self.positions)


@dataclass(frozen=True)
class MadeUpText:
    """The objective on a text of one token, a few windows long: a forecast of memory runs it."""

    positions: Literal["all", "last"]

    def __call__(self, context: int) -> LanguageModelling:
        config = LanguageModellingConfig(positions=self.positions)
        return LanguageModelling(config, np.zeros(4 * context, dtype=np.int64), context, 0)


@dataclass(frozen=True)
class Windows(TensorBatch):
    """A batch: the tokens, the tokens that follow them, and which of those count."""

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    present: Bool[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int(self.present.sum())


def cut(stream: NDArray[np.integer], starts: list[int], length: int) -> tuple[Tensor, Tensor]:
    """Windows of the stream and the same, one token later: (B, T) and (B, T)."""
    places = np.asarray(starts)[:, None] + np.arange(length + 1)
    rows = torch.from_numpy(stream[places].astype(np.int64))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


class LanguageModelling:
    def __init__(self, config: LanguageModellingConfig, stream: NDArray[np.integer], context: int, seed: int) -> None:
        self.config, self.stream, self.context, self.seed = config, stream, context, seed
        self.room = min(context, len(stream) - context)  # how far an epoch's offset may move the windows
        self.samples = (len(stream) - self.room) // context

    def batch(self, first: int, size: int) -> Windows:
        drawn = order.positions(self.seed, first, size, self.samples)
        starts = [order.offset(self.seed, epoch, self.room) + sample * self.context for epoch, sample in drawn]
        tokens, targets = cut(self.stream, starts, self.context)
        present = torch.ones_like(targets, dtype=torch.bool)
        if self.config.positions == "last":
            present[:, :-1] = False
        return Windows(tokens, targets, present)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum of -log p(next token) over what counts; the loop divides by the count."""
        assert isinstance(batch, Windows)
        logits = model(batch.tokens)
        if self.config.positions == "last":
            return cross_entropy(logits[:, -1], batch.targets[:, -1])
        return cross_entropy(logits.flatten(0, 1), batch.targets.flatten())

"""A model of one's own: the mean of all tokens so far, and a linear layer."""

from typing import Literal

import torch
from torch import Tensor, nn

import qkv
from qkv.blocks.state import RecurrentState
from qkv.config import strict


@strict
class MeanConfig:
    kind: Literal["running-mean"] = "running-mean"
    vocabulary: int = 0
    layers: int = 1
    width: int = 32
    context: int = 32

    def build(self) -> "RunningMean":
        return RunningMean(self)


class RunningMean(nn.Module):
    def __init__(self, config: MeanConfig) -> None:
        super().__init__()
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, config.width
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.head = nn.Linear(config.width + 1, config.vocabulary)

    def state(self, rows: int, capacity: int | None = None) -> RecurrentState:
        return RecurrentState(rows, (self.embedding.weight.new_zeros(1, 1, self.width + 1),))

    def forward(self, tokens: Tensor, state: RecurrentState | None = None) -> Tensor:
        state = self.state(len(tokens)) if state is None else state
        ones = torch.ones(*tokens.shape, 1)
        sums = torch.cat([self.embedding(tokens), ones], -1).cumsum(1) + state.hidden[0][0].unsqueeze(1)
        state.update((sums[None, :, -1],), tokens.size(1))
        logits: Tensor = self.head(sums / sums[..., -1:])
        return logits


texts = [f"the dog sat on mat {number}" for number in range(300)]
model = qkv.train(texts, model=MeanConfig(width=16), steps=3, run="mean")
reveal_type(model)
assert model.generate("the", length=10) == model.generate("the", length=10, cached=False)
assert isinstance(qkv.load("mean").module, RunningMean)

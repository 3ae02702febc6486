"""What every language model offers: logits for each position, with or without a state. A protocol, not a base class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks.state import State


@runtime_checkable
class LanguageModel(Protocol):
    vocabulary: int
    context: int
    training: bool  # nn.Module has it

    def eval(self) -> LanguageModel: ...
    def train(self, mode: bool = True) -> LanguageModel: ...  # as nn.Module writes it
    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...  # as nn.Module writes it
    def state(self, rows: int, capacity: int | None = None) -> State: ...

    def __call__(self, tokens: Int[Tensor, "B T"], state: State | None = None) -> Float[Tensor, "B T V"]: ...


def count(model: nn.Module) -> int:
    """The number of parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def learning(model: nn.Module) -> int:
    """How many of the parameters learn."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)

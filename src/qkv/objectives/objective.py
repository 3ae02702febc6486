"""What an objective offers to the loop: batches by position, and a loss. The loss lives here, never in the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Batch(Protocol):
    """What one step sees. `count` is the number of things the loss is summed over."""

    @property
    def count(self) -> int: ...
    def split(self, parts: int) -> Iterator[Batch]: ...
    def to(self, device: str) -> Batch: ...


@runtime_checkable
class Objective(Protocol):
    """`batch(first, size)` is a pure function: the same samples for the same seed, however the run is cut."""

    samples: int  # in one epoch

    def batch(self, first: int, size: int) -> Batch: ...
    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...

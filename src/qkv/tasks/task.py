"""What a task offers to the loop: batches by position, and a loss. The loss lives here, never in the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self

from torch import Tensor, nn


class Batch(Protocol):
    """What one step sees. `count` is the number of things the loss is summed over."""

    @property
    def count(self) -> int: ...
    def split(self, parts: int) -> Iterator[Self]: ...
    def to(self, device: str) -> Self: ...


class Task(Protocol):
    """`batch(first, size)` is a pure function: the same samples for the same seed, however the run is cut."""

    samples: int  # in one epoch

    def batch(self, first: int, size: int) -> Batch: ...
    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...

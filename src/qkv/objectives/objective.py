"""What an objective offers to the loop: batches by position, and a loss. The loss lives here, never in the model.

Batches are tensors of equally many rows; rows of ids are padded to the longest. `cross_entropy` is the loss of many
predictions over a large vocabulary, without a second copy of the logits.

    L = Σ log Σ_v exp(z_v) - z_target          dL/dz = softmax(z) - [v = target]

torch's own keeps the logarithms of the probabilities beside the logits, and then their gradient: three tables of batch
x length x vocabulary. Here the gradient is written over the logits, some rows at a time, while they are in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx

from qkv.data.encode import EncodedRows


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


@runtime_checkable
class Sampled(Protocol):
    """The config of a task whose memory can be forecast (`recipe/memory.py`)."""

    @property
    def sample(self) -> Callable[[int], Objective]:
        """Something hashable that gives the objective on made-up data, for a context."""
        ...


B = TypeVar("B", bound="TensorBatch")


@dataclass(frozen=True)
class TensorBatch:
    """Fields that are tensors, or batches themselves, are split by rows and moved to a device; others stay."""

    def _tensors(self) -> dict[str, Tensor | TensorBatch]:
        return {name: part for name, part in vars(self).items() if isinstance(part, Tensor | TensorBatch)}

    def to(self: B, device: str) -> B:
        return replace(self, **{name: part.to(device) for name, part in self._tensors().items()})

    def chunk(self: B, parts: int) -> list[B]:
        chunks = {name: part.chunk(parts) for name, part in self._tensors().items()}
        numbers = range(len(next(iter(chunks.values()))))
        return [replace(self, **{name: own[number] for name, own in chunks.items()}) for number in numbers]

    def split(self: B, parts: int) -> Iterator[B]:
        return iter(self.chunk(parts))


@dataclass(frozen=True)
class TextInputs(TensorBatch):
    """What a model reads: ids, which of them are real, and of which text of a pair they are."""

    tokens: Int[Tensor, "B T"]
    present: Bool[Tensor, "B T"]
    segments: Int[Tensor, "B T"] | None = None

    def read_by(self, model: nn.Module) -> Tensor:
        """Where nothing is padded there is no mask, which is quicker."""
        return model(self.tokens, None if bool(self.present.all()) else self.present, self.segments)


@dataclass(frozen=True)
class ArrayInputs(TensorBatch):
    """Pictures, (B, H, W, C), or rows of numbers, (B, F)."""

    values: Float[Tensor, "B *_"]

    def read_by(self, model: nn.Module) -> Tensor:
        return model(self.values)


Source = EncodedRows | NDArray[np.uint8] | NDArray[np.float32]
"""Texts as ids, images as bytes, or rows of numbers."""


def inputs(source: Source, which: NDArray[np.int64]) -> TextInputs | ArrayInputs:
    """The examples of these numbers, as a model reads them: pixels from 0 to 1, with a channel where they are grey."""
    if isinstance(source, EncodedRows):
        return text_inputs(source, which)
    chosen = torch.from_numpy(source[which])
    if source.dtype != np.uint8:
        return ArrayInputs(chosen)
    pixels = chosen.float().div_(255)
    return ArrayInputs(pixels.unsqueeze(-1) if pixels.ndim == 3 else pixels)


def text_inputs(rows: EncodedRows, which: NDArray[np.int64]) -> TextInputs:
    """The rows of these numbers, padded to the longest of them with zeros."""
    lengths = rows.lengths[which]
    places = np.arange(int(lengths.max()))
    present = places < lengths[:, None]
    tokens = np.zeros(present.shape, dtype=np.int64)
    tokens[present] = rows.ids[(rows.starts[which][:, None] + places)[present]]
    segments = None
    if rows.seconds is not None:
        segments = torch.from_numpy(((places >= rows.seconds[which][:, None]) & present).astype(np.int64))
    return TextInputs(torch.from_numpy(tokens), torch.from_numpy(present), segments)


def padded(
    rows: Sequence[Sequence[int] | NDArray[np.integer]], filler: int = 0
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Rows of unequal length as one table, and where it is not padding."""
    lengths = np.array([len(row) for row in rows])
    present = np.arange(max(1, int(lengths.max()))) < lengths[:, None]
    table = np.full(present.shape, filler, dtype=np.int64)
    table[present] = np.concatenate(rows, dtype=np.int64, casting="unsafe")
    return torch.from_numpy(table), torch.from_numpy(present)


LARGE = 2**23  # numbers in the logits, from which on it pays
ROWS = 2**18  # numbers worked on at once


class InPlaceCrossEntropy(torch.autograd.Function):
    """The logits, of any number format, are gone at once: nobody else may need them."""

    @staticmethod
    def forward(context: FunctionCtx, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The gradient is written on the way forward: a part is read once, and worked on in f32."""
        vocabulary = logits.size(-1)
        rows = max(1, ROWS // vocabulary)
        losses = []
        for part, target in zip(torch.split(logits, rows), torch.split(targets, rows), strict=True):
            scores, place = part.float(), target.unsqueeze(1)
            top = scores.amax(-1, keepdim=True)
            loss = top - (1 - smoothing) * scores.gather(1, place)
            if smoothing:
                loss -= smoothing * scores.mean(-1, keepdim=True)
            shares = scores.sub_(top).exp_()  # the logits themselves, or a copy where their format is another
            total = shares.sum(-1, keepdim=True)
            losses.append((loss + total.log()).sum())
            shares.div_(total)
            if smoothing:
                shares.sub_(smoothing / vocabulary)
            shares.scatter_add_(1, place, torch.full_like(loss, smoothing - 1))
            if part.dtype != shares.dtype:
                part.copy_(shares)
        context.save_for_backward(logits)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(context: BackwardCFunction, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits: Tensor = context.saved_tensors[0]
        return logits.mul_(gradient), None, None


def cross_entropy(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float = 0.0) -> Float[Tensor, ""]:
    """The sum of -log p(target), or with smoothing ε of (1 - ε) -log p(target) + ε / V Σ -log p. For small
    tables torch's own is as fast."""
    if logits.numel() < LARGE or not logits.requires_grad:
        return F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)
    return InPlaceCrossEntropy.apply(logits, targets, smoothing)  # type: ignore[no-untyped-call]


def token_losses(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    """-log p of every target, for evaluation: some rows at a time, so that there is no second table."""
    rows = max(1, ROWS // logits.size(-1))
    parts = zip(torch.split(logits, rows), torch.split(targets, rows), strict=True)
    return torch.cat([F.cross_entropy(part, own, reduction="none") for part, own in parts])

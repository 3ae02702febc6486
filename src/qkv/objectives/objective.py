"""The interface of an objective (batches and a loss), the inputs of models, and a cross-entropy that saves memory.

    L = Σ log Σ_v exp(z_v) - z_target          dL/dz = softmax(z) - [v = target]

torch's cross-entropy keeps the log-probabilities next to the logits, and then their gradient: three tables of batch x
length x vocabulary. `cross_entropy` writes the gradient over the logits, a few rows at a time while they are in the
processor's cache.
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
    """The samples of a step. `count` is the number of terms in the sum that the loss is."""

    @property
    def count(self) -> int: ...
    def split(self, parts: int) -> Iterator[Batch]: ...
    def to(self, device: str) -> Batch: ...


@runtime_checkable
class Objective(Protocol):
    """`batch(first, size)` depends only on the seed and its arguments, so that a resumed run sees the same samples."""

    samples: int  # in an epoch

    def batch(self, first: int, size: int) -> Batch: ...
    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...


@runtime_checkable
class Forecastable(Protocol):
    """The config of a task for whose runs memory can be forecast (`recipe/memory.py`)."""

    @property
    def synthetic_objective(self) -> Callable[[int], Objective]:
        """A hashable function that gives the objective on synthetic data, for a model with this context."""
        ...


B = TypeVar("B", bound="TensorBatch")


@dataclass(frozen=True)
class TensorBatch:
    """A batch whose tensors, and batches inside it, are split by rows or moved to a device; other fields are kept."""

    def _tensors(self) -> dict[str, Tensor | TensorBatch]:
        return {name: part for name, part in vars(self).items() if isinstance(part, Tensor | TensorBatch)}

    def to(self: B, device: str) -> B:
        return replace(self, **{name: part.to(device) for name, part in self._tensors().items()})

    def chunk(self: B, parts: int) -> list[B]:
        chunks = {name: field.chunk(parts) for name, field in self._tensors().items()}
        count = len(next(iter(chunks.values())))
        return [replace(self, **{name: fields[index] for name, fields in chunks.items()}) for index in range(count)]

    def split(self: B, parts: int) -> Iterator[B]:
        return iter(self.chunk(parts))


@dataclass(frozen=True)
class TextInputs(TensorBatch):
    """Texts for a model: ids, False in `present` for padding, and in `segments` the text of a pair (0 or 1)."""

    tokens: Int[Tensor, "B T"]
    present: Bool[Tensor, "B T"]
    segments: Int[Tensor, "B T"] | None = None

    def read_by(self, model: nn.Module) -> Tensor:
        """The model's output; without padding no mask is passed, which is faster."""
        return model(self.tokens, None if bool(self.present.all()) else self.present, self.segments)


@dataclass(frozen=True)
class ArrayInputs(TensorBatch):
    """Images, (B, H, W, C), or rows of numbers, (B, F)."""

    values: Float[Tensor, "B *_"]

    def read_by(self, model: nn.Module) -> Tensor:
        return model(self.values)


Source = EncodedRows | NDArray[np.uint8] | NDArray[np.float32]
"""Texts as ids, images as bytes, or rows of numbers."""


def inputs(source: Source, indices: NDArray[np.int64]) -> TextInputs | ArrayInputs:
    """The examples with these indices as a model reads them: pixels are from 0 to 1, and grey images get a channel."""
    if isinstance(source, EncodedRows):
        return text_inputs(source, indices)
    chosen = torch.from_numpy(source[indices])
    if source.dtype != np.uint8:
        return ArrayInputs(chosen)
    pixels = chosen.float().div_(255)
    return ArrayInputs(pixels.unsqueeze(-1) if pixels.ndim == 3 else pixels)


def text_inputs(rows: EncodedRows, indices: NDArray[np.int64]) -> TextInputs:
    """The rows with these indices, padded with zeros to the longest of them."""
    lengths = rows.lengths[indices]
    positions = np.arange(int(lengths.max()))
    present = positions < lengths[:, None]
    tokens = np.zeros(present.shape, dtype=np.int64)
    tokens[present] = rows.ids[(rows.starts[indices][:, None] + positions)[present]]
    segments = None
    if rows.second_starts is not None:
        segments = torch.from_numpy(((positions >= rows.second_starts[indices][:, None]) & present).astype(np.int64))
    return TextInputs(torch.from_numpy(tokens), torch.from_numpy(present), segments)


def padded(
    rows: Sequence[Sequence[int] | NDArray[np.integer]], padding: int = 0
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Rows of different lengths as one padded table, and a mask that is False where it is padding."""
    lengths = np.array([len(row) for row in rows])
    present = np.arange(max(1, int(lengths.max()))) < lengths[:, None]
    table = np.full(present.shape, padding, dtype=np.int64)
    table[present] = np.concatenate(rows, dtype=np.int64, casting="unsafe")
    return torch.from_numpy(table), torch.from_numpy(present)


IN_PLACE_LOGITS = 2**23  # with fewer logits, torch's cross-entropy is as fast
LOGITS_AT_ONCE = 2**18  # logits that are computed with at a time


class InPlaceCrossEntropy(torch.autograd.Function):
    """Cross-entropy that overwrites the logits with their gradient: nothing else may use the logits afterwards."""

    @staticmethod
    def forward(context: FunctionCtx, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """Compute the loss and, in the same pass over the logits, the gradient; both in f32."""
        vocabulary = logits.size(-1)
        rows = max(1, LOGITS_AT_ONCE // vocabulary)
        losses = []
        for part, target in zip(torch.split(logits, rows), torch.split(targets, rows), strict=True):
            scores, index = part.float(), target.unsqueeze(1)  # `scores` is `part` itself if that is f32, else a copy
            top = scores.amax(-1, keepdim=True)
            loss = top - (1 - smoothing) * scores.gather(1, index)
            if smoothing:
                loss -= smoothing * scores.mean(-1, keepdim=True)
            gradient = scores.sub_(top).exp_()
            total = gradient.sum(-1, keepdim=True)
            losses.append((loss + total.log()).sum())
            gradient.div_(total)
            if smoothing:
                gradient.sub_(smoothing / vocabulary)
            gradient.scatter_add_(1, index, torch.full_like(loss, smoothing - 1))
            if part.dtype != gradient.dtype:
                part.copy_(gradient)
        context.save_for_backward(logits)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(context: BackwardCFunction, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits: Tensor = context.saved_tensors[0]
        return logits.mul_(gradient), None, None


def cross_entropy(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], smoothing: float = 0.0) -> Float[Tensor, ""]:
    """The sum of -log p(target); with smoothing ε, of (1 - ε) · -log p(target) + ε / V · Σ_v -log p(v)."""
    if logits.numel() < IN_PLACE_LOGITS or not logits.requires_grad:
        return F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)
    return InPlaceCrossEntropy.apply(logits, targets, smoothing)  # type: ignore[no-untyped-call]


def token_losses(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    """-log p of each target, for evaluation: a few rows at a time, to save memory."""
    rows = max(1, LOGITS_AT_ONCE // logits.size(-1))
    parts = zip(torch.split(logits, rows), torch.split(targets, rows), strict=True)
    return torch.cat([F.cross_entropy(part, target, reduction="none") for part, target in parts])

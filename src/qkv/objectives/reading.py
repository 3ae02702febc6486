"""Batches of whole texts: rows of ids, padded to the longest of the batch, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.data.labelled.encoding import Rows


@dataclass(frozen=True)
class Texts:
    """What a model reads: ids, which of them are real, and of which text of a pair they are."""

    tokens: Int[Tensor, "B T"]
    present: Bool[Tensor, "B T"]
    segments: Int[Tensor, "B T"] | None = None

    def read_by(self, model: nn.Module) -> Tensor:
        """Where nothing is padded there is no mask, which is quicker."""
        return model(self.tokens, None if bool(self.present.all()) else self.present, self.segments)


@dataclass(frozen=True)
class Pictures:
    pixels: Float[Tensor, "B H W C"]

    def read_by(self, model: nn.Module) -> Tensor:
        return model(self.pixels)


@dataclass(frozen=True)
class Numbers:
    values: Float[Tensor, "B F"]

    def read_by(self, model: nn.Module) -> Tensor:
        return model(self.values)


Inputs = Texts | Pictures | Numbers
Source = Rows | NDArray[np.uint8] | NDArray[np.float32]
"""Texts as ids, pictures as bytes, or rows of numbers."""


def inputs(source: Source, which: NDArray[np.int64]) -> Inputs:
    """The examples of these numbers, as a model reads them."""
    if isinstance(source, Rows):
        return texts(source, which)
    if source.dtype == np.uint8:
        return pictures(source, which)
    return Numbers(torch.from_numpy(source[which]))


def moved(item: Any, device: str) -> Any:
    """The same with its tensors on the device."""
    return type(item)(*(each.to(device) if each is not None else None for each in _parts(item)))


def cut(item: Any, parts: int) -> Iterator[Any]:
    """The same in so many pieces, by rows."""
    pieces = [each.chunk(parts) if each is not None else None for each in _parts(item)]
    for number in range(len(pieces[0] or ())):
        yield type(item)(*(each[number] if each is not None else None for each in pieces))


def _parts(item: Any) -> list[Tensor | None]:
    return [getattr(item, field.name) for field in fields(item)]


def texts(rows: Rows, which: NDArray[np.int64]) -> Texts:
    """The rows of these numbers, padded to the longest of them with zeros."""
    lengths = rows.lengths[which]
    places = np.arange(int(lengths.max()))
    present = places < lengths[:, None]
    tokens = np.zeros(present.shape, dtype=np.int64)
    tokens[present] = rows.ids[(rows.starts[which][:, None] + places)[present]]
    segments = None
    if rows.seconds is not None:
        segments = torch.from_numpy(((places >= rows.seconds[which][:, None]) & present).astype(np.int64))
    return Texts(torch.from_numpy(tokens), torch.from_numpy(present), segments)


def pictures(pixels: NDArray[Any], which: NDArray[np.int64]) -> Pictures:
    """Values from 0 to 1, with a channel where the pictures are grey."""
    chosen = torch.from_numpy(pixels[which]).float().div_(255)
    return Pictures(chosen.unsqueeze(-1) if chosen.ndim == 3 else chosen)

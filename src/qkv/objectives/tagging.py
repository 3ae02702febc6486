"""Tagging: a decision about every word, as its part of speech or whether it belongs to a name (deck 002).

A word in pieces is judged at its first one (Devlin et al. 2019, section 5.3); the other pieces have no target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.config import Count, Share, strict
from qkv.data.labelled.encoding import Rows
from qkv.objectives import reading
from qkv.objectives.objective import Batch
from qkv.objectives.order import ByLength
from qkv.objectives.reading import Texts

NONE = -1  # the target of a piece that is not judged


@strict
class TaggingConfig:
    kind: Literal["tagging"] = "tagging"
    smoothing: Share = 0.0
    evaluation_examples: Count | None = None  # of the validation set, in each evaluation during training; None: open


@dataclass(frozen=True)
class Tagged:
    """A batch: what is read, and the right tag at each first piece."""

    read: Texts
    targets: Int[Tensor, "B T"]

    @property
    def count(self) -> int:
        return int((self.targets != NONE).sum())

    def split(self, parts: int) -> Iterator[Tagged]:
        for read, targets in zip(reading.cut(self.read, parts), self.targets.chunk(parts), strict=True):
            yield Tagged(read, targets)

    def to(self, device: str) -> Tagged:
        return Tagged(reading.moved(self.read, device), self.targets.to(device))


class Tagging:
    """`tags` are those of all words, one after the other."""

    def __init__(self, config: TaggingConfig, rows: Rows, tags: NDArray[np.integer], batch: int, seed: int) -> None:
        self.config, self.rows, self.tags = config, rows, tags
        self.order = ByLength(rows.lengths, batch, seed)
        self.samples = self.order.samples

    def batch(self, first: int, size: int) -> Tagged:
        which = self.order.rows(first, size)
        read = reading.texts(self.rows, which)
        targets = np.full(read.tokens.shape, NONE, dtype=np.int64)
        for place, row in enumerate(which.tolist()):
            begin, end, places = words_of(self.rows, row)
            targets[place, places] = self.tags[begin:end]
        return Tagged(read, torch.from_numpy(targets))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(batch, Tagged)
        logits = batch.read.read_by(model).float()
        flat, targets = logits.flatten(0, 1), batch.targets.flatten()
        return F.cross_entropy(flat, targets, ignore_index=NONE, reduction="sum", label_smoothing=self.config.smoothing)


def words_of(rows: Rows, row: int) -> tuple[int, int, NDArray[np.int64]]:
    """The first word of a row, the one behind its last, and where their first pieces stand."""
    assert rows.words is not None
    assert rows.places is not None
    begin, end = int(rows.words[row]), int(rows.words[row + 1])
    return begin, end, rows.places[begin:end]

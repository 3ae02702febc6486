"""What parallel text holds: the answer of `qkv data describe` for texts and their translations."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qkv.data.document_files import excerpt
from qkv.data.formats.beginnings import Beginnings
from qkv.data.parallel.config import ParallelConfig
from qkv.data.parallel.pairs import Pairs
from qkv.data.parallel.reading import read_parallel
from qkv.data.progress import Progress

SAMPLE = 3


@dataclass(frozen=True)
class PairsDescription:
    task: str
    directions: list[tuple[str, str]]
    """Source and target language of each direction that is learned."""
    columns: dict[str, str]
    sides: dict[str, int]
    """The pairs of each side that the files have."""
    lengths: dict[str, dict[str, int]]
    """Characters of the training side's sources and targets: shortest, median, longest."""
    copies: int
    """Training pairs that repeat others."""
    fingerprint: str
    beginning: list[dict[str, str]]
    notes: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        return asdict(self)


def describe_pairs(
    config: ParallelConfig, progress: Progress, beginnings: Beginnings | None = None
) -> PairsDescription:
    parallel = read_parallel(config, progress, purpose="describe", beginnings=beginnings)
    train = parallel.train
    first = [train[number] for number in range(min(SAMPLE, len(train)))]
    return PairsDescription(
        task="translation",
        directions=list(parallel.directions),
        columns=dict(parallel.columns),
        sides={name: len(side) for name, side in parallel.sides if len(side)},
        lengths=_lengths(train),
        copies=len(train) - len(np.unique(train.keys)),
        fingerprint=parallel.fingerprint,
        beginning=[{"source": excerpt(pair.source, 100), "target": excerpt(pair.target, 100)} for pair in first],
        notes=parallel.notes,
    )


def _lengths(pairs: Pairs) -> dict[str, dict[str, int]]:
    characters = np.sort(np.array([[len(text) for text in pair] for pair in pairs.texts()]), axis=0)
    rows = {"shortest": 0, "median": len(characters) // 2, "longest": -1}
    return {
        side: {name: int(characters[row, column]) for name, row in rows.items()}
        for column, side in enumerate(("source", "target"))
    }

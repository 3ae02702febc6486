"""Which pairs are held out, and what stands on both sides.

Pairs with an equal source go to the same side; where both directions are learned, those with an equal target too. So
no copy crosses the split, in whatever language it is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qkv.data.findings import Caution
from qkv.data.identity import connected
from qkv.data.labelled.splitting import held_out
from qkv.data.parallel.config import ParallelConfig
from qkv.data.parallel.pairs import Pairs, Parallel
from qkv.errors import DataError

USUAL_FRACTION, USUAL_MOST = 0.05, 2000
SLIPPED = 0.1
_ENOUGH = 1000


def split(train: Pairs, config: ParallelConfig) -> tuple[Pairs, Pairs]:
    """Training pairs and those held out."""
    keys = train.source_keys[train.rows]
    if config.directions == "both":
        keys = connected(keys, train.target_keys[train.rows])
    count = len(np.unique(keys))
    if count < 2:
        problem = (
            "every source is the same, so that nothing can be held out" if len(train) > 1 else "one pair is too little"
        )
        raise DataError(config.files[0], problem, "Give more pairs, or name a validation set with --valid.")
    fraction = config.valid_fraction or min(USUAL_FRACTION, USUAL_MOST / len(keys))
    out = held_out(keys, np.zeros(len(keys), dtype=np.int32), fraction, config.seed)
    return train.chosen(~out), train.chosen(out)


def notes(found: Parallel) -> Iterator[str]:
    """Copies among the training pairs, and between the sides: scores on such pairs say little."""
    train = _forward(found.train)
    copies = len(train) - len(np.unique(train.keys))
    if copies:
        yield f"{copies:,} of {len(train):,} training pairs ({copies / len(train):.1%}) are copies of others."
    if (together := _together(train)) is not None and together < SLIPPED:
        yield Caution(
            f"long sources do not have long targets (correlation {together:.2f}); "
            "check that the files are translations of each other, line by line."
        )
    for name, side in found.sides[1:]:
        own = _forward(side)
        pairs = int(np.isin(own.keys, train.keys).sum())
        sources = int(np.isin(own.source_keys[own.rows], train.source_keys[train.rows]).sum())
        if sources:
            share = f"{sources / len(own):.1%}"
            also = f"{pairs:,} of them with the same translation" if pairs else "none with the same translation"
            yield Caution(f"leak: {sources:,} of {len(own):,} {name} sources ({share}) also stand in training; {also}.")


def _forward(side: Pairs) -> Pairs:
    return side.chosen(~side.backward)


def _together(train: Pairs) -> float | None:
    """How lengths go together, from -1 to 1, on a sample; None where there is too little to tell."""
    some = train.rows[:: max(1, len(train) // (4 * _ENOUGH))]
    lengths = np.array([(len(train.source[row]), len(train.target[row])) for row in some.tolist()], dtype=np.float64)
    if len(some) < _ENOUGH or not lengths.std(0).all():
        return None
    matrix: Any = np.corrcoef(lengths.T)
    return float(matrix[0, 1])

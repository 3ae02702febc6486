"""An order of rows of which every beginning is spread evenly over all of them.

A part of a set is scored where the whole would take too long, and files are often sorted: by label, by length, by
author. The k-th row is the one at the fraction k·φ mod 1 of the way, φ the golden ratio: by the three-gap theorem
(Sós 1958) the first rows, however many, lie at nearly equal distances. So a smaller sample is part of a larger one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = (5**0.5 - 1) / 2


def even_order(count: int, most: int | None = None) -> NDArray[np.int64]:
    """The first `most` of `count` rows, or all of them, each once."""
    wanted = count if most is None else min(count, max(0, most))
    draws = max(1, wanted)
    while True:
        rows = np.minimum((count * (np.arange(draws) * GOLDEN % 1)).astype(np.int64), count - 1)
        _, first = np.unique(rows, return_index=True)
        if len(first) >= wanted:
            return rows[np.sort(first)[:wanted]]
        draws *= 2

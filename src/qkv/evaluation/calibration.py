"""Whether a classifier is right as often as it is sure: expected calibration error (Guo et al. 2017).

    error = sum over bins of  rows in the bin / rows * |accuracy in the bin - mean confidence in the bin|

Confidence is the probability of the class that was chosen. Bins are equally wide; their upper edge belongs to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BINS = 15


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence is above `low` and at most `high`; means are None where there are none."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


def calibration(confidence: Array, correct: Array) -> tuple[Bin, ...]:
    """The table: one bin after the other."""
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    sure = np.bincount(place, confidence, BINS)
    right = np.bincount(place, correct, BINS)
    return tuple(
        Bin(float(low), float(high), int(count), *((float(c / count), float(r / count)) if count else (None, None)))
        for low, high, count, c, r in zip(edges[:-1], edges[1:], counts, sure, right, strict=True)
    )


def expected_error(table: tuple[Bin, ...]) -> float:
    """The mean gap between confidence and accuracy, a row at a time."""
    rows = sum(each.count for each in table)
    gaps = (each.count * abs((each.accuracy or 0.0) - (each.confidence or 0.0)) for each in table)
    return sum(gaps) / max(1, rows)

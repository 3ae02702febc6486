"""How much of a text stands in another one, token by token: stretches of some length that both have.

A stretch is compared by a rolling hash, h = Σ r(token) bʲ modulo 2⁶⁴, where r is a random number of each token (Karp
and Rabin 1987). Edits between stretches do not hide a copy, as they do where whole lines are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BYTES = 40  # about as long is a stretch: some seven words, that rarely come twice by chance
FEWEST = 4  # tokens
CHUNK = 2**20  # tokens hashed at once
FILTER = 22  # bits
BASE = np.uint64(0x9E3779B97F4A7C15)
INVERSE = np.uint64(pow(int(BASE), -1, 2**64))


def stretch(bytes_per_token: float) -> int:
    """How many tokens make a stretch."""
    return max(FEWEST, round(BYTES / max(bytes_per_token, 1e-9)))


def hashes(tokens: Array, length: int) -> Array:
    """One number for every stretch of so many tokens."""
    if len(tokens) < length:
        return np.empty(0, dtype=np.uint64)
    table = np.random.default_rng(0).integers(0, 2**64, size=int(tokens.max()) + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        forward, back = (np.cumprod(np.full(len(tokens), each)) for each in (BASE, INVERSE))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(table[tokens] * forward)])
        return (sums[length:] - sums[:-length]) * back[: len(tokens) - length + 1]  # moved to the power of the first


def shared(text: Array, other: Array, length: int) -> float:
    """The share of the text's tokens that stand in a stretch which `other` has as well."""
    own = hashes(text, length)
    if not len(own):
        return 0.0
    ordered = np.unique(own)
    filled = np.zeros(2**FILTER, dtype=bool)
    shift = np.uint64(64 - FILTER)
    filled[ordered >> shift] = True
    found = np.zeros(len(ordered), dtype=bool)
    for theirs in _in_chunks(other, length):
        likely = theirs[filled[theirs >> shift]]
        spots = np.minimum(np.searchsorted(ordered, likely), len(ordered) - 1)
        found[spots[ordered[spots] == likely]] = True
    return _covered(found[np.searchsorted(ordered, own)], length)


def repeated(text: Array, length: int) -> float:
    """The share of the text's tokens that stand in a stretch which the text has twice or more."""
    own = hashes(text, length)
    if not len(own):
        return 0.0
    _, numbers, counts = np.unique(own, return_inverse=True, return_counts=True)
    return _covered(counts[numbers] > 1, length)


def _in_chunks(tokens: Array, length: int) -> Iterator[Array]:
    for start in range(0, len(tokens), CHUNK):
        yield hashes(tokens[start : start + CHUNK + length - 1], length)


def _covered(starts: Array, length: int) -> float:
    """The share of places that lie in a stretch, by which stretches count."""
    change = np.zeros(len(starts) + length, dtype=np.int64)
    change[: len(starts)] += starts
    change[length:] -= starts
    return float(np.mean(np.cumsum(change)[: len(starts) + length - 1] > 0))

"""The order of samples: a function of seed, epoch and samples consumed, never of workers or processes.

Sample k belongs to epoch k // n; within an epoch each sample comes once, in an order drawn from (seed, epoch).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def generator(*key: int) -> np.random.Generator:
    """A source of random numbers that depends on the key alone, on every machine."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


@lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, samples: int) -> NDArray[np.int64]:
    return generator(seed, epoch, 0).permutation(samples)


@lru_cache(maxsize=4)
def offset(seed: int, epoch: int, room: int) -> int:
    return int(generator(seed, epoch, 1).integers(room))


def positions(seed: int, first: int, size: int, samples: int) -> list[tuple[int, int]]:
    """(epoch, sample) of `size` samples after `first` were consumed."""
    found = []
    for consumed in range(first, first + size):
        epoch, place = divmod(consumed, samples)
        found.append((epoch, int(permutation(seed, epoch, samples)[place])))
    return found


def noise(seed: int, *key: int | NDArray[Any]) -> NDArray[np.float64]:
    """Numbers in [0, 1) that depend on seed and key alone, for whole arrays: SplitMix64 (Steele et al. 2014)."""
    found = _mixed(np.array([seed], dtype=np.uint64))
    for part in key:
        found = _mixed(found ^ np.asarray(part).astype(np.uint64))
    return (found >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + GOLDEN
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))

"""The order of samples: a function of seed, epoch and samples consumed, never of workers or processes.

Sample k belongs to epoch k // n; within an epoch each sample comes once, in an order drawn from (seed, epoch).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


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

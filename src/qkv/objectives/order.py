"""The order of samples: a function of seed, epoch and samples consumed, never of workers or processes.

Sample k belongs to epoch k // n; within an epoch each sample comes once, in an order drawn from (seed, epoch). Samples
of unequal length come in batches of about one length, so that little is padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

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
    places = (divmod(consumed, samples) for consumed in range(first, first + size))
    return [(epoch, int(permutation(seed, epoch, samples)[place])) for epoch, place in places]


def noise(seed: int, *key: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Numbers in [0, 1) that depend on seed and key alone, for whole arrays: SplitMix64 (Steele et al. 2014)."""
    mixed = _mixed(np.array([seed], dtype=np.uint64))
    for part in key:
        mixed = _mixed(mixed ^ np.asarray(part).astype(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + GOLDEN
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


POOL = 32  # batches that are sorted together


def longest_first(lengths: NDArray[np.integer], tokens: int) -> Iterator[NDArray[np.int64]]:
    """All rows once, the longest first, in batches of at most so many tokens, padding included: for evaluation."""
    order, start = np.argsort(-lengths, kind="stable"), 0
    while start < len(order):
        size = max(1, tokens // max(1, int(lengths[order[start]])))
        yield order[start : start + size]
        start += size


class ByLength:
    """Batches of about one length: pools of several batches are sorted by length and cut, and the batches are put into
    a drawn order again. What does not fill a batch sits out this epoch."""

    def __init__(self, lengths: NDArray[np.integer], batch: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.batch = min(batch, len(lengths))
        self.samples = len(lengths) // self.batch * self.batch
        self._order = lru_cache(maxsize=2)(self._drawn)

    def rows(self, first: int, size: int) -> NDArray[np.int64]:
        """Which rows come after `first` samples."""
        parts: list[NDArray[np.int64]] = []
        while size:
            epoch, place = divmod(first, self.samples)
            parts.append(self._order(epoch)[place : place + size])
            first, size = first + len(parts[-1]), size - len(parts[-1])
        return np.concatenate(parts)

    def _drawn(self, epoch: int) -> NDArray[np.int64]:
        source = generator(self.seed, epoch, 2)
        order = source.permutation(len(self.lengths))[: self.samples]
        pool = POOL * self.batch
        pools = [order[start : start + pool] for start in range(0, self.samples, pool)]
        ordered = np.concatenate([part[np.argsort(self.lengths[part], kind="stable")] for part in pools])
        batches = ordered.reshape(-1, self.batch)
        return batches[source.permutation(len(batches))].reshape(-1)


class ByTokens:
    """Batches of about equally many tokens, padding included, planned for a whole epoch: many short samples, few long.

    Samples are sorted by length, those of equal length in a drawn order, and cut; since the lengths stay the same,
    every epoch has as many batches, at the same borders.
    """

    def __init__(self, lengths: NDArray[np.integer], tokens: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.borders = _borders(np.sort(lengths, kind="stable"), tokens)
        self.batches = len(self.borders) - 1
        self._order = lru_cache(maxsize=2)(self._drawn)

    def rows(self, batch: int) -> NDArray[np.int64]:
        """The rows of a batch by its number, counted through all epochs."""
        epoch, place = divmod(batch, self.batches)
        order, turn = self._order(epoch)
        start, stop = self.borders[turn[place]], self.borders[turn[place] + 1]
        return order[start:stop]

    def _drawn(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        source = generator(self.seed, epoch, 2)
        drawn = source.permutation(len(self.lengths))
        return drawn[np.argsort(self.lengths[drawn], kind="stable")], source.permutation(self.batches)


def _borders(lengths: NDArray[np.integer], tokens: int) -> list[int]:
    """Where sorted lengths are cut, so that rows x the longest is no more than so many tokens; one row at least."""
    borders, start = [0], 0
    for place, length in enumerate(lengths.tolist()):
        if place > start and (place + 1 - start) * length > tokens:
            borders.append(place)
            start = place
    return [*borders, len(lengths)]

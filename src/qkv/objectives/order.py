"""The order of samples: a function of the seed and of the number of samples that were consumed.

With n samples, the k-th one drawn belongs to epoch k // n. Within an epoch each sample comes once, in a random order
that depends on (seed, epoch). Samples of different lengths come in batches of similar length, to keep padding short.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SPLITMIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)


def generator(*key: int) -> np.random.Generator:
    """A random generator that is seeded with the key; it gives the same numbers on every machine."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


@lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, samples: int) -> NDArray[np.int64]:
    return generator(seed, epoch, 0).permutation(samples)


@lru_cache(maxsize=4)
def offset(seed: int, epoch: int, limit: int) -> int:
    return int(generator(seed, epoch, 1).integers(limit))


def drawn_samples(seed: int, first: int, size: int, samples: int) -> list[tuple[int, int]]:
    """Epoch and index of the next `size` samples, after `first` were consumed."""
    positions = (divmod(consumed, samples) for consumed in range(first, first + size))
    return [(epoch, int(permutation(seed, epoch, samples)[position])) for epoch, position in positions]


def noise(seed: int, *key: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Random numbers in [0, 1), each a hash of the seed and its key: SplitMix64 (Steele et al. 2014)."""
    hashes = _splitmix(np.array([seed], dtype=np.uint64))
    for part in key:
        hashes = _splitmix(hashes ^ np.asarray(part).astype(np.uint64))
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + SPLITMIX_INCREMENT
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


POOL_BATCHES = 32  # that are sorted by length together


def longest_first(lengths: NDArray[np.integer], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of all rows, longest first, in batches of at most `tokens` tokens, padding included."""
    order, start = np.argsort(-lengths, kind="stable"), 0
    while start < len(order):
        size = max(1, tokens // max(1, int(lengths[order[start]])))
        yield order[start : start + size]
        start += size


class ByLength:
    """Batches of similar length. A random order is cut into pools of several batches, each pool is sorted by length and
    cut into batches, and these are shuffled. Rows that do not fill a batch are left out of the epoch."""

    def __init__(self, lengths: NDArray[np.integer], batch: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.batch = min(batch, len(lengths))
        self.samples = len(lengths) // self.batch * self.batch
        self._cached_order = lru_cache(maxsize=2)(self._order)

    def rows(self, first: int, size: int) -> NDArray[np.int64]:
        """The indices of the next `size` rows, after `first` samples were consumed."""
        parts: list[NDArray[np.int64]] = []
        while size:
            epoch, position = divmod(first, self.samples)
            parts.append(self._cached_order(epoch)[position : position + size])
            first, size = first + len(parts[-1]), size - len(parts[-1])
        return np.concatenate(parts)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        random = generator(self.seed, epoch, 2)
        order = random.permutation(len(self.lengths))[: self.samples]
        pool_size = POOL_BATCHES * self.batch
        pools = [order[start : start + pool_size] for start in range(0, self.samples, pool_size)]
        ordered = np.concatenate([pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools])
        batches = ordered.reshape(-1, self.batch)
        return batches[random.permutation(len(batches))].reshape(-1)


class ByTokens:
    """Batches of about equal numbers of tokens, padding included, so of many short samples or of few long ones.

    Samples are sorted by length, those of equal length in a random order, and cut where a batch is full. The lengths
    are the same in every epoch, and so are the number of batches and the positions of the cuts.
    """

    def __init__(self, lengths: NDArray[np.integer], tokens: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.cuts = _cuts(np.sort(lengths, kind="stable"), tokens)
        self.batches = len(self.cuts) - 1
        self._cached_order = lru_cache(maxsize=2)(self._order)

    def rows(self, batch: int) -> NDArray[np.int64]:
        """The indices of the rows of a batch; batches are numbered through all epochs."""
        epoch, position = divmod(batch, self.batches)
        row_order, batch_order = self._cached_order(epoch)
        chosen = batch_order[position]
        return row_order[self.cuts[chosen] : self.cuts[chosen + 1]]

    def _order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows sorted by length, and the order in which their batches come."""
        random = generator(self.seed, epoch, 2)
        shuffled = random.permutation(len(self.lengths))
        return shuffled[np.argsort(self.lengths[shuffled], kind="stable")], random.permutation(self.batches)


def _cuts(lengths: NDArray[np.integer], tokens: int) -> list[int]:
    """Where to cut sorted lengths into batches of at most `tokens` tokens, padding included, or of one row."""
    cuts, start = [0], 0
    for index, length in enumerate(lengths.tolist()):
        if index > start and (index + 1 - start) * length > tokens:
            cuts.append(index)
            start = index
    return [*cuts, len(lengths)]

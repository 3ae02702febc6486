"""The order of samples of unequal length: each once an epoch, in batches of about one length, so that little is padded.

An epoch's order is drawn from (seed, epoch); pools of several batches are sorted by length and cut, and the batches are
put into a drawn order again. What does not fill a batch sits out this epoch.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qkv.objectives.order import generator

POOL = 32  # batches that are sorted together


class ByLength:
    def __init__(self, lengths: NDArray[np.integer], batch: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.batch = min(batch, len(lengths))
        self.samples = len(lengths) // self.batch * self.batch
        self._order = lru_cache(maxsize=2)(self._drawn)

    def rows(self, first: int, size: int) -> NDArray[np.int64]:
        """Which rows come after `first` samples."""
        found: list[NDArray[np.int64]] = []
        while size:
            epoch, place = divmod(first, self.samples)
            part = self._order(epoch)[place : place + size]
            found.append(part)
            first, size = first + len(part), size - len(part)
        return np.concatenate(found)

    def _drawn(self, epoch: int) -> NDArray[np.int64]:
        source = generator(self.seed, epoch, 2)
        order = source.permutation(len(self.lengths))[: self.samples]
        pool = POOL * self.batch
        pools = [order[start : start + pool] for start in range(0, self.samples, pool)]
        ordered = np.concatenate([part[np.argsort(self.lengths[part], kind="stable")] for part in pools])
        batches = ordered.reshape(-1, self.batch)
        return batches[source.permutation(len(batches))].reshape(-1)


class ByTokens:
    """Batches of about so many tokens, padding included, planned for a whole epoch: many short samples, or few long.

    Samples are sorted by length, those of equal length in a drawn order, and cut; since the lengths stay the same,
    every epoch has as many batches, at the same borders.
    """

    def __init__(self, lengths: NDArray[np.integer], tokens: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.borders = _borders(np.sort(lengths, kind="stable"), tokens)
        self.batches = len(self.borders) - 1
        self._order = lru_cache(maxsize=2)(self._drawn)

    def rows(self, batch: int) -> NDArray[np.int64]:
        """Which rows batch number so, counted through all epochs, has."""
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

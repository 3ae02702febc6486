"""Near-duplicates by MinHash and locality-sensitive hashing (Broder 1997; Lee et al. 2022).

A document is the set of its shingles, the runs of SHINGLE words. Two documents are as similar as their sets,

    J(A, B) = |A ∩ B| / |A ∪ B|,

and for a random order of all shingles J is the chance that both sets have the same first one. A signature keeps the
first one for each of HASHES orders, one byte of its hash each (Li and König 2010): the share of equal bytes, less the
1 in 256 that are equal by chance, estimates J with a standard error of sqrt(J (1 - J) / HASHES).

A signature is cut into BANDS of 8 bytes. Only documents that share a band are compared: the chance to share one is
1 - (1 - J^8)^BANDS, which is 0.95 for J = 0.8 and 0.001 for J = 0.3. The 8 bytes are the band's key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qkv.data.measures import Counts, Hashes, Words, grams, mixed
from qkv.data.row_index import KeyRows, RowIndex

SHINGLE = 3
HASHES = 128
BANDS = HASHES // 8
NO_WORDS = np.uint32(2**32 - 1)
"""What stands for the first shingle of a document without words."""

First = npt.NDArray[np.uint32]
Similarities = npt.NDArray[np.float64]


def first_shingles(words: Words, number: int) -> First:
    """For each of `number` parts and each of the orders the hash of the shingle that comes first."""
    hashes, whole = grams(words, SHINGLE)
    wanted = whole | (np.diff(words.owner, prepend=-1) != 0)  # fewer words than a shingle has are one all the same
    shingles = (hashes[wanted] >> np.uint64(32)).astype(np.uint32)
    owner = words.owner[wanted]
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    found = np.full((HASHES, number), NO_WORDS)
    if len(heads):
        ordered = np.empty_like(shingles)
        for order, factor in zip(found, _factors(), strict=True):
            np.multiply(shingles, factor, out=ordered)
            order[owner[heads]] = np.minimum.reduceat(ordered, heads)
    return np.ascontiguousarray(found.T)


def first_of_documents(first: First, owner: Counts) -> First:
    """The same for whole documents, from their parts."""
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    return first if len(heads) == len(owner) else np.minimum.reduceat(first, heads, axis=0)


def _factors() -> First:
    """An odd number for each order: shingles are ordered by its product with their hash, modulo 2^32."""
    return (mixed(np.arange(1, HASHES + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def signatures(first: First) -> Hashes:
    """The bands of each document, as many 64-bit keys."""
    spread = first * np.uint32(0x9E3779B1)
    spread ^= spread >> np.uint32(15)
    spread *= np.uint32(0x85EBCA77)
    return np.ascontiguousarray((spread >> np.uint32(24)).astype(np.uint8)).view(np.uint64)


def similarity(one: Hashes, other: Hashes) -> Similarities:
    """The estimate of J for each pair of signatures."""
    equal = (one.view(np.uint8) == other.view(np.uint8)).mean(axis=-1)
    return (equal - 1 / 256) / (1 - 1 / 256)


class NearDuplicates:
    """Finds documents that resemble an earlier one, and remembers the others."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.known = KeyRows(BANDS)
        self.indices = [RowIndex(self.known, band) for band in range(BANDS)]

    @property
    def remembered(self) -> int:
        """The bytes that the memory of all documents takes."""
        return self.known.bytes + sum(index.bytes for index in self.indices)

    def look(self, first: First) -> Similarities:
        """How much each document resembles an earlier one that was kept; from the threshold on it is not kept."""
        keys = signatures(first)
        has_words = (first != NO_WORDS).any(axis=1)
        found = np.zeros(len(keys))
        for band, index in enumerate(self.indices):
            rows = index.find(keys[:, band])
            met = np.flatnonzero(rows >= 0)
            found[met] = np.maximum(found[met], similarity(keys[met], self.known.all(rows[met])))
        found[~has_words] = 0
        self._among_themselves(keys, found, has_words)
        numbers = self.known.add(keys[has_words & (found < self.threshold)])
        for index in self.indices:
            index.add(numbers)
        return found

    def _among_themselves(self, keys: Hashes, found: Similarities, has_words: npt.NDArray[np.bool_]) -> None:
        """Documents of one batch that resemble one before them in it."""
        numbers = np.flatnonzero(has_words & (found < self.threshold))
        owners: list[dict[int, int]] = [{} for _ in range(BANDS)]
        for number in numbers[shared(keys[numbers])].tolist():
            bands = keys[number].tolist()
            met = {owner[key] for owner, key in zip(owners, bands, strict=True) if key in owner}
            if met:
                found[number] = max(found[number], similarity(keys[[number]], keys[list(met)]).max())
            if found[number] < self.threshold:
                for owner, key in zip(owners, bands, strict=True):
                    owner.setdefault(key, number)


def shared(keys: Hashes) -> npt.NDArray[np.bool_]:
    """Which rows have a key that another one has in the same column."""
    order = np.argsort(keys, axis=0)
    ordered = np.take_along_axis(keys, order, axis=0)
    twins = ordered[1:] == ordered[:-1]
    found = np.zeros(len(keys), dtype=bool)
    found[order[1:][twins]] = True
    found[order[:-1][twins]] = True
    return found

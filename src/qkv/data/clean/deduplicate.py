"""Exact duplicates by key; near-duplicates by MinHash and locality-sensitive hashing (Broder 1997; Lee et al. 2022).

A document is the set of its shingles, the runs of SHINGLE words. Two documents are as similar as their sets,

    J(A, B) = |A ∩ B| / |A ∪ B|,

and for a random order of all shingles J is the probability that both have the same first one (MinHash). A signature
keeps one byte of the hash of the first shingle in each of HASHES orders (Li and König 2010). The share of equal bytes,
less the 1 in 256 that are equal by chance, estimates J with a standard error of sqrt(J (1 - J) / HASHES).

A signature is split into BANDS of 8 bytes. Only documents that share a band are compared: the probability of that is
1 - (1 - J^8)^BANDS, which is 0.95 for J = 0.8 and 0.001 for J = 0.3. The 8 bytes are the band's key.

The keys of kept documents are the rows of a growing array of 64-bit numbers. An index finds a row by one of its keys:
it is a hash table with open addressing that holds only the rows' numbers, 4 bytes each. All keys of a batch are looked
up at once; if several rows have the same key, the first is found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qkv.data.clean.measures import Counts, HashedWords, n_grams
from qkv.data.identity import Keys, fmix64, text_key

SHINGLE = 3
HASHES = 128
BANDS = HASHES // 8
NO_WORDS = np.uint32(2**32 - 1)
"""The MinHash of a document without words."""

MinHashes = npt.NDArray[np.uint32]
Similarities = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_LOAD = 0.7
"""The share of a table's slots that may be used before it is doubled."""
_GROWTH = 1.25


class KeyRows:
    """Rows of `width` keys each, numbered as they are added."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self._rows = np.zeros((1024, width), dtype=np.uint64)

    @property
    def bytes(self) -> int:
        return self._rows.nbytes

    def __getitem__(self, index: Rows | tuple[Rows, int]) -> Keys:
        """Some rows, or their keys in one column."""
        return self._rows[index]

    def add(self, keys: Keys) -> Rows:
        """Append rows, and return their numbers."""
        numbers = np.arange(self.count, self.count + len(keys))
        self.count += len(keys)
        if self.count > len(self._rows):
            # in place, so that the old and the new rows are not both in memory
            self._rows.resize((int(_GROWTH * self.count), self._rows.shape[1]), refcheck=False)
        self._rows[numbers] = keys
        return numbers


class RowIndex:
    """Finds rows by their key in one column."""

    def __init__(self, rows: KeyRows, column: int = 0) -> None:
        self.rows, self.column = rows, column
        self.used = 0
        self._slots = np.zeros(1024, dtype=np.uint32)  # the number of a row, counted from 1; 0 in a free slot

    @property
    def bytes(self) -> int:
        return self._slots.nbytes

    def find(self, keys: Keys) -> Rows:
        """Look up the row of each key; -1 for keys without a row."""
        results = np.full(len(keys), -1)
        searching = np.arange(len(keys))
        slots, steps = self._probe(keys)
        while len(searching):
            rows = self._slots[slots].astype(np.int64) - 1
            used = rows >= 0
            same = used & (self.rows[rows, self.column] == keys[searching])
            results[searching[same]] = rows[same]
            unresolved = used & ~same
            searching, steps = searching[unresolved], steps[unresolved]
            slots = self._next(slots[unresolved], steps)
        return results

    def add(self, numbers: Rows) -> None:
        """Add new rows to the index, except those whose key already has a row."""
        keys, first = np.unique(self.rows[numbers, self.column], return_index=True)
        new = self.find(keys) < 0
        self.used += int(new.sum())
        if self.used > MAX_LOAD * len(self._slots):
            self._grow()
        self._insert(keys[new], numbers[first[new]])

    def _grow(self) -> None:
        numbers = self._slots[self._slots > 0].astype(np.int64) - 1
        size = len(self._slots)
        while self.used > MAX_LOAD * size:
            size *= 2
        self._slots = np.zeros(size, dtype=np.uint32)
        for chunk in np.array_split(numbers, len(numbers) // 2**16 + 1):
            self._insert(self.rows[chunk, self.column], chunk)

    def _insert(self, keys: Keys, numbers: Rows) -> None:
        """Write the rows of new keys into free slots. If several compete for a slot, the last one gets it."""
        entries = (numbers + 1).astype(np.uint32)
        slots, steps = self._probe(keys)
        while len(entries):
            free = self._slots[slots] == 0
            self._slots[slots[free]] = entries[free]
            displaced = self._slots[slots] != entries
            entries, steps = entries[displaced], steps[displaced]
            slots = self._next(slots[displaced], steps)

    def _probe(self, keys: Keys) -> tuple[Rows, Rows]:
        """The first slot of each key's probe sequence, and its step: an odd step reaches every slot."""
        hashes = fmix64(keys)
        steps = (hashes >> np.uint64(32)) | np.uint64(1)
        return (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64), steps.astype(np.int64)

    def _next(self, slots: Rows, steps: Rows) -> Rows:
        return (slots + steps) & (len(self._slots) - 1)


class ExactDuplicates:
    """Finds copies of earlier documents; case, white space and the encoding of accents do not matter."""

    def __init__(self) -> None:
        self.known = KeyRows(1)
        self.index = RowIndex(self.known)

    @property
    def remembered_bytes(self) -> int:
        return self.known.bytes + self.index.bytes

    def find(self, texts: Sequence[str]) -> Mask:
        """Which texts are copies of earlier ones; the others are remembered."""
        keys = np.array([text_key(text) for text in texts], dtype=np.uint64)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        copies = (first[group] != np.arange(len(keys))) | (self.index.find(keys) >= 0)
        self.index.add(self.known.add(keys[~copies][:, None]))
        return copies


def min_hashes(words: HashedWords, number: int) -> MinHashes:
    """For each of `number` parts and each of the orders, the hash of the first shingle."""
    hashes, complete = n_grams(words, SHINGLE)
    wanted = complete | (np.diff(words.owner, prepend=-1) != 0)  # a part of fewer words is one shingle
    shingles = (hashes[wanted] >> np.uint64(32)).astype(np.uint32)
    owner = words.owner[wanted]
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    minima = np.full((HASHES, number), NO_WORDS)
    if len(heads):
        ordered = np.empty_like(shingles)
        for order, factor in zip(minima, _factors(), strict=True):
            np.multiply(shingles, factor, out=ordered)
            order[owner[heads]] = np.minimum.reduceat(ordered, heads)
    return np.ascontiguousarray(minima.T)


def document_min_hashes(parts: MinHashes, owner: Counts) -> MinHashes:
    """The MinHashes of whole documents, from those of their parts."""
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    return parts if len(heads) == len(owner) else np.minimum.reduceat(parts, heads, axis=0)


def _factors() -> MinHashes:
    """An odd factor for each order: shingles are ordered by their hashes times the factor, modulo 2^32."""
    return (fmix64(np.arange(1, HASHES + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def signatures(hashes: MinHashes) -> Keys:
    """The signature of each document: a 64-bit key for each band."""
    mixed = hashes * np.uint32(0x9E3779B1)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x85EBCA77)
    return np.ascontiguousarray((mixed >> np.uint32(24)).astype(np.uint8)).view(np.uint64)


def similarity(one: Keys, other: Keys) -> Similarities:
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
    def remembered_bytes(self) -> int:
        """The bytes that are kept for all documents."""
        return self.known.bytes + sum(index.bytes for index in self.indices)

    def find(self, hashes: MinHashes) -> Similarities:
        """The similarity of each document to earlier ones that were kept; it is kept itself if below the threshold."""
        keys = signatures(hashes)
        has_words = (hashes != NO_WORDS).any(axis=1)
        similarities = np.zeros(len(keys))
        for band, index in enumerate(self.indices):
            rows = index.find(keys[:, band])
            matched = np.flatnonzero(rows >= 0)
            estimates = similarity(keys[matched], self.known[rows[matched]])
            similarities[matched] = np.maximum(similarities[matched], estimates)
        similarities[~has_words] = 0
        self._compare_within_batch(keys, similarities, has_words)
        numbers = self.known.add(keys[has_words & (similarities < self.threshold)])
        for index in self.indices:
            index.add(numbers)
        return similarities

    def _compare_within_batch(self, keys: Keys, similarities: Similarities, has_words: Mask) -> None:
        """Raise the similarities of documents that resemble an earlier one of the same batch."""
        numbers = np.flatnonzero(has_words & (similarities < self.threshold))
        owners: list[dict[int, int]] = [{} for _ in range(BANDS)]
        for number in numbers[shared(keys[numbers])].tolist():
            bands = keys[number].tolist()
            candidates = {owner[key] for owner, key in zip(owners, bands, strict=True) if key in owner}
            if candidates:
                estimates = similarity(keys[[number]], keys[list(candidates)])
                similarities[number] = max(similarities[number], estimates.max())
            if similarities[number] < self.threshold:
                for owner, key in zip(owners, bands, strict=True):
                    owner.setdefault(key, number)


def shared(keys: Keys) -> Mask:
    """Which rows have a key that another row has in the same column."""
    order = np.argsort(keys, axis=0)
    ordered = np.take_along_axis(keys, order, axis=0)
    equal = ordered[1:] == ordered[:-1]
    return np.isin(np.arange(len(keys)), np.concatenate([order[1:][equal], order[:-1][equal]]))

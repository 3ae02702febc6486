"""Exact duplicates by key; near-duplicates by MinHash and locality-sensitive hashing (Broder 1997; Lee et al. 2022).

A document is the set of its shingles, the runs of SHINGLE words. Two documents are as similar as their sets,

    J(A, B) = |A ∩ B| / |A ∪ B|,

and for a random order of all shingles J is the chance that both sets have the same first one. A signature keeps the
first one for each of HASHES orders, one byte of its hash each (Li and König 2010): the share of equal bytes, less the
1 in 256 that are equal by chance, estimates J with a standard error of sqrt(J (1 - J) / HASHES).

A signature is cut into BANDS of 8 bytes. Only documents that share a band are compared: the chance to share one is
1 - (1 - J^8)^BANDS, which is 0.95 for J = 0.8 and 0.001 for J = 0.3. The 8 bytes are the band's key.

The keys of kept documents are rows of 64-bit numbers that grow. An index finds a row by one of its keys: a hash table
with open addressing that holds only the rows' numbers, 4 bytes each. All keys of a batch are looked up at once; where
several rows have a key, the first is found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qkv.data.clean.measures import Counts, HashedWords, grams
from qkv.data.identity import Keys, fmix64, text_key

SHINGLE = 3
HASHES = 128
BANDS = HASHES // 8
NO_WORDS = np.uint32(2**32 - 1)
"""What stands for the first shingle of a document without words."""

First = npt.NDArray[np.uint32]
Similarities = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

FULLEST = 0.7
"""The share of a table's places that may be taken before it is doubled."""
_GROWTH = 1.25


class KeyRows:
    """Rows of `width` keys each, numbered as they are added."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self._rows = np.zeros((1024, width), dtype=np.uint64)

    @property
    def bytes(self) -> int:
        return self._rows.nbytes

    def __getitem__(self, place: Rows | tuple[Rows, int]) -> Keys:
        """Some rows, or their keys in one column."""
        return self._rows[place]

    def add(self, keys: Keys) -> Rows:
        """The numbers of the new rows."""
        numbers = np.arange(self.count, self.count + len(keys))
        self.count += len(keys)
        if self.count > len(self._rows):
            # in place, so that the old and the new rows are not held both
            self._rows.resize((int(_GROWTH * self.count), self._rows.shape[1]), refcheck=False)
        self._rows[numbers] = keys
        return numbers


class RowIndex:
    """Finds rows by their key in one column."""

    def __init__(self, rows: KeyRows, column: int = 0) -> None:
        self.rows, self.column = rows, column
        self.taken = 0
        self._places = np.zeros(1024, dtype=np.uint32)  # the number of a row, counted from 1; 0 where there is none

    @property
    def bytes(self) -> int:
        return self._places.nbytes

    def find(self, keys: Keys) -> Rows:
        """The row of each key, -1 where there is none."""
        results = np.full(len(keys), -1)
        searching = np.arange(len(keys))
        places, steps = self._way(keys)
        while len(searching):
            rows = self._places[places].astype(np.int64) - 1
            taken = rows >= 0
            same = taken & (self.rows[rows, self.column] == keys[searching])
            results[searching[same]] = rows[same]
            on = taken & ~same
            searching, steps = searching[on], steps[on]
            places = self._on(places[on], steps)
        return results

    def add(self, numbers: Rows) -> None:
        """Take in new rows; a row whose key is there already is not found by it."""
        keys, first = np.unique(self.rows[numbers, self.column], return_index=True)
        new = self.find(keys) < 0
        self.taken += int(new.sum())
        if self.taken > FULLEST * len(self._places):
            self._grow()
        self._put(keys[new], numbers[first[new]])

    def _grow(self) -> None:
        numbers = self._places[self._places > 0].astype(np.int64) - 1
        size = len(self._places)
        while self.taken > FULLEST * size:
            size *= 2
        self._places = np.zeros(size, dtype=np.uint32)
        for some in np.array_split(numbers, len(numbers) // 2**16 + 1):
            self._put(self.rows[some, self.column], some)

    def _put(self, keys: Keys, numbers: Rows) -> None:
        """Write new keys' rows into free places. Of several that want one place the last gets it, the others go on."""
        marks = (numbers + 1).astype(np.uint32)
        places, steps = self._way(keys)
        while len(marks):
            free = self._places[places] == 0
            self._places[places[free]] = marks[free]
            on = self._places[places] != marks
            marks, steps = marks[on], steps[on]
            places = self._on(places[on], steps)

    def _way(self, keys: Keys) -> tuple[Rows, Rows]:
        """The first place to look for each key, and how far the next is: an odd way leads everywhere."""
        hashes = fmix64(keys)
        steps = (hashes >> np.uint64(32)) | np.uint64(1)
        return (hashes & np.uint64(len(self._places) - 1)).astype(np.int64), steps.astype(np.int64)

    def _on(self, places: Rows, steps: Rows) -> Rows:
        return (places + steps) & (len(self._places) - 1)


class ExactDuplicates:
    """Finds documents that were there before, except for case, white space and the way accents are written."""

    def __init__(self) -> None:
        self.known = KeyRows(1)
        self.index = RowIndex(self.known)

    @property
    def remembered_bytes(self) -> int:
        return self.known.bytes + self.index.bytes

    def find(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which texts are copies of earlier ones; the others are remembered."""
        keys = np.array([text_key(text) for text in texts], dtype=np.uint64)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        copies = (first[group] != np.arange(len(keys))) | (self.index.find(keys) >= 0)
        self.index.add(self.known.add(keys[~copies][:, None]))
        return copies


def first_shingles(words: HashedWords, number: int) -> First:
    """For each of `number` parts and each of the orders the hash of the shingle that comes first."""
    hashes, whole = grams(words, SHINGLE)
    wanted = whole | (np.diff(words.owner, prepend=-1) != 0)  # fewer words than a shingle has are one all the same
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


def first_of_documents(first: First, owner: Counts) -> First:
    """The same for whole documents, from their parts."""
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    return first if len(heads) == len(owner) else np.minimum.reduceat(first, heads, axis=0)


def _factors() -> First:
    """An odd number for each order: shingles are ordered by its product with their hash, modulo 2^32."""
    return (fmix64(np.arange(1, HASHES + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def signatures(first: First) -> Keys:
    """The bands of each document, as many 64-bit keys."""
    spread = first * np.uint32(0x9E3779B1)
    spread ^= spread >> np.uint32(15)
    spread *= np.uint32(0x85EBCA77)
    return np.ascontiguousarray((spread >> np.uint32(24)).astype(np.uint8)).view(np.uint64)


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
        """The bytes that the memory of all documents takes."""
        return self.known.bytes + sum(index.bytes for index in self.indices)

    def find(self, first: First) -> Similarities:
        """How much each document resembles an earlier one that was kept; from the threshold on it is not kept."""
        keys = signatures(first)
        has_words = (first != NO_WORDS).any(axis=1)
        similarities = np.zeros(len(keys))
        for band, index in enumerate(self.indices):
            rows = index.find(keys[:, band])
            met = np.flatnonzero(rows >= 0)
            similarities[met] = np.maximum(similarities[met], similarity(keys[met], self.known[rows[met]]))
        similarities[~has_words] = 0
        self._among_themselves(keys, similarities, has_words)
        numbers = self.known.add(keys[has_words & (similarities < self.threshold)])
        for index in self.indices:
            index.add(numbers)
        return similarities

    def _among_themselves(self, keys: Keys, similarities: Similarities, has_words: npt.NDArray[np.bool_]) -> None:
        """Documents of one batch that resemble one before them in it."""
        numbers = np.flatnonzero(has_words & (similarities < self.threshold))
        owners: list[dict[int, int]] = [{} for _ in range(BANDS)]
        for number in numbers[shared(keys[numbers])].tolist():
            bands = keys[number].tolist()
            met = {owner[key] for owner, key in zip(owners, bands, strict=True) if key in owner}
            if met:
                similarities[number] = max(similarities[number], similarity(keys[[number]], keys[list(met)]).max())
            if similarities[number] < self.threshold:
                for owner, key in zip(owners, bands, strict=True):
                    owner.setdefault(key, number)


def shared(keys: Keys) -> npt.NDArray[np.bool_]:
    """Which rows have a key that another one has in the same column."""
    order = np.argsort(keys, axis=0)
    ordered = np.take_along_axis(keys, order, axis=0)
    twins = ordered[1:] == ordered[:-1]
    return np.isin(np.arange(len(keys)), np.concatenate([order[1:][twins], order[:-1][twins]]))

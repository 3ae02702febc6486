"""Rows of 64-bit keys that grow, and indices that find a row by one of its keys.

An index is a hash table with open addressing that holds only the rows' numbers, 4 bytes each, and looks the key up in
the row. All keys of a batch are looked for at once. Where several rows have a key, the first is found.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qkv.data.measures import Hashes, mixed

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

    def all(self, rows: Rows) -> Hashes:
        return self._rows[rows]

    def column(self, rows: Rows, column: int) -> Hashes:
        return self._rows[rows, column]

    def add(self, keys: Hashes) -> Rows:
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

    def find(self, keys: Hashes) -> Rows:
        """The row of each key, -1 where there is none."""
        found = np.full(len(keys), -1)
        searching = np.arange(len(keys))
        places, steps = self._way(keys)
        while len(searching):
            rows = self._places[places].astype(np.int64) - 1
            taken = rows >= 0
            same = taken & (self.rows.column(rows, self.column) == keys[searching])
            found[searching[same]] = rows[same]
            on = taken & ~same
            searching, steps = searching[on], steps[on]
            places = self._on(places[on], steps)
        return found

    def add(self, numbers: Rows) -> None:
        """Take in new rows; a row whose key is there already is not found by it."""
        keys, first = np.unique(self.rows.column(numbers, self.column), return_index=True)
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
            self._put(self.rows.column(some, self.column), some)

    def _put(self, keys: Hashes, numbers: Rows) -> None:
        """Write new keys' rows into free places. Of several that want one place the last gets it, the others go on."""
        marks = (numbers + 1).astype(np.uint32)
        places, steps = self._way(keys)
        while len(marks):
            free = self._places[places] == 0
            self._places[places[free]] = marks[free]
            on = self._places[places] != marks
            marks, steps = marks[on], steps[on]
            places = self._on(places[on], steps)

    def _way(self, keys: Hashes) -> tuple[Rows, Rows]:
        """The first place to look for each key, and how far the next is: an odd way leads everywhere."""
        hashes = mixed(keys)
        steps = (hashes >> np.uint64(32)) | np.uint64(1)
        return (hashes & np.uint64(len(self._places) - 1)).astype(np.int64), steps.astype(np.int64)

    def _on(self, places: Rows, steps: Rows) -> Rows:
        return (places + steps) & (len(self._places) - 1)

"""Which text is held out for validation, and how much of it the training part has seen as well.

Several documents are split by document: a hash of its content decides where a document goes, so the split does not
depend on the order of the files, and a document that occurs twice never lands on both sides. One document is split at a
character: its tail is held out, all of it contiguous (for Tiny Shakespeare exactly the usual last tenth).
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qkv.data.readers import Piece

# the border between the sides is drawn from this many documents; those that follow are held against it
SAMPLE = 2_000_000
SHORTEST_UNIT = 40
MOST_UNITS = 500_000


class Side(NamedTuple):
    """A piece of text and where it belongs."""

    valid: bool
    text: str
    ends: bool


class Census:
    """Counts and hashes the documents as they pass by, to draw the border between the sides afterwards."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self.lengths = array("Q")
        self.characters = 0
        self._hash = hashlib.blake2b(digest_size=8)
        self._length = 0

    def add(self, text: str, ends: bool) -> None:
        self._hash.update(text.encode())
        self._length += len(text)
        if ends:
            self.keys.append(int.from_bytes(self._hash.digest(), "little"))
            # beyond the sample only the keys are needed
            if len(self.lengths) < SAMPLE:
                self.lengths.append(self._length)
            self.characters += self._length
            self._hash, self._length = hashlib.blake2b(digest_size=8), 0

    @property
    def documents(self) -> int:
        return len(self.keys)

    def distinct(self) -> int:
        return len(np.unique(np.frombuffer(self.keys, dtype=np.uint64))) if self.keys else 0

    def border(self, fraction: float) -> Border:
        """Draw the border so that about `fraction` of the characters is held out, and something is on either side."""
        if self.documents == 1:
            return Border(None, int((1 - fraction) * self.characters))
        keys = np.frombuffer(self.keys, dtype=np.uint64)
        lengths = np.frombuffer(self.lengths, dtype=np.uint64).astype(np.int64)
        order = np.argsort(keys[: len(lengths)], kind="stable")
        held = np.cumsum(lengths[order])
        # the number of documents, in order of their hash, that comes closest to the fraction
        count = int(np.argmin(np.abs(held - fraction * held[-1]))) + 1
        count = min(count, len(order) - 1)
        valid = keys < keys[order[count]] if keys[order[count]] > keys[order[0]] else keys <= keys[order[0]]
        if valid.all():  # one document, many times: nothing but its place tells the copies apart
            valid = np.zeros(len(keys), dtype=bool)
            valid[order[:count]] = True
        return Border(valid, None)


class Border(NamedTuple):
    """Where the sides part: by document, or at a character of the only document."""

    documents: npt.NDArray[np.bool_] | None
    character: int | None

    def sides(self, pieces: Iterable[Piece]) -> Iterator[Side]:
        if self.documents is None:
            yield from self._cut(pieces)
            return
        number = 0
        for piece in pieces:
            # a document more than before means that the data changed; the caller finds that out by itself
            valid = bool(self.documents[min(number, len(self.documents) - 1)])
            yield Side(valid, piece.text, piece.ends)
            number += piece.ends

    def _cut(self, pieces: Iterable[Piece]) -> Iterator[Side]:
        assert self.character is not None
        left = self.character
        for text, ends in pieces:
            if left > 0:
                yield Side(False, text[:left], ends or len(text) >= left)
            if len(text) > left or left <= 0:
                yield Side(True, text[max(0, left) :], ends)
            elif ends:
                yield Side(True, "", True)
            left -= len(text)


_UNIT = re.compile(rf"[^\n.!?]{{{SHORTEST_UNIT},}}")


class Overlap:
    """How much of the validation text also stands in the training text, measured by sentences and lines.

    Hashes are kept of a sample that is thinned out as it grows, the same sample on both sides, so memory is bounded.
    """

    def __init__(self) -> None:
        self.units: tuple[set[int], set[int]] = (set(), set())
        self.limit = 2**64

    def add(self, valid: bool, text: str, whole: bool) -> None:
        """A piece of one side; `whole` says that it is a document by itself."""
        units = _UNIT.findall(text)
        if whole and not units:
            units = [text]
        mine = self.units[valid]
        for unit in units:
            key = int.from_bytes(hashlib.blake2b(unit.strip().encode(), digest_size=8).digest(), "little")
            if key < self.limit:
                mine.add(key)
        if len(mine) > MOST_UNITS:
            self.limit //= 2
            for side in self.units:
                side.intersection_update({key for key in side if key < self.limit})

    def share(self) -> float:
        train, valid = self.units
        return len(valid & train) / len(valid) if valid else 0.0

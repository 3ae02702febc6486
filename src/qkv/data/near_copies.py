"""Finds near copies among documents, such as a chapter and its book or two versions of a page. The split keeps them in
the same part, because a score on text whose copy is in the training set says little.

Documents are compared by their units, lines and long sentences, each counted by its length. Two documents are near
copies if at least `SHARED` of the shorter one is also in the other. The memory is bounded: if there are many units,
only those with small hashes are kept, which is the same sample in all documents.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from qkv.data.identity import Keys, hash64

SHARED = 0.5
MAX_OWNERS = 16
"""A unit that is in more documents is ignored, because it may be a common phrase or a licence."""
MAX_GROUP = 0.5
"""The largest share of all text in a group; larger groups are not formed, because nothing could be held out then."""
LONG_SENTENCE_CHARACTERS = 40
MAX_UNITS = 500_000
MAX_HELD_CHARACTERS = 2**20
"""How much of an unfinished line is held until it is complete."""

_SENTENCE = re.compile(rf"[^.!?]{{{LONG_SENTENCE_CHARACTERS},}}")
_TWO_WORD_CHARACTERS = re.compile(r"\w\w")


def overlap_units(text: str) -> Iterator[str]:
    """The long sentences of each line, or the line itself if it has none."""
    for line in text.split("\n"):
        sentences = _SENTENCE.findall(line)
        if sentences:
            for sentence in sentences:
                yield sentence.strip()
        elif _TWO_WORD_CHARACTERS.search(line):
            yield line.strip()


class UnitReader:
    """Splits documents that arrive in pieces into units; an unfinished line is held until it is complete."""

    def __init__(self) -> None:
        self._unfinished_line = ""

    def units(self, text: str, is_last: bool) -> Iterator[str]:
        text, self._unfinished_line = self._unfinished_line + text, ""
        if not is_last and len(text) - (line_start := text.rfind("\n") + 1) < MAX_HELD_CHARACTERS:
            text, self._unfinished_line = text[:line_start], text[line_start:]
        return overlap_units(text)


class NearCopies:
    """Collects the units of documents while they are read, and groups the documents afterwards."""

    def __init__(self) -> None:
        self.hash_limit = 2**64
        self.documents = 0
        self._hashes, self._owners, self._lengths = array("Q"), array("Q"), array("Q")
        self._reader = UnitReader()

    def add(self, text: str, is_last: bool) -> None:
        """Add a piece of a document; `is_last` says that the document ends with it."""
        for unit in self._reader.units(text, is_last):
            key = hash64(unit.encode())
            if key < self.hash_limit:
                self._hashes.append(key)
                self._owners.append(self.documents)
                self._lengths.append(len(unit))
        if len(self._hashes) > MAX_UNITS:
            self._keep_half()
        self.documents += is_last

    def _keep_half(self) -> None:
        self.hash_limit //= 2
        kept = np.frombuffer(self._hashes, dtype=np.uint64) < self.hash_limit
        self._hashes, self._owners, self._lengths = (
            array("Q", np.frombuffer(column, dtype=np.uint64)[kept].tobytes())
            for column in (self._hashes, self._owners, self._lengths)
        )

    def group_keys(self, keys: Keys) -> Keys:
        """A key for each document; in a group of near copies, all have the key of the longest document."""
        if len(keys) < 2 or not self._hashes:
            return keys
        sizes, shared = self._sizes_and_shared(len(keys))
        group, total = np.arange(len(keys)), sizes.sum()
        group_sizes = sizes.copy()

        def find(document: int) -> int:
            while group[document] != document:
                group[document] = group[group[document]]
                document = int(group[document])
            return document

        near = {pair: length / min(sizes[pair[0]], sizes[pair[1]]) for pair, length in shared.items()}
        for first, second in sorted(near, key=lambda pair: (-near[pair], pair)):
            if near[first, second] < SHARED:
                break
            one, other = find(first), find(second)
            if one != other and group_sizes[one] + group_sizes[other] <= MAX_GROUP * total:
                longer, shorter = (one, other) if sizes[one] >= sizes[other] else (other, one)
                group[shorter] = longer
                group_sizes[longer] += group_sizes[shorter]
        return keys[[find(document) for document in range(len(keys))]]

    def _sizes_and_shared(self, documents: int) -> tuple[NDArray[np.float64], dict[tuple[int, int], int]]:
        """The total length of the distinct units of each document, and of those that two documents share."""
        columns = (self._hashes, self._owners, self._lengths)
        hashes, owners, lengths = (np.frombuffer(column, dtype=np.uint64) for column in columns)
        order = np.lexsort((owners, hashes))
        hashes, owners, lengths = hashes[order], owners[order].astype(np.int64), lengths[order].astype(np.int64)
        first = np.ones(len(hashes), bool)
        first[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
        hashes, owners, lengths = hashes[first], owners[first], lengths[first]
        sizes = np.bincount(owners, lengths, documents).astype(np.float64)
        starts = np.flatnonzero(np.r_[True, hashes[1:] != hashes[:-1]])
        counts = np.diff(np.r_[starts, len(hashes)])
        shared: dict[tuple[int, int], int] = defaultdict(int)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            if 2 <= count <= MAX_OWNERS:
                sharing, length = owners[start : start + count].tolist(), int(lengths[start])
                for position, one in enumerate(sharing):
                    for other in sharing[position + 1 :]:
                        shared[one, other] += length
        return sizes, shared

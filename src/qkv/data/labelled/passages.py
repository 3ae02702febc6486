"""Texts that are parts of one another, as the phrases of SST-2 are parts of sentences, belong to one side.

A model that has learned a sentence has learned its parts: on held-out parts whoever remembers word for word looks
best, and the wrong system is chosen. So a text goes with the longest text that holds its middle words.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable

import numpy as np

from qkv.data.labelled.packed import Keys
from qkv.data.measures import mixed

WORDS = (5, 4, 3)  # in a row, that two texts must share; a text of fewer words belongs to nobody
MOST = 200_000  # texts; of more, only copies stay together: words in memory would cost as much as the texts


def together(texts: Iterable[str], keys: Keys) -> Keys:
    """A key for each text, the same for texts that are parts of one; `keys` are those of copies."""
    ids, ends = _words(texts)
    lengths = np.diff(ends)
    parent = np.arange(len(keys))
    for size in WORDS:
        grams, rows = _runs(ids, ends, size)
        if not len(grams):
            continue
        order = np.lexsort((rows, -lengths[rows], grams))  # of equal runs, that of the longest text first
        first = np.concatenate([[True], grams[order][1:] != grams[order][:-1]])
        known, holders = grams[order][first], rows[order][first]
        asking = np.flatnonzero(lengths >= size if size == WORDS[0] else lengths == size)
        # where a text's runs begin among all runs, and the one in its middle
        begins = np.concatenate([[0], np.cumsum(np.maximum(lengths - size + 1, 0))])
        middle = grams[begins[asking] + (lengths[asking] - size) // 2]
        found = holders[np.searchsorted(known, middle)]
        longer = lengths[found] > lengths[asking]
        parent[asking[longer]] = found[longer]
    while True:  # the parent's parent, until nothing moves: each step goes to a longer text
        above = parent[parent]
        if np.array_equal(above, parent):
            return keys[parent]
        parent = above


def _words(texts: Iterable[str]) -> tuple[Keys, np.ndarray]:
    """A number for every word of all texts, the same for the same word on every machine, and where texts end."""
    known: dict[str, int] = {}
    ids, ends = array("Q"), array("q", [0])
    for text in texts:
        for word in text.lower().split():
            number = known.get(word)
            if number is None:
                digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                number = known[word] = int.from_bytes(digest, "little")
            ids.append(number)
        ends.append(len(ids))
    return np.array(ids, dtype=np.uint64), np.array(ends, dtype=np.int64)


def _runs(ids: Keys, ends: np.ndarray, size: int) -> tuple[Keys, np.ndarray]:
    """A key for every run of so many words within a text, and the text it is of; text after text."""
    if len(ids) < size:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    count = len(ids) - size + 1
    found = np.zeros(count, dtype=np.uint64)
    for place in range(size):
        found = mixed(found + ids[place : place + count])
    row_of = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    inside = row_of[:count] == row_of[size - 1 :]
    return found[inside], row_of[:count][inside]

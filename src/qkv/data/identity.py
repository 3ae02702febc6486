"""Keys that tell which texts are the same: one set of them finds duplicates, splits data and reports leaks.

A key is a 64-bit hash. Texts that are parts of one another, as the phrases of SST-2 are parts of sentences, belong to
one part of the split: a model that has learned a sentence has learned its phrases, and on held-out phrases the system
that memorises best would look best. So a text goes with the longest text that holds its middle words.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

RUN_LENGTHS = (5, 4, 3)  # in a row, that two texts must share; a text of fewer words belongs to nobody
MAX_PASSAGE_TEXTS = (
    200_000  # texts; of more, only copies stay together: words in memory would cost as much as the texts
)


def hash64(content: bytes) -> int:
    """The key of exactly these bytes."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def text_key(*texts: str) -> int:
    """Equal for texts that differ in case, white space or Unicode's form only, and hardly ever for others."""
    plain = "\0".join(" ".join(text.lower().split()) for text in texts)
    if not plain.isascii():
        plain = normalize("NFC", plain)
    return hash64(plain.encode("utf-8", "replace"))


def keys_array(keys: array[int]) -> Keys:
    return np.array(keys, dtype=np.uint64)


def fmix64(hashes: Keys) -> Keys:
    """Every bit of the result depends on every bit of the input (the end of MurmurHash3, Appleby 2011)."""
    found = hashes ^ (hashes >> np.uint64(33))
    found *= np.uint64(0xFF51AFD7ED558CCD)
    found ^= found >> np.uint64(33)
    found *= np.uint64(0xC4CEB9FE1A85EC53)
    found ^= found >> np.uint64(33)
    return found


def component_keys(first: Keys, second: Keys) -> Keys:
    """The least key of the first kind that each row is bound to by rows that share a key with it, and so on."""
    groups = [np.unique(keys, return_inverse=True)[1] for keys in (first, second)]
    least = first
    while True:
        before = least
        for group in groups:
            lowest = np.full(int(group.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
            np.minimum.at(lowest, group, least)
            least = lowest[group]
        if np.array_equal(before, least):
            return least


def passage_keys(texts: Iterable[str], keys: Keys) -> Keys:
    """A key for each text, the same for texts that are parts of one; `keys` are those of copies."""
    ids, ends = _words(texts)
    lengths = np.diff(ends)
    parent = np.arange(len(keys))
    for size in RUN_LENGTHS:
        grams, rows = _runs(ids, ends, size)
        if not len(grams):
            continue
        order = np.lexsort((rows, -lengths[rows], grams))  # of equal runs, that of the longest text first
        first = np.concatenate([[True], grams[order][1:] != grams[order][:-1]])
        known, holders = grams[order][first], rows[order][first]
        asking = np.flatnonzero(lengths >= size if size == RUN_LENGTHS[0] else lengths == size)
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
                number = known[word] = hash64(word.encode("utf-8", "surrogatepass"))
            ids.append(number)
        ends.append(len(ids))
    return np.array(ids, dtype=np.uint64), np.array(ends, dtype=np.int64)


def _runs(ids: Keys, ends: np.ndarray, size: int) -> tuple[Keys, np.ndarray]:
    """A key for every run of `size` words within a text, and the text it is of; text after text."""
    if len(ids) < size:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    count = len(ids) - size + 1
    found = np.zeros(count, dtype=np.uint64)
    for place in range(size):
        found = fmix64(found + ids[place : place + count])
    row_of = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    inside = row_of[:count] == row_of[size - 1 :]
    return found[inside], row_of[:count][inside]

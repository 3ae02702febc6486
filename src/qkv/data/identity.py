"""Keys that are equal for equal texts. Duplicates, splits and reports of leaks all use them.

A key is a 64-bit hash. A text that is a part of another one, as the phrases of SST-2 are parts of its sentences, must
be in the same split: a model that has learned a sentence has learned its phrases, so scores on held-out phrases would
reward memorising. Therefore `passage_keys` gives a text the key of the longest text that contains its
middle words.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

RUN_LENGTHS = (5, 4, 3)
"""How many words in a row two texts must share. Texts with fewer words than the last keep their own keys."""
MAX_PASSAGE_TEXTS = 200_000
"""Passages are not searched for in more texts: their words would take as much memory as the texts."""


def hash64(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def text_key(*texts: str) -> int:
    """A key that is equal for texts that differ only in case, white space or the form of Unicode."""
    normalized = "\0".join(" ".join(text.lower().split()) for text in texts)
    if not normalized.isascii():
        normalized = normalize("NFC", normalized)
    return hash64(normalized.encode("utf-8", "replace"))


def keys_array(keys: array[int]) -> Keys:
    return np.array(keys, dtype=np.uint64)


def fmix64(hashes: Keys) -> Keys:
    """Mix the bits so that each bit of the result depends on all bits of the input (the end of MurmurHash3, 2011)."""
    mixed = hashes ^ (hashes >> np.uint64(33))
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed


def component_keys(first: Keys, second: Keys) -> Keys:
    """A key for each row, equal for rows that are connected: rows with the same first or second key are.

    It is the smallest first key of the connected component.
    """
    groupings = [np.unique(keys, return_inverse=True)[1] for keys in (first, second)]
    smallest = first
    while True:
        previous = smallest
        for group in groupings:
            smallest_of_group = np.full(int(group.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
            np.minimum.at(smallest_of_group, group, smallest)
            smallest = smallest_of_group[group]
        if np.array_equal(previous, smallest):
            return smallest


def passage_keys(texts: Iterable[str], keys: Keys) -> Keys:
    """The key of the longest text that each text is likely to be a part of; `keys` are the texts' own keys."""
    word_keys, ends = _word_keys(texts)
    lengths = np.diff(ends)
    parent = np.arange(len(keys))
    for size in RUN_LENGTHS:
        run_keys, run_texts = _run_keys(word_keys, ends, size)
        if not len(run_keys):
            continue
        order = np.lexsort((run_texts, -lengths[run_texts], run_keys))  # of equal runs, the longest text's first
        sorted_keys, sorted_texts = run_keys[order], run_texts[order]
        is_first = np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]])
        distinct_keys, longest_texts = sorted_keys[is_first], sorted_texts[is_first]
        # texts of fewer words than the first run length are compared by runs of all their words
        compared = np.flatnonzero(lengths >= size if size == RUN_LENGTHS[0] else lengths == size)
        first_runs = np.concatenate([[0], np.cumsum(np.maximum(lengths - size + 1, 0))])
        middle_keys = run_keys[first_runs[compared] + (lengths[compared] - size) // 2]
        holders = longest_texts[np.searchsorted(distinct_keys, middle_keys)]
        is_longer = lengths[holders] > lengths[compared]
        parent[compared[is_longer]] = holders[is_longer]
    while True:  # follow the parents, each a longer text, to the longest
        grandparent = parent[parent]
        if np.array_equal(grandparent, parent):
            return keys[parent]
        parent = grandparent


def _word_keys(texts: Iterable[str]) -> tuple[Keys, Indices]:
    """A key for each word of all texts, one text after the other, and where each text ends."""
    key_of_word: dict[str, int] = {}
    word_keys, ends = array("Q"), array("q", [0])
    for text in texts:
        for word in text.lower().split():
            key = key_of_word.get(word)
            if key is None:
                key = key_of_word[word] = hash64(word.encode("utf-8", "surrogatepass"))
            word_keys.append(key)
        ends.append(len(word_keys))
    return np.array(word_keys, dtype=np.uint64), np.array(ends, dtype=np.int64)


def _run_keys(word_keys: Keys, ends: Indices, size: int) -> tuple[Keys, Indices]:
    """A key for each run of `size` words within a text, and the index of that text; one text after the other."""
    if len(word_keys) < size:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    run_count = len(word_keys) - size + 1
    run_keys = np.zeros(run_count, dtype=np.uint64)
    for offset in range(size):
        run_keys = fmix64(run_keys + word_keys[offset : offset + run_count])
    text_of_word = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    in_one_text = text_of_word[:run_count] == text_of_word[size - 1 :]
    return run_keys[in_one_text], text_of_word[:run_count][in_one_text]

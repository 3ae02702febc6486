"""Splits text into training and validation, measures their overlap, and orders rows evenly.

Several documents are split by document: a hash of its content decides where a document goes, so that the split does not
depend on the order of the files, and copies and near copies of a document (`near_copies.py`) are never in both parts. A
single document is split at a character: its end is held out (for Tiny Shakespeare exactly the usual last tenth).

If a few long documents make the held-out share wrong by more than a factor of two, the hash chooses again, among the
documents that are no longer than the wanted share. If no whole documents fit, the end of the longest is held out.

The overlap is the share of the validation text that the training text contains too: a score on such text says little.
It is measured in lines. A line with long sentences counts as these sentences, so that prose of one line is compared
too; other lines, such as names and verses, count whole. Each distinct line counts once, by its length, so that `else:`
hardly matters; lines without two adjacent letters or digits, such as `}`, do not count. Whole documents are compared by
their hashes.

Where scoring all rows would take too long, a sample is scored. Files are often sorted, by label, length or author, so
`even_order` spreads the sample: its k-th row is at the fraction k·φ mod 1 of the rows, with φ the golden ratio. By the
three-gap theorem (Sós 1958) the first rows of this order, however many, have nearly equal distances. A smaller sample
is a part of a larger one.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qkv.data.findings import Caution
from qkv.data.formats.text import DocumentPiece
from qkv.data.identity import Indices, Keys, hash64
from qkv.data.near_copies import MAX_UNITS, NearCopies, UnitReader
from qkv.visible import percent

GOLDEN_RATIO = (5**0.5 - 1) / 2
SAMPLE_DOCUMENTS = 2_000_000
"""The split is chosen by the lengths of the first documents; it holds for the others too."""
NOTABLE_SHARE = 0.01
"""With at least this overlap, the note is a caution."""

Mask = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.float64]


def even_order(count: int, limit: int | None = None) -> Indices:
    """The indices of `count` rows in even order, each once; only the first `limit`, if that is given."""
    wanted = count if limit is None else min(count, max(0, limit))
    draws = max(1, wanted)
    while True:
        rows = np.minimum((count * (np.arange(draws) * GOLDEN_RATIO % 1)).astype(np.int64), count - 1)
        _, first_draws = np.unique(rows, return_index=True)
        if len(first_draws) >= wanted:
            return rows[np.sort(first_draws)[:wanted]]
        draws *= 2


class SplitText(NamedTuple):
    """A piece of a document, and the part it belongs to."""

    is_validation: bool
    text: str
    is_last: bool
    """Whether the document, or the part of it in this split, ends with this piece."""


class DocumentCensus:
    """Counts and hashes documents while they are read, to choose the split afterwards."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self.lengths = array("Q")
        """The lengths of the first `SAMPLE_DOCUMENTS` documents."""
        self.characters = 0
        self._hash = hashlib.blake2b(digest_size=8)
        self._length = 0

    def add(self, text: str, is_last: bool) -> None:
        """Add a piece of a document; `is_last` says that the document ends with it."""
        self._hash.update(text.encode())
        self._length += len(text)
        if is_last:
            self.keys.append(int.from_bytes(self._hash.digest(), "little"))
            if len(self.lengths) < SAMPLE_DOCUMENTS:
                self.lengths.append(self._length)
            self.characters += self._length
            self._hash, self._length = hashlib.blake2b(digest_size=8), 0

    @property
    def documents(self) -> int:
        return len(self.keys)

    def distinct(self) -> int:
        return len(np.unique(np.frombuffer(self.keys, dtype=np.uint64))) if self.keys else 0

    def choose_split(self, fraction: float, near_copies: NearCopies | None = None) -> DocumentSplit:
        """The split that holds out about `fraction` of the characters, and leaves neither part empty.

        Documents that are equal stay in one part, and so do `near_copies`.
        """
        keys = own_keys = np.frombuffer(self.keys, dtype=np.uint64)
        if near_copies is not None:
            keys = near_copies.group_keys(own_keys)
        if self.documents == 1:
            return DocumentSplit(np.zeros(1, bool), np.ones(1, bool), int((1 - fraction) * self.characters))
        lengths = np.frombuffer(self.lengths, dtype=np.uint64).astype(np.int64)
        none = np.zeros(len(keys), bool)
        by_hash = _choose_by_hash(keys, lengths, fraction)
        if _is_close(lengths[by_hash[: len(lengths)]].sum() / lengths.sum(), fraction):
            return DocumentSplit(by_hash, none, 0)
        # choose the documents of the smaller part, training or validation; copies of a document stay together
        smaller_fraction = min(fraction, 1 - fraction)
        distinct_keys, groups, copies = np.unique(keys[: len(lengths)], return_inverse=True, return_counts=True)
        sizes: Sizes = np.bincount(groups, weights=lengths).astype(np.float64)
        if (chosen := _choose_whole_documents(keys, distinct_keys, sizes, smaller_fraction)) is not None:
            return DocumentSplit(chosen if fraction <= 0.5 else ~chosen, none, 0)
        # no whole documents fit: the end of the longest one and of its copies is held out, wherever near copies are
        keys = own_keys
        distinct_keys, groups, copies = np.unique(keys[: len(lengths)], return_inverse=True, return_counts=True)
        sizes = np.bincount(groups, weights=lengths).astype(np.float64)
        longest_group = int(np.argmax(sizes))
        is_longest = keys == distinct_keys[longest_group]
        length = int(lengths[is_longest[: len(lengths)]][0])
        if length < 2:
            return DocumentSplit(by_hash, none, 0)
        wanted = round(smaller_fraction * float(lengths.sum()) / copies[longest_group])
        wanted = min(max(1, wanted), length - 1)
        if fraction <= 0.5:
            return DocumentSplit(none, is_longest, length - wanted)
        return DocumentSplit(~is_longest, is_longest, wanted)


def _choose_by_hash(keys: Keys, lengths: Indices, fraction: float) -> Mask:
    """The documents with the smallest hashes, as many as come closest to the fraction of the characters."""
    order = np.argsort(keys[: len(lengths)], kind="stable")
    cumulative = np.cumsum(lengths[order])
    count = int(np.argmin(np.abs(cumulative - fraction * cumulative[-1]))) + 1
    count = min(count, len(order) - 1)
    chosen = keys < keys[order[count]] if keys[order[count]] > keys[order[0]] else keys <= keys[order[0]]
    if chosen.all():  # all documents are copies of one, so only their order can separate them
        chosen = np.zeros(len(keys), dtype=bool)
        chosen[order[:count]] = True
    return chosen


def _is_close(share: float, wanted: float) -> bool:
    """Whether the sizes of both parts are right within a factor of two."""
    return all(0.5 * size <= held <= 2 * size for held, size in ((share, wanted), (1 - share, 1 - wanted)))


def _choose_whole_documents(keys: Keys, distinct_keys: Keys, sizes: Sizes, fraction: float) -> Mask | None:
    """Whole documents whose characters come close to the fraction; None if there are none.

    `distinct_keys` are sorted; `sizes` are the characters of each distinct document, its copies included.
    """
    wanted = fraction * float(sizes.sum())
    small, large = np.flatnonzero(sizes <= wanted), np.flatnonzero(sizes > wanted)
    choices: list[npt.NDArray[np.intp]] = []
    if len(small):
        choices.append(small[: np.argmin(np.abs(np.cumsum(sizes[small]) - wanted)) + 1])
    if len(large):
        choices.append(large[[np.argmin(sizes[large])]])
    close = [choice for choice in choices if _is_close(sizes[choice].sum() / sizes.sum(), fraction)]
    if not close:
        return None
    best = min(close, key=lambda choice: abs(float(sizes[choice].sum()) - wanted))
    if sizes[best[0]] > wanted:
        return np.isin(keys, distinct_keys[best])
    # all keys up to a bound, so that documents beyond the sample are chosen too
    return (keys <= distinct_keys[best[-1]]) & ~np.isin(keys, distinct_keys[large])


class DocumentSplit(NamedTuple):
    """Which documents are held out whole, and where others are divided."""

    valid: Mask
    """The documents that are held out."""
    cut: Mask
    """The documents of which the end is held out: the only one, or the longest with its copies."""
    cut_at: int
    """The character at which they are divided."""

    def split(self, pieces: Iterable[DocumentPiece]) -> Iterator[SplitText]:
        number = 0
        remaining = self.cut_at
        for text, is_last in pieces:
            # if the data changed there may be more documents than before, which the caller detects
            document = min(number, len(self.valid) - 1)
            if self.cut[document]:
                yield from _cut(text, is_last, remaining)
                remaining -= len(text)
            else:
                yield SplitText(bool(self.valid[document]), text, is_last)
            if is_last:
                number, remaining = number + 1, self.cut_at


def _cut(text: str, is_last: bool, remaining: int) -> Iterator[SplitText]:
    """The parts of a piece; the training part of the document ends after `remaining` more characters."""
    if remaining > 0:
        yield SplitText(False, text[:remaining], is_last or len(text) >= remaining)
    if len(text) > remaining or remaining <= 0:
        yield SplitText(True, text[max(0, remaining) :], is_last)
    elif is_last:
        yield SplitText(True, "", True)


class Overlap:
    """Finds text that is both in training and in validation.

    It compares units: lines and long sentences. The memory is bounded: of many units only those with small hashes are
    kept, so that both parts keep the same sample.
    """

    def __init__(self) -> None:
        self.units: tuple[dict[int, int], dict[int, int]] = ({}, {})
        """For training and validation: the length of each unit, by its hash."""
        self.documents = (DocumentCensus(), DocumentCensus())
        self.hash_limit = 2**64
        self._readers = (UnitReader(), UnitReader())

    def add(self, piece: SplitText) -> None:
        part = int(piece.is_validation)
        self.documents[part].add(piece.text, piece.is_last)
        lengths = self.units[part]
        for unit in self._readers[part].units(piece.text, piece.is_last):
            key = hash64(unit.encode())
            if key < self.hash_limit:
                lengths[key] = len(unit)
        if len(lengths) > MAX_UNITS:
            self.hash_limit //= 2
            for units in self.units:
                for key in [key for key in units if key >= self.hash_limit]:
                    del units[key]

    def share(self) -> float:
        """The share of the validation units, by length, that are in the training text."""
        train, valid = self.units
        return sum(valid[key] for key in valid.keys() & train.keys()) / (sum(valid.values()) or 1)

    def copies(self) -> int:
        """How many validation documents are training documents as well."""
        train, valid = (np.frombuffer(part.keys, dtype=np.uint64) for part in self.documents)
        return int(np.isin(valid, train).sum())

    def notes(self) -> Iterator[str]:
        """A note on how much of the validation text is in the training text, if any is."""
        share, copies, documents = self.share(), self.copies(), self.documents[True].documents
        if not self.units[True] and copies:  # no validation text has two adjacent letters
            share = copies / documents
        whole = f", and {copies:,} of {documents:,} documents whole" if copies else ""
        if not share and not copies:
            return
        note = f"overlap: {percent(share)} of the lines and sentences held out are also in the training text{whole}."
        yield Caution(note) if copies or share >= NOTABLE_SHARE else note

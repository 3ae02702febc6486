"""Which text is held out for validation, what training and validation share, and an even order of rows.

Several documents are split by document: a hash of its content decides where a document goes, so the split does not
depend on the order of the files, and a document that occurs twice never lands in both parts. One document is split at a
character: its tail is held out, all of it contiguous (for Tiny Shakespeare exactly the usual last tenth).

Where a few long documents make the hash's choice miss the wanted share by more than a factor of two, it is asked again
among the documents that are no longer than the share; where no whole documents fit, the longest one gives its tail.

The overlap is how much of the validation text the training text holds as well: a score on such text says little.
Compared are lines. A line is cut into its sentences where these are long; a line without a long one counts whole, so
that lists of names and verses are compared too. Each distinct one counts once and by its length, and lines without
two adjacent letters or digits not at all: `}` and `else:`, which are everywhere, hardly weigh. Whole documents are
compared by their hash.

A part of a set is scored where the whole would take too long, and files are often sorted: by label, by length, by
author. The k-th row of an even order is the one at the fraction k·φ mod 1 of the way, φ the golden ratio: by the
three-gap theorem (Sós 1958) the first rows, however many, lie at nearly equal distances. So a smaller sample is part of
a larger one.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qkv.data.findings import Caution
from qkv.data.formats.text import DocumentPiece
from qkv.data.identity import Keys, hash64

GOLDEN = (5**0.5 - 1) / 2


def even_order(count: int, most: int | None = None) -> npt.NDArray[np.int64]:
    """The first `most` of `count` rows, or all of them, each once."""
    wanted = count if most is None else min(count, max(0, most))
    draws = max(1, wanted)
    while True:
        rows = np.minimum((count * (np.arange(draws) * GOLDEN % 1)).astype(np.int64), count - 1)
        _, first = np.unique(rows, return_index=True)
        if len(first) >= wanted:
            return rows[np.sort(first)[:wanted]]
        draws *= 2


# the border between the parts is drawn from this many documents; it decides about the others too
SAMPLE = 2_000_000

Mask = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.float64]


class SplitText(NamedTuple):
    """A piece of text and where it belongs."""

    valid: bool
    text: str
    is_last: bool


class Census:
    """Counts and hashes the documents as they are read, to draw the border between the parts afterwards."""

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
        """Draw the border so that about `fraction` of the characters is held out, and neither part is empty."""
        keys = np.frombuffer(self.keys, dtype=np.uint64)
        if self.documents == 1:
            return Border(np.zeros(1, bool), np.ones(1, bool), int((1 - fraction) * self.characters))
        lengths = np.frombuffer(self.lengths, dtype=np.uint64).astype(np.int64)
        nothing = np.zeros(len(keys), bool)
        valid = by_hash(keys, lengths, fraction)
        if fits(lengths[valid[: len(lengths)]].sum() / lengths.sum(), fraction):
            return Border(valid, nothing, 0)
        # the smaller part is chosen, whichever it is, from documents with their copies, which stay together
        smaller = min(fraction, 1 - fraction)
        own, groups, copies = np.unique(keys[: len(lengths)], return_inverse=True, return_counts=True)  # sorted by key
        sizes: Sizes = np.bincount(groups, weights=lengths).astype(np.float64)
        if (chosen := whole_documents(keys, own, sizes, smaller)) is not None:
            return Border(chosen if fraction <= 0.5 else ~chosen, nothing, 0)
        group = int(np.argmax(sizes))  # the longest document, with its copies
        longest, share = keys == own[group], round(smaller * float(lengths.sum()) / copies[group])
        length = int(lengths[longest[: len(lengths)]][0])
        if length < 2:  # a handful of characters
            return Border(valid, nothing, 0)
        place = min(max(1, share), length - 1)
        if fraction <= 0.5:
            return Border(nothing, longest, length - place)
        return Border(~longest, longest, place)


def by_hash(keys: Keys, lengths: npt.NDArray[np.int64], fraction: float) -> Mask:
    """The documents that come first in the order of their hash, as many as come closest to the fraction."""
    order = np.argsort(keys[: len(lengths)], kind="stable")
    held = np.cumsum(lengths[order])
    count = int(np.argmin(np.abs(held - fraction * held[-1]))) + 1
    count = min(count, len(order) - 1)
    valid = keys < keys[order[count]] if keys[order[count]] > keys[order[0]] else keys <= keys[order[0]]
    if valid.all():  # one document, many times: nothing but its place tells the copies apart
        valid = np.zeros(len(keys), dtype=bool)
        valid[order[:count]] = True
    return valid


def fits(share: float, wanted: float) -> bool:
    """Whether neither part misses its size by more than a factor of two."""
    return all(0.5 * size <= found <= 2 * size for found, size in ((share, wanted), (1 - share, 1 - wanted)))


def whole_documents(keys: Keys, own: Keys, sizes: Sizes, fraction: float) -> Mask | None:
    """Documents that come close to the fraction; None where none do. `own` are the distinct keys, in order, and `sizes`
    the characters of each document with its copies."""
    wanted = fraction * float(sizes.sum())
    small, larger = np.flatnonzero(sizes <= wanted), np.flatnonzero(sizes > wanted)
    choices: list[npt.NDArray[np.intp]] = []
    if len(small):
        choices.append(small[: np.argmin(np.abs(np.cumsum(sizes[small]) - wanted)) + 1])
    if len(larger):
        choices.append(larger[[np.argmin(sizes[larger])]])
    fitting = [choice for choice in choices if fits(sizes[choice].sum() / sizes.sum(), fraction)]
    if not fitting:
        return None
    best = min(fitting, key=lambda choice: abs(float(sizes[choice].sum()) - wanted))
    if sizes[best[0]] > wanted:
        return np.isin(keys, own[best])
    # a bound, so that it also holds for documents beyond the sample
    return (keys <= own[best[-1]]) & ~np.isin(keys, own[larger])


class Border(NamedTuple):
    """Where text is split: by whole documents, and at a character of those that are cut."""

    valid: Mask
    cut: Mask
    """The only document, or the longest with its copies: what follows `character` in it is held out."""
    character: int

    def split(self, pieces: Iterable[DocumentPiece]) -> Iterator[SplitText]:
        number = 0
        left = self.character
        for text, ends in pieces:
            # a document more than before means that the data changed; the caller finds that out by itself
            document = min(number, len(self.valid) - 1)
            if self.cut[document]:
                yield from _cut(text, ends, left)
                left -= len(text)
            else:
                yield SplitText(bool(self.valid[document]), text, ends)
            if ends:
                number, left = number + 1, self.character


def _cut(text: str, ends: bool, left: int) -> Iterator[SplitText]:
    """A piece of a document that is cut after `left` more characters."""
    if left > 0:
        yield SplitText(False, text[:left], ends or len(text) >= left)
    if len(text) > left or left <= 0:
        yield SplitText(True, text[max(0, left) :], ends)
    elif ends:
        yield SplitText(True, "", True)


LONG = 40
MOST_UNITS = 500_000
# a line is held until its end comes, if that is not farther than this
LONGEST_LINE = 2**20
# from here on it is worth a warning
MUCH = 0.01
_SENTENCE = re.compile(rf"[^.!?]{{{LONG},}}")
_WORD = re.compile(r"\w\w")


class Overlap:
    """Finds text that is in training and in validation.

    It keeps hashes of a sample that is thinned out as it grows, the same sample of both parts, so memory is bounded.
    """

    def __init__(self) -> None:
        self.units: tuple[dict[int, int], dict[int, int]] = ({}, {})  # the length of each, by its hash
        self.documents = (Census(), Census())
        self.limit = 2**64
        self._held = ["", ""]

    def add(self, piece: SplitText) -> None:
        self.documents[piece.valid].add(piece.text, piece.is_last)
        text, self._held[piece.valid] = self._held[piece.valid] + piece.text, ""
        if not piece.is_last and len(text) - (end := text.rfind("\n") + 1) < LONGEST_LINE:
            text, self._held[piece.valid] = text[:end], text[end:]
        self._count(self.units[piece.valid], text)

    def _count(self, mine: dict[int, int], text: str) -> None:
        for unit in units(text):
            key = hash64(unit.encode())
            if key < self.limit:
                mine[key] = len(unit)
        if len(mine) > MOST_UNITS:
            self.limit //= 2
            for hashes in self.units:
                for key in [key for key in hashes if key >= self.limit]:
                    del hashes[key]

    def share(self) -> float:
        """The part of the validation text's lines and sentences that stands in the training text."""
        train, valid = self.units
        return sum(valid[key] for key in valid.keys() & train.keys()) / (sum(valid.values()) or 1)

    def copies(self) -> int:
        """How many validation documents are training documents as well."""
        train, valid = (np.frombuffer(part.keys, dtype=np.uint64) for part in self.documents)
        return int(np.isin(valid, train).sum())

    def note(self) -> str:
        share, copies, documents = self.share(), self.copies(), self.documents[True].documents
        if not self.units[True] and copies:  # nothing in it has two adjacent letters
            share = copies / documents
        whole = f", and {copies:,} of {documents:,} documents whole" if copies else ""
        note = f"overlap: {share:.1%} of the lines and sentences held out also stand in the training text{whole}."
        return Caution(note) if copies or share >= MUCH else note


def units(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        sentences = _SENTENCE.findall(line) if len(line) >= LONG else ()
        if sentences:
            for sentence in sentences:
                yield sentence.strip()
        elif _WORD.search(line):
            yield line.strip()

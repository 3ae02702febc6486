"""Documents past the filters, batch by batch; each filter sees what those before it left, and keeps count.

Copies come last: a document whose text, but for case and white space, was kept before; then one that resembles a kept
one. What is remembered of a kept document is a hash and a signature; nothing else grows with the corpus.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qkv.data.document_files import excerpt
from qkv.data.filters import FILTERS, Batch, Values
from qkv.data.findings import shown
from qkv.data.limits import Limits
from qkv.data.measures import measured, total
from qkv.data.near_duplicates import First, NearDuplicates, first_of_documents, first_shingles
from qkv.data.row_index import KeyRows, RowIndex

EXAMPLES, EXAMPLE_LENGTH = 3, 70

Mask = npt.NDArray[np.bool_]


class Document(NamedTuple):
    text: str
    """All of it, or the beginning of one that is too long to be held."""
    characters: int
    bytes: int


class Reason(NamedTuple):
    """Why a document was dropped: the filter, and what it measured."""

    filter: str
    value: float


@dataclass
class Tally:
    """What one filter did."""

    name: str
    limit: float | int | None
    documents: int = 0
    """Those that it saw."""
    bytes: int = 0
    dropped_documents: int = 0
    dropped_bytes: int = 0
    examples: list[str] = field(default_factory=list)


class Copies:
    """Finds documents that were there before, but for case, white space and the way accents are written."""

    def __init__(self) -> None:
        self.known = KeyRows(1)
        self.index = RowIndex(self.known)

    @property
    def remembered(self) -> int:
        return self.known.bytes + self.index.bytes

    def look(self, texts: Sequence[str]) -> Mask:
        """Which texts are copies of earlier ones; the others are remembered."""
        keys = np.array([_hash(text) for text in texts], dtype=np.uint64)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        copies = (first[group] != np.arange(len(keys))) | (self.index.find(keys) >= 0)
        self.index.add(self.known.add(keys[~copies][:, None]))
        return copies


def _hash(text: str) -> int:
    composed = text if text.isascii() else unicodedata.normalize("NFC", text)
    plain = " ".join(composed.lower().split())
    return int.from_bytes(blake2b(plain.encode("utf-8", "replace"), digest_size=8).digest(), "little")


class Sieve:
    """All filters but those to `skip`, in their order."""

    def __init__(self, limits: Limits, skip: Collection[str] = ()) -> None:
        self.limits = limits
        self.filters = [each for each in FILTERS if each.name not in skip]
        self.copies = None if "copy" in skip else Copies()
        self.near_copies = None if "near-copy" in skip else NearDuplicates(limits.similarity)
        self.tallies = {each.name: Tally(each.name, getattr(limits, each.limit)) for each in self.filters}
        if self.copies is not None:
            self.tallies["copy"] = Tally("copy", None)
        if self.near_copies is not None:
            self.tallies["near-copy"] = Tally("near-copy", limits.similarity)

    @property
    def remembered(self) -> int:
        """The bytes that grow with the number of documents kept."""
        return sum(each.remembered for each in (self.copies, self.near_copies) if each is not None)

    def judge(self, documents: Sequence[Document]) -> list[Reason | None]:
        """For each document why it goes, or None where it stays."""
        batch, first = self._measured(documents)
        turn = _Turn(documents, self.tallies)
        for each in self.filters:
            values = each.measure(batch)
            turn.drop(each.name, each.drops(values, self.limits), values)
        if self.copies is not None:
            left = np.flatnonzero(turn.left)
            copies = np.zeros(len(documents))
            copies[left] = self.copies.look([documents[number].text for number in left.tolist()])
            turn.drop("copy", copies > 0, copies)
        if self.near_copies is not None:
            left = np.flatnonzero(turn.left)
            similarities = np.zeros(len(documents))
            similarities[left] = self.near_copies.look(first[left])
            turn.drop("near-copy", similarities >= self.limits.similarity, similarities)
        return turn.reasons

    def _measured(self, documents: Sequence[Document]) -> tuple[Batch, First]:
        texts = [document.text for document in documents]
        counts, owners, first = [], [], []
        for found, words, owner in measured(texts):
            counts.append(found)
            owners.append(owner)
            if self.near_copies is not None:
                first.append(first_shingles(words, len(owner)))
        owner = np.concatenate(owners)
        characters = np.array([document.characters for document in documents])
        batch = Batch(texts, characters, total(counts, owner))
        return batch, first_of_documents(np.concatenate(first), owner) if first else np.zeros((0, 0), dtype=np.uint32)


class _Turn:
    """One batch on its way through the filters."""

    def __init__(self, documents: Sequence[Document], tallies: dict[str, Tally]) -> None:
        self.documents, self.tallies = documents, tallies
        self.sizes = np.array([document.bytes for document in documents])
        self.left = np.ones(len(documents), dtype=bool)
        self.reasons: list[Reason | None] = [None] * len(documents)

    def drop(self, name: str, unfit: Mask, values: Values) -> None:
        tally = self.tallies[name]
        tally.documents += int(self.left.sum())
        tally.bytes += int(self.sizes[self.left].sum())
        gone = np.flatnonzero(self.left & unfit).tolist()
        tally.dropped_documents += len(gone)
        tally.dropped_bytes += int(self.sizes[gone].sum())
        self.left[gone] = False
        for number in gone:
            self.reasons[number] = Reason(name, float(values[number]))
            if len(tally.examples) < EXAMPLES:
                example = shown(excerpt(self.documents[number].text, EXAMPLE_LENGTH))
                tally.examples += [example] if example not in tally.examples else []

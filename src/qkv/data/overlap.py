"""How much of the validation text the training text holds as well: a score on such text says little."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from qkv.data.findings import Caution
from qkv.data.identity import hash64
from qkv.data.split import Census, Side

LONG = 40


MOST_UNITS = 500_000


# a line is held until its end comes, if that is not farther than this
LONGEST_LINE = 2**20


# from here on it is worth a warning
MUCH = 0.01


_SENTENCE = re.compile(rf"[^.!?]{{{LONG},}}")


_WORD = re.compile(r"\w\w")


class Overlap:
    """Watches the sides pass by for text that stands on both.

    Hashes are kept of a sample that is thinned out as it grows, the same sample on both sides, so memory is bounded.
    """

    def __init__(self) -> None:
        self.units: tuple[dict[int, int], dict[int, int]] = ({}, {})  # the length of each, by its hash
        self.documents = (Census(), Census())
        self.limit = 2**64
        self._held = ["", ""]

    def add(self, side: Side) -> None:
        self.documents[side.valid].add(side.text, side.ends)
        text, self._held[side.valid] = self._held[side.valid] + side.text, ""
        if not side.ends and len(text) - (end := text.rfind("\n") + 1) < LONGEST_LINE:
            text, self._held[side.valid] = text[:end], text[end:]
        self._count(self.units[side.valid], text)

    def _count(self, mine: dict[int, int], text: str) -> None:
        for unit in units(text):
            key = hash64(unit.encode())
            if key < self.limit:
                mine[key] = len(unit)
        if len(mine) > MOST_UNITS:
            self.limit //= 2
            for side in self.units:
                for key in [key for key in side if key >= self.limit]:
                    del side[key]

    def share(self) -> float:
        """The part of the validation text's lines and sentences that stands in the training text."""
        train, valid = self.units
        return sum(valid[key] for key in valid.keys() & train.keys()) / (sum(valid.values()) or 1)

    def copies(self) -> int:
        """How many validation documents are training documents as well."""
        train, valid = (np.frombuffer(side.keys, dtype=np.uint64) for side in self.documents)
        return int(np.isin(valid, train).sum())

    def note(self) -> str:
        share, copies, documents = self.share(), self.copies(), self.documents[True].documents
        if not self.units[True] and copies:  # nothing in it has two letters side by side
            share = copies / documents
        whole = f", and {copies:,} of {documents:,} documents whole" if copies else ""
        said = f"overlap: {share:.1%} of the lines and sentences held out also stand in the training text{whole}."
        return Caution(said) if copies or share >= MUCH else said


def units(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        sentences = _SENTENCE.findall(line) if len(line) >= LONG else ()
        if sentences:
            for sentence in sentences:
                yield sentence.strip()
        elif _WORD.search(line):
            yield line.strip()

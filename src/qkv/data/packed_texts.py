"""Many texts in one run of bytes: a million of them cost their UTF-8 and eight bytes each, not a Python object each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any


class PackedTexts:
    """A list of texts that only grows."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("Q", [0])

    def append(self, text: str) -> None:
        self._bytes += text.encode()
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes[self._ends[number] : self._ends[number + 1]].decode()

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    @property
    def bytes(self) -> int:
        return len(self._bytes) + self._ends.itemsize * len(self._ends)

    def add_to(self, digest: Any) -> None:
        """Put the texts and their borders into a hash."""
        digest.update(self._ends)
        digest.update(self._bytes)

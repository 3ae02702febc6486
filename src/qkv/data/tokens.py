"""Token streams: ids in one flat memory-mapped array, with separators between documents.

    separator document separator document separator ... document separator

Long documents are encoded in parts, split before a space or line end that follows another character. No pre-tokenizer
of qkv joins two such characters, so the parts have the same ids as the whole; a text without such a place is split
anywhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.errors import DataError
from qkv.text.tokenizer import Tokenizer

# the pieces of a batch are encoded in parallel, one per thread; a batch takes about a hundred bytes per token, and each
# thread of the library keeps the memory for its longest piece
PIECE = 2**16
BATCH = 16 * PIECE


@dataclass(frozen=True)
class TokenStream:
    tokens: npt.NDArray[Any]
    """A one-dimensional array of uint16 or uint32."""
    bytes: int
    """The size of the text as UTF-8."""
    characters: int
    documents: int
    unknown: int
    """How many of the tokens are UNK."""


def require(stream: TokenStream, needed: int, what: str, remedy: str = "Give more text, or a shorter context.") -> None:
    """Refuse a stream that is too short; `what` needs this number of tokens."""
    if len(stream.tokens) < needed:
        problem = f"{what} needs at least {needed:,} tokens, has {len(stream.tokens):,}"
        raise DataError("the corpus", problem, remedy)


def token_type(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocabulary <= 2**16 else np.uint32


class Cutter:
    """Splits a stream of text into pieces of bounded length; the positions depend only on the text."""

    _boundary = re.compile(r"\S(?=[ \n])")

    def __init__(self, length: int = PIECE) -> None:
        self.length = length
        self.held: list[str] = []
        self.size = 0

    def push(self, text: str) -> Iterator[str]:
        self.held.append(text)
        self.size += len(text)
        if self.size <= self.length:
            return
        whole = "".join(self.held)
        start = 0
        while len(whole) - start > self.length:
            end = self._cut(whole, start)
            yield whole[start:end]
            start = end
        self.held, self.size = [whole[start:]], len(whole) - start

    def finish(self) -> str:
        rest = "".join(self.held)
        self.held, self.size = [], 0
        return rest

    def parts(self, text: str, ends: bool) -> Iterator[tuple[str, bool]]:
        """Add text, and return the parts that are complete, with whether each is the last of its document."""
        for part in self.push(text):
            yield part, False
        if ends:
            yield self.finish(), True

    def _cut(self, text: str, start: int) -> int:
        limit = start + self.length
        # try near the end of the piece first, where there is nearly always a boundary
        for begin in (max(start, limit - 1024), start):
            boundaries = [match.end() for match in self._boundary.finditer(text, begin, limit + 1)]
            if boundaries:
                return boundaries[-1]
        return limit


class TokenWriter:
    """Encodes one split of a corpus into a file, piece by piece."""

    def __init__(self, path: Path, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.type = np.dtype(token_type(tokenizer.vocabulary)).newbyteorder("<")
        self.file = path.open("wb")
        self.cutter = Cutter()
        self.batch: list[str | None] = [None]  # None stands for a separator
        self.waiting = 0
        self.tokens = self.bytes = self.characters = self.documents = self.unknown = 0

    def add(self, text: str, ends: bool) -> None:
        for part, last in self.cutter.parts(text, ends):
            if part:
                self._queue(part)
            if last:
                self.documents += 1
                self._queue(None)

    def _queue(self, piece: str | None) -> None:
        self.batch.append(piece)
        self.waiting += 1 if piece is None else len(piece)
        if piece is not None:
            self.bytes += len(piece.encode())
            self.characters += len(piece)
        if self.waiting > BATCH:
            self._encode()

    def _encode(self) -> None:
        arrays = iter(self.tokenizer.encode_array([piece for piece in self.batch if piece is not None]))
        separator = np.array([self.tokenizer.separator], dtype=np.uint32)
        ids = np.concatenate([separator if piece is None else next(arrays) for piece in self.batch])
        self.tokens += len(ids)
        if self.tokenizer.unknown is not None:
            self.unknown += int(np.count_nonzero(ids == self.tokenizer.unknown))
        ids.astype(self.type).tofile(self.file)
        self.batch, self.waiting = [], 0

    def close(self) -> dict[str, int]:
        """Write the remaining pieces, and return the counts of a TokenStream."""
        if self.batch:
            self._encode()
        self.file.close()
        names = ("tokens", "bytes", "characters", "documents", "unknown")
        return {name: getattr(self, name) for name in names}


def alphabet(texts: Iterable[str]) -> str:
    """The distinct characters of texts of any length, in order; a `characters` tokenizer needs even those that occur
    once. They are marked in a table, which bounds the memory."""
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    for text in texts:
        if text.isascii():
            seen[np.frombuffer(text.encode(), dtype=np.uint8)] = True
        else:  # lone surrogates are refused elsewhere, with a message
            seen[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    return "".join(map(chr, np.flatnonzero(seen)))

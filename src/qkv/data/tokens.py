"""Token streams: ids in one flat memory-mapped array, documents kept apart by the separator.

    separator document separator document separator ... document separator

Long documents are encoded in parts cut before a space or line end that follows something else. No pre-tokenizer of
ours joins two such characters, so the parts give the ids of the whole; a text without such a place is cut anywhere.
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

# several pieces are encoded at once, one per thread; a batch of them is what is held in memory (about a hundred bytes
# for each token), and each thread of the library keeps room for its longest piece for ever
PIECE = 2**16
BATCH = 16 * PIECE


@dataclass(frozen=True)
class TokenStream:
    tokens: npt.NDArray[Any]
    """One dimension, uint16 or uint32."""
    bytes: int
    """Of the text, as UTF-8."""
    characters: int
    documents: int
    unknown: int
    """How many of the tokens are UNK."""


def require(stream: TokenStream, needed: int, what: str, remedy: str = "Give more text, or a shorter context.") -> None:
    """Refuse a stream that is too short for what is to be done with it."""
    if len(stream.tokens) < needed:
        problem = f"{what} needs at least {needed:,} tokens, has {len(stream.tokens):,}"
        raise DataError("the corpus", problem, remedy)


def token_type(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocabulary <= 2**16 else np.uint32


class Cutter:
    """Cuts a stream of text into pieces of bounded length; where it cuts depends on the text only."""

    _place = re.compile(r"\S(?=[ \n])")

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
        """The parts that are complete now that this text came; the last of a document says so."""
        for part in self.push(text):
            yield part, False
        if ends:
            yield self.finish(), True

    def _cut(self, text: str, start: int) -> int:
        limit = start + self.length
        # near the end of the piece first: there is nearly always a place
        for begin in (max(start, limit - 1024), start):
            places = [match.end() for match in self._place.finditer(text, begin, limit + 1)]
            if places:
                return places[-1]
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
        """Write what is left; the facts that make the file a TokenStream."""
        if self.batch:
            self._encode()
        self.file.close()
        names = ("tokens", "bytes", "characters", "documents", "unknown")
        return {name: getattr(self, name) for name in names}


def alphabet(texts: Iterable[str]) -> str:
    """Each character of the texts once, in order, however long: a `characters` tokenizer must know the one that
    occurs once, too. It takes one look into a table for each, and no more memory than the table."""
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    for text in texts:
        if text.isascii():
            seen[np.frombuffer(text.encode(), dtype=np.uint8)] = True
        else:  # a half of a surrogate pair is refused elsewhere, with a message
            seen[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    return "".join(map(chr, np.flatnonzero(seen)))

"""Sentencepiece's table of characters: what a text is rewritten to before it is cut, "ﬁ" to "fi", a tab to a space.

    the table    size of the trie, trie (a double array: Aoe 1989, as darts-clone packs it), texts that end with a zero
    a text       from left to right, the longest key that fits is replaced, what no key fits stays

It is the rewriting of `sentencepiece` itself. The `tokenizers` library has one that goes by what looks like one letter
and takes the shortest key, so that some letters with two accents lose one; and it trusts the table. Here every node is
visited once, within bounds, before a text is rewritten.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt

LARGEST = 2**23
_PLAIN = np.arange(0x20, 0x7F, dtype=np.uint32)  # what can be printed of ASCII
_STRANGE, _ANY = re.compile(r"[^\x20-\x7e]"), re.compile(r"[\s\S]")
LONGEST_KEY = 64  # characters

Units = npt.NDArray[np.uint32]


class BadTable(ValueError):  # noqa: N818  (a fact, not a mistake)
    """A table that does not hold what it should, in words."""


class Rewriting:
    """A text as a vocabulary wants it: rewritten by the table, its white space single and none around it."""

    def __init__(self, data: bytes = b"") -> None:
        units, self._texts = _parts(data) if data else (np.zeros(256, dtype=np.uint32), b"\0")
        _visit(units, self._texts)
        self._units: list[int] = units.tolist()
        plain = _plain_beginnings(units)
        self._before, self._look = (0, _ANY) if plain is None else (plain, _STRANGE)
        self._known: dict[str, bool] = {}  # whether a key begins with a character

    def __call__(self, text: str) -> str:
        return re.sub(" {2,}", " ", self.rewritten(text)).strip(" ")

    def rewritten(self, text: str) -> str:
        """By the table alone. Plain letters are looked at only where something else stands close behind them."""
        parts, done = [], 0
        while found := self._look.search(text, done):
            at = max(done, found.start() - self._before)
            parts.append(text[done:at])
            while at <= found.start():
                size, new = self._longest(text, at)
                parts.append(text[at] if new is None else new)
                at += size
            done = at
        return "".join([*parts, text[done:]])

    def _longest(self, text: str, begin: int) -> tuple[int, str | None]:
        """How many characters the longest key at this place has, and what replaces it; None: no key fits."""
        units, best = self._units, (1, None)
        if self._known.get(text[begin], True) is False:
            return best
        place, found = _offset(units[0]), None
        for number, character in enumerate(text[begin : begin + LONGEST_KEY], 1):
            leaf = False
            for byte in character.encode():
                place ^= byte
                unit = units[place]
                if unit & 0x800000FF != byte:
                    if number == 1:
                        self._known[character] = False
                    return best if found is None else found
                place ^= _offset(unit)
                leaf = bool(unit >> 8 & 1)
            if leaf:
                at = units[place] & 0x7FFFFFFF
                found = number, self._texts[at : self._texts.index(b"\0", at)].decode()
        return best if found is None else found


@lru_cache(maxsize=4)
def rewriting(packed: str) -> Rewriting:
    """Of a table as tokenizer.json holds it, in base64; BadTable where it does not fit."""
    if len(packed) > LARGEST * 4 // 3 + 4:
        raise BadTable(f"{len(packed):,} characters; no such table is so large")
    try:
        data = base64.b64decode(packed.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise BadTable("not base64") from None
    return Rewriting(data)


def _parts(data: bytes) -> tuple[Units, bytes]:
    size = int.from_bytes(data[:4], "little")
    if len(data) > LARGEST or size % 1024 or not 1024 <= size < len(data) - 4:
        raise BadTable(f"{len(data):,} bytes, with a trie of {size:,}; expected a whole trie and what it refers to")
    texts = data[4 + size :]
    try:
        whole = texts.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadTable(f"a text is not UTF-8 at byte {error.start:,}") from None
    if texts[-1] or "  " in whole:
        raise BadTable("a text without an end, or with several spaces in a row")
    return np.frombuffer(data, dtype="<u4", count=size // 4, offset=4).astype(np.uint32), texts


def _visit(units: Units, texts: bytes) -> None:
    """Every node once; what leads beyond the trie or its texts is refused, so that nothing need be checked later."""
    reached = np.zeros(len(units), dtype=bool)
    bases, every = _offsets(units[:1]), np.arange(1, 256, dtype=np.uint32)
    follows = (np.frombuffer(texts, dtype=np.uint8) & 0xC0) == 0x80  # not the first byte of a character
    while len(bases):
        if int((bases | 255).max()) >= len(units):
            raise BadTable("a node of the trie lies beyond its end")
        reached[bases] = True
        below, values = _children(units, bases, every)
        places = units[values] & np.uint32(0x7FFFFFFF)
        if len(places) and (int(places.max()) >= len(texts) or bool(follows[places].any())):
            raise BadTable("a number of the trie refers to no text")
        bases = below[~reached[np.minimum(below, len(units) - 1)]]


def _children(units: Units, bases: Units, letters: Units) -> tuple[Units, Units]:
    """The bases of the nodes below these, each once, and where those of them that end a key have their numbers."""
    places = bases[:, None] ^ letters  # (nodes, letters)
    places = places[(units[places] & np.uint32(0x800000FF)) == letters]
    below = places ^ _offsets(units[places])
    ends = below[(units[places] >> 8 & 1).astype(bool)]
    if len(ends) and int(ends.max()) >= len(units):
        raise BadTable("a number of the trie lies beyond its end")
    return np.unique(below), np.unique(ends)


def _plain_beginnings(units: Units) -> int | None:
    """The most plain letters that a key begins with; None where one has no others, as where capitals become small."""
    bases, depth = _offsets(units[:1]), 0
    while True:
        bases, ends = _children(units, bases, _PLAIN)
        if len(ends):
            return None
        if not len(bases):
            return depth
        if (depth := depth + 1) > LONGEST_KEY:
            raise BadTable(f"a key of more than {LONGEST_KEY} letters")


def _offsets(units: Units) -> Units:
    return (units >> np.uint32(10)) << ((units & np.uint32(1 << 9)) >> np.uint32(6))


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 1 << 9) >> 6)

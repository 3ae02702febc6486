"""Sentencepiece's unigram vocabularies: of all ways to cut a text the one whose pieces are most likely together.

    x* = argmax over x_1 ... x_n = text of  sum_i log p(x_i)        Kudo 2018, arXiv 1804.10959

Marian's models (Helsinki-NLP's among them) have two, one for each language, under one numbering. So a tokenizer.json of
this kind lists the pieces of both: those that its own language lacks have the score `NEVER` and are no part of any cut;
those that have no number stand behind `BEYOND` and are read as unknown. What no piece fits is looked up as it stands,
since the other language may have a number for it, as Marian does it. `Unigram` answers as the library's tokenizer
would, so that `Tokenizer` need not ask which one it has.

Before it is cut, a text is rewritten by a table of characters, "ﬁ" to "fi", a tab to a space:

    the table    size of the trie, trie (a double array: Aoe 1989, as darts-clone packs it), texts that end with a zero
    a text       from left to right, the longest key that fits is replaced, what no key fits stays

It is the rewriting of `sentencepiece` itself. The `tokenizers` library has one that goes by what looks like one letter
and takes the shortest key, so that some letters with two accents lose one; and it trusts the table. Here every node is
visited once, within bounds, before a text is rewritten.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import AddedToken, models

from qkv.text.pipelines import SPACE, Part

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
        while match := self._look.search(text, done):
            at = max(done, match.start() - self._before)
            parts.append(text[done:at])
            while at <= match.start():
                size, new = self._longest(text, at)
                parts.append(text[at] if new is None else new)
                at += size
            done = at
        return "".join([*parts, text[done:]])

    def _longest(self, text: str, begin: int) -> tuple[int, str | None]:
        """How many characters the longest key at this place has, and what replaces it; None: no key fits."""
        units = self._units
        best: tuple[int, str | None] = (1, None)
        if self._known.get(text[begin], True) is False:
            return best
        place = _offset(units[0])
        for number, character in enumerate(text[begin : begin + LONGEST_KEY], 1):
            leaf = False
            for byte in character.encode():
                place ^= byte
                unit = units[place]
                if unit & 0x800000FF != byte:
                    if number == 1:
                        self._known[character] = False
                    return best
                place ^= _offset(unit)
                leaf = bool(unit >> 8 & 1)
            if leaf:
                at = units[place] & 0x7FFFFFFF
                best = number, self._texts[at : self._texts.index(b"\0", at)].decode()
        return best


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


NEVER = -1e9
BEYOND = "<|beyond|>"
# two code points that are no characters: one stands for what no piece fits, the other takes its place in texts
_NONE, _INSTEAD = "\uffff", "\ufffe"


class Cut(NamedTuple):
    ids: list[int]


class ListedTokens:
    """The tokens of a tokenizer by number, as the `tokenizers` library gives them."""

    _tokens: list[str]
    _added: dict[int, AddedToken]

    def id_to_token(self, number: int) -> str | None:
        return self._tokens[number] if 0 <= number < len(self._tokens) else None

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        return {token: number for number, token in enumerate(self._tokens)}

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        return len(self._tokens)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        return dict(self._added)


class Unigram(ListedTokens):
    """A tokenizer.json of this kind, which has been checked (checks.py)."""

    def __init__(self, text: str) -> None:
        self._values: Part = json.loads(text)
        model = self._values["model"]
        listed: list[tuple[str, float]] = [(piece, float(score)) for piece, score in model["vocab"]]
        added = {entry["content"]: entry for entry in self._values["added_tokens"]}
        size: int = added.pop(BEYOND)["id"] if BEYOND in added else len(listed)
        self._tokens = [piece for piece, _ in listed[:size]]
        self._ids = {piece: number for number, piece in enumerate(self._tokens)}
        self._added = {entry["id"]: AddedToken(name, special=entry["special"]) for name, entry in added.items()}
        self._unknown: int = model["unk_id"]
        self._plain = {piece: number for piece, number in self._ids.items() if number not in self._added}
        own = [piece for piece in listed if piece[1] != NEVER and piece[0] not in added and piece[0] != BEYOND]
        self._numbers = [self._unknown, *(self._plain.get(piece, self._unknown) for piece, _ in own)]
        self._cutter = tokenizers.Tokenizer(models.Unigram([(_NONE, 0.0), *own], 0))
        self.table: str = charsmap(self._values["normalizer"])
        self.normalizer = rewriting(self.table)
        self.post_processor: Part | None = self._values["post_processor"]
        self.encode_special_tokens = True

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[Cut]:
        normal = [self._normal(text) for text in texts]
        encodings = self._cutter.encode_batch_fast(normal, add_special_tokens=False)
        return [self._numbered(text, row.ids) for text, row in zip(normal, encodings, strict=True)]

    def encode(self, text: str, add_special_tokens: bool = True) -> Cut:
        (inside,) = self.encode_batch_fast([text])
        if not add_special_tokens or self.post_processor is None:
            return inside
        ids: list[int] = []
        for step in self.post_processor["single"]:
            ids += inside.ids if "Sequence" in step else [self._ids[step["SpecialToken"]["id"]]]
        return Cut(ids)

    def _normal(self, text: str) -> str:
        rewritten = self.normalizer(text).replace(_NONE, _INSTEAD)
        return (SPACE + rewritten.replace(" ", SPACE)).rstrip(SPACE) if rewritten else ""

    def _numbered(self, text: str, places: list[int]) -> Cut:
        if 0 in places:
            return Cut([self._plain.get(piece, self._unknown) for piece in self._cutter.encode(text).tokens])
        return Cut([self._numbers[place] for place in places])

    def unknown(self, text: str) -> list[str]:
        """What in the text has no number, each once, in order."""
        pieces = dict.fromkeys(self._cutter.encode(self._normal(text)).tokens)
        return [piece.replace(SPACE, "") for piece in pieces if piece not in self._plain and piece != SPACE]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        special = self._added if skip_special_tokens else {}
        pieces = [self._tokens[number] for number in ids if 0 <= number < len(self._tokens) and number not in special]
        return "".join(pieces).replace(SPACE, " ").strip()

    def to_str(self, pretty: bool = False) -> str:
        return json.dumps(self._values, ensure_ascii=False, indent=2 if pretty else None)

    def scores(self) -> dict[str, float]:
        """The pieces that cuts are made of, also those without a number, and their log-probabilities."""
        listed = self._values["model"]["vocab"]
        apart = {BEYOND, *(str(token.content) for token in self._added.values())}
        return {piece: score for piece, score in listed if score != NEVER and piece not in apart}


def charsmap(normalizer: Part | None) -> str:
    """The table of characters inside a normalizer, in base64; empty where it has none, "-" where it is no text."""
    steps = normalizer["normalizers"] if normalizer and normalizer["type"] == "Sequence" else [normalizer or {}]
    table = next((step["precompiled_charsmap"] for step in steps if "precompiled_charsmap" in step), "")
    return table if isinstance(table, str) else "-"

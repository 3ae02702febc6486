"""Sentencepiece's unigram tokenization: of all ways to split a text into pieces of the vocabulary, the most likely one.

    x* = argmax over x_1 ... x_n = text of  sum_i log p(x_i)        Kudo 2018, arXiv 1804.10959

Marian's models (such as Helsinki-NLP's) have two such vocabularies, one for each language, and one list of ids for
both. So a tokenizer.json of this kind contains the pieces of both languages. Pieces of the other language have the
score `NEVER`, and no text is split into them; pieces without an id come after the token `BEYOND`, and become the
unknown token. As in Marian, a part of a text that is not a piece of this language gets the id of the other language,
if there is one. `Unigram` has the interface of the library's tokenizer.

First, a text is normalized with a table of characters, such as "ﬁ" to "fi" and a tab to a space:

    the table    size of the trie, trie (a double array: Aoe 1989, in the layout of darts-clone), zero-terminated texts
    a text       from left to right, the longest key that matches is replaced; other characters stay

`sentencepiece` does the same. The `tokenizers` library matches the shortest key in each grapheme, so that some letters
with two accents lose one; and it does not check the table. Here every node of the trie is checked once, so that no
lookup can leave its bounds.
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
_PLAIN = np.arange(0x20, 0x7F, dtype=np.uint32)  # printable ASCII
_NOT_ASCII, _ANY = re.compile(r"[^\x20-\x7e]"), re.compile(r"[\s\S]")
LONGEST_KEY = 64  # characters

Units = npt.NDArray[np.uint32]


class BadTable(ValueError):  # noqa: N818  (a property of the file, not an error in the program)
    """A table of characters that is not valid; the message says why."""


class Rewriting:
    """Normalizes a text with a table of characters, strips it, and replaces several spaces by one."""

    def __init__(self, data: bytes = b"") -> None:
        units, self._texts = _parts(data) if data else (np.zeros(256, dtype=np.uint32), b"\0")
        _check_trie(units, self._texts)
        self._units: list[int] = units.tolist()
        plain = _plain_beginnings(units)
        self._before, self._pattern = (0, _ANY) if plain is None else (plain, _NOT_ASCII)
        self._known: dict[str, bool] = {}  # whether a key begins with a character

    def __call__(self, text: str) -> str:
        return re.sub(" {2,}", " ", self.rewritten(text)).strip(" ")

    def rewritten(self, text: str) -> str:
        """The text normalized with the table alone. ASCII letters are looked up only if another character follows
        soon."""
        parts, done = [], 0
        while match := self._pattern.search(text, done):
            at = max(done, match.start() - self._before)
            parts.append(text[done:at])
            while at <= match.start():
                size, new = self._longest(text, at)
                parts.append(text[at] if new is None else new)
                at += size
            done = at
        return "".join([*parts, text[done:]])

    def _longest(self, text: str, begin: int) -> tuple[int, str | None]:
        """The length of the longest key at this position, and its replacement; None if no key matches."""
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
    """The normalization with a table in base64, as in tokenizer.json; raises BadTable if it is not valid."""
    if len(packed) > LARGEST * 4 // 3 + 4:
        raise BadTable(f"{len(packed):,} characters are too many for such a table")
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


def _check_trie(units: Units, texts: bytes) -> None:
    """Check every node once. References beyond the trie or its texts are refused, so that lookups need no checks."""
    reached = np.zeros(len(units), dtype=bool)
    bases, letters = _offsets(units[:1]), np.arange(1, 256, dtype=np.uint32)
    follows = (np.frombuffer(texts, dtype=np.uint8) & 0xC0) == 0x80  # not the first byte of a character
    while len(bases):
        if int((bases | 255).max()) >= len(units):
            raise BadTable("a node of the trie lies beyond its end")
        reached[bases] = True
        below, values = _children(units, bases, letters)
        places = units[values] & np.uint32(0x7FFFFFFF)
        if len(places) and (int(places.max()) >= len(texts) or bool(follows[places].any())):
            raise BadTable("a number of the trie refers to no text")
        bases = below[~reached[np.minimum(below, len(units) - 1)]]


def _children(units: Units, bases: Units, letters: Units) -> tuple[Units, Units]:
    """The bases of the child nodes, each once, and the positions of the values of those that end a key."""
    places = bases[:, None] ^ letters  # (nodes, letters)
    places = places[(units[places] & np.uint32(0x800000FF)) == letters]
    below = places ^ _offsets(units[places])
    ends = below[(units[places] >> 8 & 1).astype(bool)]
    if len(ends) and int(ends.max()) >= len(units):
        raise BadTable("a number of the trie lies beyond its end")
    return np.unique(below), np.unique(ends)


def _plain_beginnings(units: Units) -> int | None:
    """The largest number of ASCII letters with which a key begins; None if a key has only such letters, for example in
    a table that changes upper case to lower case."""
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
# two code points that are not characters: the first is the unknown piece, the second replaces the first in texts
_NONE, _INSTEAD = "\uffff", "\ufffe"


class TokenIds(NamedTuple):
    ids: list[int]


class ListedTokens:
    """The methods of the `tokenizers` library that look up tokens and ids."""

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
    """A tokenizer from the text of a tokenizer.json of this kind that has been checked (checks.py)."""

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
        self._segmenter = tokenizers.Tokenizer(models.Unigram([(_NONE, 0.0), *own], 0))
        self.table: str = charsmap(self._values["normalizer"])
        self.normalizer = rewriting(self.table)
        self.post_processor: Part | None = self._values["post_processor"]
        self.encode_special_tokens = True

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[TokenIds]:
        normal = [self._normal(text) for text in texts]
        encodings = self._segmenter.encode_batch_fast(normal, add_special_tokens=False)
        return [self._numbered(text, row.ids) for text, row in zip(normal, encodings, strict=True)]

    def encode(self, text: str, add_special_tokens: bool = True) -> TokenIds:
        (inside,) = self.encode_batch_fast([text])
        if not add_special_tokens or self.post_processor is None:
            return inside
        ids: list[int] = []
        for step in self.post_processor["single"]:
            ids += inside.ids if "Sequence" in step else [self._ids[step["SpecialToken"]["id"]]]
        return TokenIds(ids)

    def _normal(self, text: str) -> str:
        rewritten = self.normalizer(text).replace(_NONE, _INSTEAD)
        return (SPACE + rewritten.replace(" ", SPACE)).rstrip(SPACE) if rewritten else ""

    def _numbered(self, text: str, places: list[int]) -> TokenIds:
        if 0 in places:
            return TokenIds([self._plain.get(piece, self._unknown) for piece in self._segmenter.encode(text).tokens])
        return TokenIds([self._numbers[place] for place in places])

    def unknown(self, text: str) -> list[str]:
        """The parts of the text without an id, each once, in order."""
        pieces = dict.fromkeys(self._segmenter.encode(self._normal(text)).tokens)
        return [piece.replace(SPACE, "") for piece in pieces if piece not in self._plain and piece != SPACE]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        special = self._added if skip_special_tokens else {}
        pieces = [self._tokens[number] for number in ids if 0 <= number < len(self._tokens) and number not in special]
        return "".join(pieces).replace(SPACE, " ").strip()

    def to_str(self, pretty: bool = False) -> str:
        return json.dumps(self._values, ensure_ascii=False, indent=2 if pretty else None)

    def scores(self) -> dict[str, float]:
        """The log-probabilities of the pieces of this language, including those without an id."""
        listed = self._values["model"]["vocab"]
        apart = {BEYOND, *(str(token.content) for token in self._added.values())}
        return {piece: score for piece, score in listed if score != NEVER and piece not in apart}


def charsmap(normalizer: Part | None) -> str:
    """The table of characters in a normalizer, in base64; empty if there is none, "-" if it is not a string."""
    steps = normalizer["normalizers"] if normalizer and normalizer["type"] == "Sequence" else [normalizer or {}]
    table = next((step["precompiled_charsmap"] for step in steps if "precompiled_charsmap" in step), "")
    return table if isinstance(table, str) else "-"

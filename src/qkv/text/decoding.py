"""Decodes ids to text while they are generated, and finds the words that tokens belong to.

A stream returns text as soon as later tokens cannot change it; all its parts together are exactly the result of
`decode` for all ids. A token of a byte-level vocabulary may end inside a character, whose bytes are held back until it
is complete. The time for a token does not grow with the length of the text. With stop strings, text that may be the
beginning of one is held back.

A word is a run of letters and digits, or one other character, as in `pipelines.WORD`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.text.pipelines import ONLY_READ, WORD
from qkv.text.tokenizer import Tokenizer


class StreamDecoder:
    def __init__(self, tokenizer: Tokenizer, before: int | None = None) -> None:
        """`before` is the token before the text; it decides whether a space comes first."""
        self._tokenizer = tokenizer
        # like the library, this decoder gives one U+FFFD for each maximal invalid sequence, as Unicode recommends
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._before = before
        # all ids, for a user-defined tokenizer: it decodes them together
        self._ids = [] if before is None else [before]
        self._shown = tokenizer.decode(self._ids) if tokenizer.kind == "own" else ""

    def push(self, number: int) -> str:
        """Take a token, and return the text that is now complete; empty after a special token or within a character."""
        if self._tokenizer.is_special(number) or not 0 <= number < self._tokenizer.vocabulary:
            return ""
        if self._tokenizer.kind == "own":
            self._ids.append(number)
            return self._fresh(self._tokenizer.decode(self._ids).rstrip("\ufffd"))
        if self._tokenizer.kind == "bpe":
            return self._bytes.decode(self._tokenizer.spelled(number))
        if self._tokenizer.kind in ONLY_READ:
            spelled = self._tokenizer.spelled(number)
            first, self._before = self._before is None, number
            return self._bytes.decode(spelled.removeprefix(b" ") if first else spelled)
        if self._before is None:
            text = self._tokenizer.decode([number])
        else:
            # the space between two tokens does not depend on later tokens
            text = self._tokenizer.decode([self._before, number])
            text = text[len(self._tokenizer.decode([self._before])) :]
        self._before = number
        return text

    def _fresh(self, text: str) -> str:
        """The new end of a text, without an incomplete character at its very end."""
        if not text.startswith(self._shown):
            return ""
        fresh, self._shown = text[len(self._shown) :], text
        return fresh

    def finish(self) -> str:
        """The text that was held back: an incomplete character at the very end."""
        if self._tokenizer.kind == "own":
            return self._fresh(self._tokenizer.decode(self._ids))
        return self._bytes.decode(b"", final=True)


class StoppedStream:
    """Decodes tokens up to the first stop string, which is left out."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), before: int | None = None) -> None:
        self.decoder = StreamDecoder(tokenizer, before)
        self.stop = [word for word in stop if word]
        self.held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        return self._show(self.decoder.push(token), last=False)

    def finish(self) -> str:
        return self._show(self.decoder.finish(), last=True)

    def _show(self, piece: str, last: bool) -> str:
        if self.stopped:
            return ""
        text = self.held + piece
        places = [place for word in self.stop if (place := text.find(word)) >= 0]
        if places:
            self.stopped, self.held = True, ""
            return text[: min(places)]
        keep = 0 if last else max((self._overlap(text, word) for word in self.stop), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]

    @staticmethod
    def _overlap(text: str, word: str) -> int:
        """The length of the longest end of `text` with which a stop string begins."""
        longest = min(len(text), len(word) - 1)
        return next((size for size in range(longest, 0, -1) if text.endswith(word[:size])), 0)


_WORD = re.compile(WORD)


@dataclass(frozen=True)
class Words:
    pieces: list[str]
    """As people read them."""
    places: list[int]
    """The number of the word of each token; -1 for special tokens and white space."""
    words: list[str]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """The words of a tokenized text. Byte-level tokens are decoded together and the text is split into words; tokens of
    other kinds show whether they continue a word."""
    pieces = [tokenizer.piece(number) for number in ids]
    if tokenizer.kind in ("words", "wordpiece"):
        return _by_piece(tokenizer, ids, pieces)
    spelled = [b"" if tokenizer.is_special(number) else _bytes(tokenizer, number) for number in ids]
    text = b"".join(spelled).decode("utf-8", errors="surrogateescape")  # a model may generate part of a character
    matches = [match for match in _WORD.finditer(text) if match[0].strip()]
    borders = [(len(_encoded(text[: match.start()])), len(_encoded(text[: match.end()]))) for match in matches]
    places, at, word = [], 0, 0
    for part in spelled:
        # the word that contains the first character of the token that is not white space
        begin = at + len(part) - len(part.lstrip())
        while word < len(borders) and borders[word][1] <= begin:
            word += 1
        inside = bool(part.strip()) and word < len(borders) and borders[word][0] <= begin
        places.append(word if inside else -1)
        at += len(part)
    return Words(pieces, places, [_encoded(match[0]).decode("utf-8", errors="backslashreplace") for match in matches])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _bytes(tokenizer: Tokenizer, number: int) -> bytes:
    return tokenizer.token(number).encode() if tokenizer.kind == "characters" else tokenizer.spelled(number)


def _by_piece(tokenizer: Tokenizer, ids: Sequence[int], pieces: list[str]) -> Words:
    places: list[int] = []
    words: list[str] = []
    for number, piece in zip(ids, pieces, strict=True):
        special = tokenizer.is_special(number) and number != tokenizer.unknown
        if special or not piece.strip():
            places.append(-1)
            continue
        if tokenizer.kind == "wordpiece" and piece.startswith("##") and words:
            words[-1] += piece[2:]
        else:
            words.append(piece)
        places.append(len(words) - 1)
    return Words(pieces, places, words)

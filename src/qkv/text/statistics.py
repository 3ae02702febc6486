"""What a corpus looks like, counted while it streams by: the ground on which `auto` chooses a tokenizer.

Which word each piece of a text is part of. A word is letters and digits, or one other mark, as `pipelines.WORD`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.text.pipelines import WORD
from qkv.text.tokenizer import Tokenizer

# words are counted in the first part of a corpus only: enough to tell a closed little language from open text
WORDS_SAMPLE = 4_000_000


@dataclass(frozen=True)
class Statistics:
    bytes: int
    characters: int
    distinct_characters: int
    lines: int
    longest_line: int
    words: int
    """Words and punctuation marks in the sample, see WORDS_SAMPLE."""
    distinct_words: int


class Counting:
    """Feed it the text in pieces; cut them between words, or words on the cut count as two."""

    def __init__(self) -> None:
        self.bytes = self.characters = self.lines = self.longest_line = 0
        self._line = 0
        self.seen: set[str] = set()
        self.counts: Counter[str] = Counter()
        self._sampled = 0
        self._word = re.compile(WORD)

    def add(self, text: str, ends: bool = False) -> None:
        """The next piece; `ends` says that a document ends here, which ends its line as well."""
        self.bytes += len(text.encode())
        self.characters += len(text)
        self.seen.update(text)
        self._measure_lines(text, ends)
        if self._sampled < WORDS_SAMPLE:
            sample = text[: WORDS_SAMPLE - self._sampled]
            self._sampled += len(sample)
            self.counts.update(word for word in self._word.findall(sample) if word != "\n")

    def _measure_lines(self, text: str, ends: bool) -> None:
        first, newline, rest = text.partition("\n")
        self._line += len(first)
        if newline:
            self.lines += text.count("\n")
            middle, _, last = rest.rpartition("\n")
            longest = max(map(len, middle.split("\n")))
            self.longest_line = max(self.longest_line, self._line, longest)
            self._line = len(last)
        self.longest_line = max(self.longest_line, self._line)
        if ends:
            self.lines += self._line > 0
            self._line = 0

    def statistics(self) -> Statistics:
        return Statistics(
            bytes=self.bytes,
            characters=self.characters,
            distinct_characters=len(self.seen),
            lines=self.lines,
            longest_line=self.longest_line,
            words=self.counts.total(),
            distinct_words=len(self.counts),
        )


_WORD = re.compile(WORD)


@dataclass(frozen=True)
class Words:
    pieces: list[str]
    """As people read them."""
    places: list[int]
    """Of each piece the number of its word; -1 for special tokens and white space."""
    words: list[str]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """Pieces that spell bytes are cut by the text they spell together; others say themselves where a word goes on."""
    pieces = [tokenizer.piece(number) for number in ids]
    if tokenizer.kind in ("words", "wordpiece"):
        return _by_piece(tokenizer, ids, pieces)
    spelled = [b"" if tokenizer.is_special(number) else _bytes(tokenizer, number) for number in ids]
    text = b"".join(spelled).decode("utf-8", errors="surrogateescape")  # a model may write half a character
    found = [match for match in _WORD.finditer(text) if match[0].strip()]
    borders = [(len(_encoded(text[: each.start()])), len(_encoded(text[: each.end()]))) for each in found]
    places, at, word = [], 0, 0
    for part in spelled:
        # the word in which the piece has its first letter; white space before it belongs to none
        begin = at + len(part) - len(part.lstrip())
        while word < len(borders) and borders[word][1] <= begin:
            word += 1
        inside = bool(part.strip()) and word < len(borders) and borders[word][0] <= begin
        places.append(word if inside else -1)
        at += len(part)
    return Words(pieces, places, [_encoded(each[0]).decode("utf-8", errors="backslashreplace") for each in found])


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

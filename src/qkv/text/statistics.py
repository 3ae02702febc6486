"""What a corpus looks like, counted while it streams by: the ground on which `auto` chooses a tokenizer."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from qkv.text.pipelines import WORD

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

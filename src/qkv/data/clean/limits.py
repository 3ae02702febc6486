"""How far a document may go before a filter drops it: the options of `qkv data clean`, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qkv.errors import ConfigError

LONGEST = 10_000_000
"""Documents are judged whole and held in memory for it. A row of .jsonl that is longer could not be read again."""

LOOSEST = 0.7
"""Documents that are less similar than this are hardly ever compared."""
Skippable = Literal[
    "too-short",
    "broken",
    "few-letters",
    "signs",
    "short-words",
    "long-words",
    "noise",
    "markup",
    "bullets",
    "ellipses",
    "repeated-lines",
    "repeated-words",
    "compressible",
    "copy",
    "near-copy",
]
"""The filters that may be left out: all but too-long, for memory is bounded."""


@dataclass(frozen=True)
class Limits:
    """What a document may be like."""

    max_characters: int = LONGEST
    """too-long: most characters."""
    min_words: int = 1
    """too-short: fewest words; in a script without spaces each character is one."""
    max_broken: float = 0.01
    """broken: largest share of control, private-use and replacement characters."""
    min_letters: float = 0.15
    """few-letters: smallest share of letters, white space left aside."""
    max_signs: float = 0.3
    """signs: most # and ellipses for each word (Gopher: 0.1)."""
    min_word_length: float = 2.0
    """short-words: smallest mean length of a word (Gopher: 3)."""
    max_word_length: float = 30.0
    """long-words: largest mean length of a word (Gopher: 10)."""
    max_consonants: float = 0.5
    """noise: largest share of two consonants among neighbouring Latin letters."""
    max_markup: float = 0.3
    """markup: largest share of characters in tags and entities of HTML."""
    max_bullets: float = 0.9
    """bullets: largest share of lines that begin with one (as Gopher)."""
    max_ellipses: float = 0.3
    """ellipses: largest share of lines that end with one (as Gopher)."""
    max_repeated_lines: float = 0.4
    """repeated-lines: largest share of text in lines that stood there before (Gopher: 0.2)."""
    max_repeated_words: float = 0.3
    """repeated-words: largest share of words in the most frequent run of 2, 3 or 4 (Gopher: 0.16 to 0.2)."""
    min_compressed: float = 0.1
    """compressible: smallest size after compression, as a share of the size before."""
    similarity: float = 0.8
    """near-copy: from this share of common runs of 3 words on, a document goes (as Lee et al.)."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value >= 0:
                raise ConfigError(f"--{name.replace('_', '-')} {value:g}: expected a number that is not negative.")
        if not 1 <= self.max_characters <= LONGEST:
            raise ConfigError(f"--max-characters {self.max_characters}: expected 1 to {LONGEST:,}.")
        if not LOOSEST <= self.similarity <= 1:
            keep = "--skip near-copy keeps them all"
            raise ConfigError(f"--similarity {self.similarity:g}: expected a share from {LOOSEST} to 1; {keep}.")

"""Which documents of a crawl are text worth learning from: a filter is a measure of a document and a limit for it.

The filters are those of Gopher (Rae et al. 2021, appendix A) and C4 (Raffel et al. 2020, section 2.2), made milder:
there a document is a web page, here it may be a line or a paragraph of a good book. A document that is too short for a
measure passes. The limits, which are the options of `qkv data clean`, were chosen on real texts:
docs/decisions/0005-cleaning.md has the figures.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from qkv.data.clean.measures import Counts, Measures
from qkv.errors import ConfigError

LONGEST = 10_000_000
"""Documents are measured whole and held in memory for it. A row of .jsonl that is longer could not be read again."""

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


Values = npt.NDArray[np.float64]

# what a document must have before its shares of words, runs of words, lines, bytes and Latin letters say something
FEW_WORDS, MORE_WORDS, FEW_LINES, FEW_BYTES, FEW_LETTERS = 10, 50, 4, 1000, 40
BEGINNING = 2**15
"""How many bytes are compressed: as far as deflate looks back."""

_MARKUP = re.compile(
    r"</[A-Za-z][^<>]*>"
    r"|<[!?][^<>]*>"
    r"|<[A-Za-z][\w:-]*\s+[\w:-]+=[^<>]*>"
    r"|<(?:[abiup]|br|dd|div|dl|dt|em|h[1-6]|head|hr|html|img|li|ol|pre|script|span|strong|style|table|td|th|tr|ul)\s*/?>"
    r"|&(?:[A-Za-z]{2,8}|#\d{1,6}|#x[0-9A-Fa-f]{1,6});",
    re.IGNORECASE,
)
_BULLETS = frozenset("-*•‣⁃◦●○▪▫■□►▶·")
_ELLIPSES = ("...", "…")


class MeasuredBatch:
    """Some documents and what was counted in them."""

    def __init__(self, texts: Sequence[str], characters: Counts, counts: Measures) -> None:
        self.texts, self.characters, self.counts = texts, characters, counts

    @cached_property
    def lines(self) -> Values:
        return np.array([line_shares(text) for text in self.texts])


@dataclass(frozen=True)
class Filter:
    name: str
    limit: str
    """The field of `Limits`; its first word says whether it is the least or the most that passes."""
    measure: Callable[[MeasuredBatch], Values]

    def drops(self, values: Values, limits: Limits) -> npt.NDArray[np.bool_]:
        """Which documents go. NaN, a measure that says nothing, passes."""
        bound = getattr(limits, self.limit)
        return values < bound if self.limit.startswith("min") else values > bound


def share(part: Counts, whole: Counts, least: int = 1) -> Values:
    """part / whole, and NaN where the whole is smaller than `least`."""
    return np.where(whole >= least, part / np.maximum(whole, 1), np.nan)


def line_shares(text: str) -> tuple[float, float, float]:
    """Shares of lines that begin with a bullet, of lines that end with an ellipsis, of text in lines seen before."""
    if text.count("\n") < FEW_LINES - 1:
        return np.nan, np.nan, np.nan
    lines = [bare for line in text.split("\n") if (bare := line.strip())]
    if len(lines) < FEW_LINES:
        return np.nan, np.nan, np.nan
    bullets = sum([line[0] in _BULLETS for line in lines])
    ellipses = sum([line.endswith(_ELLIPSES) for line in lines])
    return bullets / len(lines), ellipses / len(lines), 1 - sum(map(len, set(lines))) / sum(map(len, lines))


def markup_share(text: str) -> float:
    """The share of characters in tags and entities. A bare `<unk>` is neither."""
    if "<" not in text and "&" not in text:
        return 0.0
    return sum(match.end() - match.start() for match in _MARKUP.finditer(text)) / len(text)


def compressed_share(text: str) -> float:
    """How small the beginning of a text becomes."""
    beginning = text[:BEGINNING].encode("utf-8", "replace")[:BEGINNING]
    if len(beginning) < FEW_BYTES:
        return np.nan
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return (len(packer.compress(beginning)) + len(packer.flush())) / len(beginning)


def word_length(batch: MeasuredBatch, least: int) -> Values:
    """The mean length of words where spaces separate most of them; NaN for Chinese text with a few names in it."""
    ratio = share(batch.counts.spaced_characters, batch.counts.spaced_words, least)
    return np.where(2 * batch.counts.spaced_words >= batch.counts.words, ratio, np.nan)


def consonants(batch: MeasuredBatch) -> Values:
    """The share of two consonants among neighbouring letters, where the text is Latin for the most part."""
    ratio = share(batch.counts.consonant_pairs, batch.counts.pairs, FEW_LETTERS)
    return np.where(2 * batch.counts.pairs >= batch.counts.letters, ratio, np.nan)


def repeated_words(batch: MeasuredBatch) -> Values:
    """The share of words in the most frequent run of 2, 3 or 4 words, whichever is largest."""
    return np.minimum(share(batch.counts.top_grams.max(axis=1), batch.counts.words, MORE_WORDS), 1.0)


FILTERS = (
    Filter("too-long", "max_characters", lambda batch: batch.characters.astype(np.float64)),
    Filter("too-short", "min_words", lambda batch: batch.counts.words.astype(np.float64)),
    Filter("broken", "max_broken", lambda batch: share(batch.counts.broken, batch.counts.visible)),
    Filter("few-letters", "min_letters", lambda batch: share(batch.counts.letters, batch.counts.visible)),
    Filter("signs", "max_signs", lambda batch: share(batch.counts.signs, batch.counts.words, FEW_WORDS)),
    Filter("short-words", "min_word_length", lambda batch: word_length(batch, FEW_WORDS)),
    Filter("long-words", "max_word_length", lambda batch: word_length(batch, 1)),
    Filter("noise", "max_consonants", consonants),
    Filter("markup", "max_markup", lambda batch: np.array([markup_share(text) for text in batch.texts])),
    Filter("bullets", "max_bullets", lambda batch: batch.lines[:, 0]),
    Filter("ellipses", "max_ellipses", lambda batch: batch.lines[:, 1]),
    Filter("repeated-lines", "max_repeated_lines", lambda batch: batch.lines[:, 2]),
    Filter("repeated-words", "max_repeated_words", repeated_words),
    Filter("compressible", "min_compressed", lambda batch: np.array([compressed_share(text) for text in batch.texts])),
)

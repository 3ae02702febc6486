"""Decides which crawled documents are worth learning from: a filter is a measure of a document and a limit for it.

The filters are those of Gopher (Rae et al. 2021, appendix A) and C4 (Raffel et al. 2020, section 2.2), but milder:
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

MAX_CHARACTERS = 10_000_000
"""Documents are held in memory to be measured, and a longer row of a .jsonl could not be read again."""

MIN_SIMILARITY = 0.7
"""Less similar documents rarely share a band, so they are rarely compared."""
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
"""The filters that may be left out: all except too-long, which bounds the memory."""


@dataclass(frozen=True)
class Limits:
    """The limits of the filters, which are options of `qkv data clean`."""

    max_characters: int = MAX_CHARACTERS
    """too-long: the largest number of characters."""
    min_words: int = 1
    """too-short: the smallest number of words; in a script without spaces, each character is a word."""
    max_broken: float = 0.01
    """broken: largest share of control, private-use and replacement characters."""
    min_letters: float = 0.15
    """few-letters: smallest share of letters among characters other than white space."""
    max_signs: float = 0.3
    """signs: the largest number of # and ellipses per word (Gopher: 0.1)."""
    min_word_length: float = 2.0
    """short-words: smallest mean length of a word (Gopher: 3)."""
    max_word_length: float = 30.0
    """long-words: largest mean length of a word (Gopher: 10)."""
    max_consonants: float = 0.5
    """noise: largest share of pairs of consonants among pairs of adjacent Latin letters."""
    max_markup: float = 0.3
    """markup: largest share of characters in tags and entities of HTML."""
    max_bullets: float = 0.9
    """bullets: largest share of lines that begin with a bullet (as in Gopher)."""
    max_ellipses: float = 0.3
    """ellipses: largest share of lines that end with an ellipsis (as in Gopher)."""
    max_repeated_lines: float = 0.4
    """repeated-lines: largest share of text in lines that repeat earlier ones (Gopher: 0.2)."""
    max_repeated_words: float = 0.3
    """repeated-words: largest share of words in the most frequent 2-, 3- or 4-gram (Gopher: 0.16 to 0.2)."""
    min_compressed: float = 0.1
    """compressible: smallest size after compression, as a share of the size before."""
    similarity: float = 0.8
    """near-copy: a document with at least this share of common 3-grams is dropped (as in Lee et al.)."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value >= 0:
                raise ConfigError(f"--{name.replace('_', '-')} {value:g}: expected a number that is not negative.")
        if not 1 <= self.max_characters <= MAX_CHARACTERS:
            raise ConfigError(f"--max-characters {self.max_characters}: expected 1 to {MAX_CHARACTERS:,}.")
        if not MIN_SIMILARITY <= self.similarity <= 1:
            keep = "--skip near-copy keeps them all"
            raise ConfigError(f"--similarity {self.similarity:g}: expected a share from {MIN_SIMILARITY} to 1; {keep}.")


Values = npt.NDArray[np.float64]

# a measure of words, n-grams, lines, compression or Latin letters is NaN for documents that have fewer of these
MIN_WORDS, MIN_NGRAM_WORDS, MIN_LINES, MIN_BYTES, MIN_LETTERS = 10, 50, 4, 1000, 40
COMPRESSED_BYTES = 2**15
"""How many bytes of a document are compressed: the size of deflate's window."""

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
    """Several documents with their counts."""

    def __init__(self, texts: Sequence[str], characters: Counts, counts: Measures) -> None:
        self.texts, self.characters, self.counts = texts, characters, counts

    @cached_property
    def lines(self) -> Values:
        return np.array([line_shares(text) for text in self.texts])


@dataclass(frozen=True)
class Filter:
    name: str
    limit: str
    """The field of `Limits`; min_ or max_ in its name says which values pass."""
    measure: Callable[[MeasuredBatch], Values]

    def drops(self, values: Values, limits: Limits) -> npt.NDArray[np.bool_]:
        """Which documents are dropped. NaN, the value of a document that is too short for the measure, passes."""
        bound = getattr(limits, self.limit)
        return values < bound if self.limit.startswith("min") else values > bound


def share(part: Counts, whole: Counts, least: int = 1) -> Values:
    """part / whole; NaN where the whole is smaller than `least`."""
    return np.where(whole >= least, part / np.maximum(whole, 1), np.nan)


def line_shares(text: str) -> tuple[float, float, float]:
    """Shares of lines that begin with a bullet, of lines that end with an ellipsis, of text in repeated lines."""
    if text.count("\n") < MIN_LINES - 1:
        return np.nan, np.nan, np.nan
    lines = [bare for line in text.split("\n") if (bare := line.strip())]
    if len(lines) < MIN_LINES:
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
    """The compressed size of the beginning of a text, as a share of its size."""
    beginning = text[:COMPRESSED_BYTES].encode("utf-8", "replace")[:COMPRESSED_BYTES]
    if len(beginning) < MIN_BYTES:
        return np.nan
    compressor = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return (len(compressor.compress(beginning)) + len(compressor.flush())) / len(beginning)


def word_length(batch: MeasuredBatch, least: int) -> Values:
    """The mean length of words, if spaces separate most of them; NaN for example for Chinese text with a few names."""
    ratio = share(batch.counts.spaced_characters, batch.counts.spaced_words, least)
    return np.where(2 * batch.counts.spaced_words >= batch.counts.words, ratio, np.nan)


def consonants(batch: MeasuredBatch) -> Values:
    """The share of pairs of consonants among pairs of adjacent letters; NaN if the text is not mostly Latin."""
    ratio = share(batch.counts.consonant_pairs, batch.counts.pairs, MIN_LETTERS)
    return np.where(2 * batch.counts.pairs >= batch.counts.letters, ratio, np.nan)


def repeated_words(batch: MeasuredBatch) -> Values:
    """The share of words in the most frequent 2-, 3- or 4-gram, whichever is largest."""
    return np.minimum(share(batch.counts.top_grams.max(axis=1), batch.counts.words, MIN_NGRAM_WORDS), 1.0)


FILTERS = (
    Filter("too-long", "max_characters", lambda batch: batch.characters.astype(np.float64)),
    Filter("too-short", "min_words", lambda batch: batch.counts.words.astype(np.float64)),
    Filter("broken", "max_broken", lambda batch: share(batch.counts.broken, batch.counts.visible)),
    Filter("few-letters", "min_letters", lambda batch: share(batch.counts.letters, batch.counts.visible)),
    Filter("signs", "max_signs", lambda batch: share(batch.counts.signs, batch.counts.words, MIN_WORDS)),
    Filter("short-words", "min_word_length", lambda batch: word_length(batch, MIN_WORDS)),
    Filter("long-words", "max_word_length", lambda batch: word_length(batch, 1)),
    Filter("noise", "max_consonants", consonants),
    Filter("markup", "max_markup", lambda batch: np.array([markup_share(text) for text in batch.texts])),
    Filter("bullets", "max_bullets", lambda batch: batch.lines[:, 0]),
    Filter("ellipses", "max_ellipses", lambda batch: batch.lines[:, 1]),
    Filter("repeated-lines", "max_repeated_lines", lambda batch: batch.lines[:, 2]),
    Filter("repeated-words", "max_repeated_words", repeated_words),
    Filter("compressible", "min_compressed", lambda batch: np.array([compressed_share(text) for text in batch.texts])),
)

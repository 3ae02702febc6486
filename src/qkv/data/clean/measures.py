"""Measures of documents: counts of their characters and words, and a hash of each word.

All documents of a batch are measured at once with numpy. They are first split into parts of bounded length, whose
counts are added, so a document of any length takes no more memory than its text.

A word is a run of characters between spaces, without case and punctuation, or one character of a script without spaces,
so that the same limits fit Chinese, Japanese or Thai text and English. The kind of a character is one byte of flags,
looked up in a table of the first 0x20000 code points; those above count as Han. A word's hash is a polynomial of its
characters, the sum of c_k B^k modulo 2^64: a running sum over the text gives all of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import numpy.typing as npt

from qkv.data.identity import Keys, fmix64
from qkv.data.tokens import Cutter

Counts = npt.NDArray[np.int64]
SPACE, WORD, LETTER, UNSPACED, LATIN, VOWEL, BROKEN, SIGN = (1 << bit for bit in range(8))
"""SPACE separates words; WORD is a letter, mark or digit; LETTER a letter or a mark on one; UNSPACED a letter of a
script without spaces; LATIN a Latin letter, VOWEL a Latin vowel; BROKEN no text should contain; SIGN is # or …."""

Flags = npt.NDArray[np.uint8]

# code points from here on count as Han, because nearly all of them are
_LISTED = 0x20000
# Thai, Lao; Myanmar; Khmer; Tai scripts; Balinese; Han, kana, bopomofo, Yi; Javanese, Myanmar, Tai Viet; Han; kana
_UNSPACED = [
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x1950, 0x19DF),
    (0x1A20, 0x1B7F),
    (0x2E80, 0x312F),
    (0x31A0, 0x31FF),
    (0x3400, 0xA4CF),
    (0xA980, 0xAADF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x16FE0, 0x18CFF),
    (0x1AFF0, 0x1B2FF),
]
# signs that separate words in Tibetan and Ethiopic, and the zero-width space
_WORD_SEPARATORS = "\u0f0b\u0f0c\u1361\u200b"
# Latin vowels without a decomposition into a plain letter and an accent
_MORE_VOWELS = "æœøıəɛɔɩʊɨʉɐɑɪ"

PART = 2**18
NGRAM_SIZES = (2, 3, 4)

_BASE = 0x9E3779B97F4A7C15
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_THIRTY_TWO = np.uint64(32)


def flags(codes: npt.NDArray[np.uint32]) -> Flags:
    """The flags of every code point."""
    return _table()[np.minimum(codes, _LISTED)]


@cache
def _table() -> Flags:
    table = np.array([_flags(chr(code)) for code in range(_LISTED)] + [WORD | LETTER | UNSPACED], dtype=np.uint8)
    for first, last in _UNSPACED:
        part = table[first : last + 1]
        part[(part & LETTER) != 0] |= UNSPACED
    return table


def _flags(character: str) -> int:
    kind = unicodedata.category(character)
    if character in "\ufffd\ufeff" or kind in ("Co", "Cs") or (kind == "Cc" and character not in "\t\n\x0b\x0c\r\x85"):
        return BROKEN
    if character.isspace() or character in _WORD_SEPARATORS:
        return SPACE
    if character in "#…":
        return SIGN
    if kind == "Nd":
        return WORD
    if kind[0] not in "LM":
        return 0
    return WORD | LETTER | _latin(character)


def _latin(character: str) -> int:
    if ord(character) >= 0x2E80 or "LATIN" not in unicodedata.name(character, ""):
        return 0
    plain = unicodedata.normalize("NFKD", character)[0].lower()
    return LATIN | (VOWEL if plain in "aeiouy" or plain in _MORE_VOWELS else 0)


@dataclass(frozen=True)
class Measures:
    """Counts of several documents, or of parts of documents."""

    visible: Counts
    """Characters that are not white space."""
    letters: Counts
    pairs: Counts
    """Pairs of adjacent Latin letters."""
    consonant_pairs: Counts
    """Pairs of adjacent Latin consonants."""
    broken: Counts
    """Control, private-use and replacement characters, surrogates and byte order marks."""
    signs: Counts
    """Runs of # and …, and every "..."."""
    words: Counts
    spaced_words: Counts
    spaced_characters: Counts
    """Letters and digits of the words that spaces separate."""
    top_grams: Counts
    """The number of words in occurrences of the most frequent n-gram of a part, summed; a column per n-gram size."""


@dataclass(frozen=True)
class HashedWords:
    """The hashes of the words of several parts, part by part."""

    hashes: Keys
    owner: Counts
    """The index of the part that each word belongs to."""


def measure_documents(texts: Sequence[str]) -> Iterator[tuple[Measures, HashedWords, Counts]]:
    """Measure documents in groups of parts, each with the index in `texts` of the document of every part."""
    group: list[str] = []
    owners: list[int] = []
    size = 0
    for number, text in enumerate(texts):
        for part in [text] if len(text) < PART else parts(text):
            if group and size + len(part) > PART:
                yield *measure(group), np.array(owners)
                group, owners, size = [], [], 0
            group.append(part)
            owners.append(number)
            size += len(part) + 1
    if group:
        yield *measure(group), np.array(owners)


def parts(text: str) -> Iterator[str]:
    """Split a long text into parts, between words if it has spaces."""
    return (part for part, _ in Cutter(PART).parts(text, True))


def document_totals(measures: Sequence[Measures], owner: Counts) -> Measures:
    """The counts of documents, from those of groups of their parts; `owner` is the document of each part."""
    heads = np.flatnonzero(np.diff(owner, prepend=-1))

    def add(name: str) -> Counts:
        counts = np.concatenate([getattr(group, name) for group in measures])
        return counts if len(heads) == len(owner) else np.add.reduceat(counts, heads, axis=0)

    return Measures(**{field.name: add(field.name) for field in fields(Measures)})


def measure(texts: Sequence[str]) -> tuple[Measures, HashedWords]:
    """Measure texts that are short enough to be measured together; return their counts and words."""
    lowered = [text.lower() for text in texts]
    ends = np.cumsum([len(text) + 1 for text in lowered])  # a line end separates them
    codes = np.frombuffer("\n".join([*lowered, ""]).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = flags(codes)
    starts = np.concatenate(([0], ends[:-1]))

    def count(mask: npt.NDArray[np.bool_]) -> Counts:
        return np.add.reduceat(mask, starts, dtype=np.int64)

    def has(flag: int) -> npt.NDArray[np.bool_]:
        return (kinds & flag) != 0

    latin, consonants = has(LATIN), has(LATIN) & ~has(VOWEL)
    positions = np.flatnonzero(kinds & WORD)
    first = _word_starts(kinds, positions)
    words = HashedWords(_hashes(codes[positions], first), np.searchsorted(ends, positions[first], side="right"))
    spaced = (kinds[positions[first]] & UNSPACED) == 0
    lengths = np.diff(np.append(first, len(positions)))
    number = len(texts)
    dots = np.array([text.count("...") for text in texts])
    return Measures(
        visible=count(~has(SPACE)),
        letters=count(has(LETTER)),
        pairs=count(latin & np.roll(latin, 1)),
        consonant_pairs=count(consonants & np.roll(consonants, 1)),
        broken=count(has(BROKEN)),
        signs=count(has(SIGN) & ~np.roll(has(SIGN), 1)) + dots,
        words=np.bincount(words.owner, minlength=number),
        spaced_words=np.bincount(words.owner[spaced], minlength=number),
        spaced_characters=np.bincount(words.owner, spaced * lengths, minlength=number).astype(np.int64),
        top_grams=np.stack([size * _most_frequent(words, size, number) for size in NGRAM_SIZES], axis=1),
    ), words


def _word_starts(kinds: Flags, positions: Counts) -> Counts:
    """Which of the characters of words, at these positions, begin a word."""
    spaces = (kinds & SPACE) != 0
    alone = (kinds & UNSPACED) != 0
    begins = ~spaces
    begins[1:] &= spaces[:-1] | alone[:-1] | alone[1:]
    token = np.cumsum(begins)[positions]
    return np.flatnonzero(np.diff(token, prepend=0))


def _hashes(codes: npt.NDArray[np.uint32], first: Counts) -> Keys:
    powers, inverses = _powers()
    if not len(first):
        return np.zeros(0, dtype=np.uint64)
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum((codes + np.uint64(1)) * _SPREAD * powers[: len(codes)], out=sums[1:])
    ends = np.append(first[1:], len(codes))
    return fmix64((sums[ends] - sums[first]) * inverses[first])


@cache
def _powers() -> tuple[Keys, Keys]:
    """B^k and B^-k modulo 2^64: B is odd, so it has an inverse."""

    def of(base: int) -> Keys:
        factors = np.full(2 * PART + 2, base, dtype=np.uint64)  # lower case may be twice as long as upper case
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return of(_BASE), of(pow(_BASE, -1, 2**64))


def n_grams(words: HashedWords, size: int) -> tuple[Keys, npt.NDArray[np.bool_]]:
    """A hash of the n-gram that begins at each word, and whether it is complete: the end of a part cuts some off."""
    hashes = words.hashes.copy()
    complete = np.ones(len(hashes), dtype=bool)
    for step in range(1, size):
        same_part = words.owner[step:] == words.owner[:-step]
        complete[:-step] &= same_part
        complete[-step:] = False
        hashes *= _SPREAD
        hashes[:-step] += np.where(same_part, words.hashes[step:], np.uint64(0))
    return fmix64(hashes), complete


def _most_frequent(words: HashedWords, size: int, number: int) -> Counts:
    """How often the most frequent n-gram of each part occurs."""
    most = np.zeros(number, dtype=np.int64)
    hashes, complete = n_grams(words, size)
    if not complete.any():
        return most
    # the part is in the upper bits, so that one sort orders all parts
    keys = np.sort((words.owner[complete].astype(np.uint64) << _THIRTY_TWO) | (hashes[complete] >> _THIRTY_TWO))
    begin = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    owner = (keys[begin] >> _THIRTY_TWO).astype(np.int64)
    runs = np.diff(np.append(begin, len(keys)))
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    most[owner[heads]] = np.maximum.reduceat(runs, heads)
    return most

"""The n-grams of texts as 64-bit keys, from their characters: all texts of a batch at once, without a Python loop.

    words      w_t, w_{t-1} w_t, ...          a word is a run of letters and digits; any other character is its own word
    letters    2 to N letters of a word, with the blank before and behind it as a letter
    pairs      the n-grams of the second text have keys of their own, and so have the words that both texts have

A key is a hash: Σ_p v(c_p) · M^p over the letters, modulo 2⁶⁴ (Karp and Rabin 1987), mixed (splitmix64, Steele et al.
2014). Two of a million n-grams have the same key with a probability of 10⁻⁷, so a list of keys is a vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

BLANK, LETTER, SYMBOL = 0, 1, 2
"""What a character is: white space, a part of a word, a word of its own."""
UNKNOWN = 0xFFFD  # the character that stands for those that a vocabulary lacks
SHORTEST = 2  # letters of an n-gram of letters

_MULTIPLIER, _STIR = -0x2E48CBA5A1C45E4B, 0x5851F42D4C957F2D  # odd, so that no factor is lost modulo 2⁶⁴
_LETTERS, _SECOND, _BOTH, _SHARE = 64, 1 << 20, 1 << 21, 1 << 22  # added before mixing: kinds of n-grams
SHARES = 10  # the number of classes of the share of words that both texts of a pair have
# scripts that write no blanks between words; each of their characters is a word, two of them a bigram
_WITHOUT_BLANKS = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x4DBF),
                   (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))  # fmt: skip
_WORD = re.compile(r"\w")


def kind_of(character: str) -> int:
    if any(low <= ord(character) <= high for low, high in _WITHOUT_BLANKS):
        return SYMBOL
    return LETTER if _WORD.match(character) else BLANK if character.isspace() else SYMBOL


@dataclass(frozen=True)
class Characters:
    """The characters of all texts of a batch, one text after the other: code points in lower case, and their kinds."""

    codes: Int[Tensor, "N"]
    kinds: Int[Tensor, "N"]
    rows: Int[Tensor, "N"]  # the example that each belongs to, in order
    second: Bool[Tensor, "N"] | None = None  # of pairs: whether it belongs to the second text

    @property
    def texts(self) -> Int[Tensor, "N"]:
        """The text that each belongs to: no n-gram reaches from one to another."""
        return self.rows if self.second is None else 2 * self.rows + self.second

    def select(self, which: Int[Tensor, "M"], rows: Int[Tensor, "M"]) -> Characters:
        """Some of the characters, as texts of these numbers."""
        second = None if self.second is None else self.second[which]
        return Characters(self.codes[which], self.kinds[which], rows, second)


@dataclass(frozen=True)
class Alphabet:
    """The characters of a vocabulary: code points in lower case, and their kinds."""

    codes: Int[Tensor, "V"]
    kinds: Int[Tensor, "V"]

    @classmethod
    def of(cls, characters: Sequence[str | None]) -> Alphabet:
        """That of these characters by id; None is a special token, between texts, and "" an unknown character."""
        codes = [UNKNOWN if text == "" else ord(text.lower()[0]) if text else 0 for text in characters]
        kinds = [LETTER if text == "" else kind_of(text) if text else BLANK for text in characters]
        return cls(torch.tensor(codes, dtype=torch.int32), torch.tensor(kinds, dtype=torch.int8))

    def read(self, ids: Int[Tensor, "N"], rows: Int[Tensor, "N"], second: Bool[Tensor, "N"] | None) -> Characters:
        return Characters(self.codes[ids].long(), self.kinds[ids], rows, second)


@dataclass(frozen=True)
class Ngrams:
    """Every occurrence of an n-gram: its key, its example, and the place of its last character among all characters.

    The last bit of a key is 1 for an n-gram of letters.
    """

    keys: Int[Tensor, "G"]
    rows: Int[Tensor, "G"]
    places: Int[Tensor, "G"]

    def and_also(self, other: Ngrams) -> Ngrams:
        pairs = ((self.keys, other.keys), (self.rows, other.rows), (self.places, other.places))
        return Ngrams(*(torch.cat(pair) for pair in pairs))


@dataclass(frozen=True)
class WordSpans:
    """All words: the places of their first and last characters, their texts, and a hash of their letters."""

    first: Int[Tensor, "W"]
    last: Int[Tensor, "W"]
    texts: Int[Tensor, "W"]
    hashes: Int[Tensor, "W"]


def words_in(characters: Characters) -> WordSpans:
    kinds, texts = characters.kinds, characters.texts
    continues = torch.zeros_like(kinds, dtype=torch.bool)
    continues[1:] = (kinds[1:] == LETTER) & (kinds[:-1] == LETTER) & (texts[1:] == texts[:-1])
    inside = kinds != BLANK
    first = (inside & ~continues).nonzero().squeeze(1)
    last = (inside & ~continues.roll(-1)).nonzero().squeeze(1)  # nothing continues behind the last character
    if not len(first):
        return WordSpans(first, last, first, first)
    number = (inside & ~continues).cumsum(0) - 1
    place = torch.where(inside, torch.arange(len(kinds), device=kinds.device) - first[number], 0)
    values = torch.where(inside, mixed(characters.codes), 0) * _powers(int(place.max()) + 1, place)
    total = torch.cat([values.new_zeros(1), values.cumsum(0)])
    return WordSpans(first, last, texts[first], total[last + 1] - total[first])


def word_ngrams(characters: Characters, longest: int) -> Ngrams:
    """The n-grams up to a number of words; of pairs also those that both texts have."""
    words = words_in(characters)
    parts, chain = [(mixed(words.hashes + 1), words.last)], words.hashes
    for n in range(2, longest + 1):
        chain = mixed(chain[:-1] * _STIR + n) + words.hashes[n - 1 :]  # of n - 1 words, and the next word
        within = words.texts[n - 1 :] == words.texts[: max(0, len(words.texts) - n + 1)]
        parts.append((mixed(chain + n)[within], words.last[n - 1 :][within]))
    keys, places = (torch.cat(list(part)) for part in zip(*parts, strict=True))
    if characters.second is not None:
        return _of_pairs(keys & ~1, places, characters, len(words.first))
    return Ngrams(keys & ~1, characters.rows[places], places)


def letter_ngrams(characters: Characters, longest: int) -> Ngrams:
    """The n-grams of letters: windows over all words with one blank between them, none of which has a blank inside."""
    words = words_in(characters)
    at = (characters.kinds == LETTER).nonzero().squeeze(1)
    if not len(at):
        return Ngrams(at, at, at)
    number = torch.searchsorted(words.first, at, right=True)
    fresh = torch.ones_like(at)
    fresh[1:] = number[1:] != number[:-1]
    spot = torch.arange(len(at), device=at.device) + fresh.cumsum(0)  # a blank goes before each word
    size = int(spot[-1]) + 2
    line = mixed(at.new_full((size,), 32)).index_copy(0, spot, mixed(characters.codes[at]))
    blank = torch.ones_like(line).index_fill(0, spot, 0)
    places = torch.zeros_like(line).index_copy(0, spot, at).cummax(0).values  # of a blank: the letter before it
    blanks, parts, chain = torch.cat([blank.new_zeros(1), blank.cumsum(0)]), [], line
    for n in range(SHORTEST, longest + 1):
        chain = chain[:-1] * _MULTIPLIER + line[n - 1 :]
        whole = blanks[n - 1 : size] == blanks[1 : size - n + 2]
        parts.append((mixed(chain + _LETTERS + n)[whole], places[n - 1 :][whole]))
    keys, places = (torch.cat(list(part)) for part in zip(*parts, strict=True))
    if characters.second is not None:
        keys = torch.where(characters.second[places], mixed(keys + _SECOND), keys)
    return Ngrams(keys | 1, characters.rows[places], places)


def mixed(x: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    """splitmix64's finalizer: neighbours fall far apart. torch shifts with the sign, which is masked away."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def _powers(longest: int, place: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    """M to the place of each character in its word."""
    table = torch.full((longest,), _MULTIPLIER, dtype=torch.int64, device=place.device)
    table[0] = 1
    return table.cumprod(0)[place]


def _of_pairs(keys: Int[Tensor, "G"], places: Int[Tensor, "G"], characters: Characters, single: int) -> Ngrams:
    """Keys of their own for the second texts; n-grams that both texts have; and how many words both have.

    The first keys are those of `single` words.
    """
    assert characters.second is not None
    rows, second = characters.rows[places], characters.second[places]
    in_example = mixed(keys + mixed(rows))  # the same for the same n-gram of the same example
    both = (torch.isin(in_example, in_example[~second]) & second).nonzero().squeeze(1)
    last = characters.rows.flip(0).diff(prepend=characters.rows[-1:] + 1).nonzero().squeeze(1)
    last = len(characters.rows) - 1 - last.flip(0)  # the place of the last character of each example
    examples = characters.rows[last]
    distinct, where = torch.unique(in_example[:single], return_inverse=True)
    own = torch.searchsorted(examples, rows[:single])
    row_of = torch.zeros_like(distinct).index_copy(0, where, own)
    common = torch.zeros_like(distinct).index_fill(0, where[both[both < single]], 1)
    words = torch.bincount(row_of, minlength=len(examples))
    shared = torch.zeros_like(words).index_add(0, row_of, common)
    share = shared * SHARES // words.clamp(min=1)
    keys = torch.where(second, mixed(keys + _SECOND), keys)
    return Ngrams(
        torch.cat([keys, mixed(keys[both] + _BOTH), mixed(share + _SHARE)]) & ~1,
        torch.cat([rows, rows[both], examples]),
        torch.cat([places, places[both], last]),
    )

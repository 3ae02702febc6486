"""What kind of character each one is, for all of Unicode: one byte of flags a character, looked up for a whole text.

Some scripts put no spaces between words. There, every character counts as a word of its own, so that rules about words
judge Chinese, Japanese or Thai text by the same numbers as English.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
import numpy.typing as npt

SPACE, WORD, LETTER, UNSPACED, LATIN, VOWEL, BROKEN, SIGN = (1 << bit for bit in range(8))
"""SPACE parts words; WORD is a letter, mark or digit; LETTER a letter or a mark on one; UNSPACED a letter of a script
without spaces; LATIN and VOWEL say themselves; BROKEN is what no text should hold; SIGN is # or an ellipsis."""

Flags = npt.NDArray[np.uint8]

# what lies above is taken for Han: there is hardly anything else
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
# Tibetan and Ethiopic part words with a mark of their own; a space of no width is one all the same
_PARTING = "\u0f0b\u0f0c\u1361\u200b"
# Latin vowels that do not come apart into a plain letter and an accent
_MORE_VOWELS = "æœøıəɛɔɩʊɨʉɐɑɪ"


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
    if character.isspace() or character in _PARTING:
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

"""Words that no training taught, carried over from the source: names, numbers, characters never seen.

    of a source word i that is strange and is not in the translation: the words j with argmax_i' share(j, i') = i are
    what the model wrote in its place; the longest run of them gives way to the word itself

The replacement of unknown words by alignment (Luong et al. 2015, arXiv 1410.8206), the alignment being the attention
(`inspection/translator_heads.py`). A vocabulary over bytes has no unknown words, so strange is what it has no pieces
for: a number of two digits or more, a character that it can only spell byte by byte, and a capitalised word that
it cuts nearly into letters. It is a rule of thumb: the word survives, its place is as good as the alignment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from qkv.inspection.translator_heads import Alignment
from qkv.text.pipelines import ONLY_READ, WORD
from qkv.text.tokenizer import Tokenizer

_WORD = re.compile(WORD)
_UNIT = re.compile(r"[^\W_](?:\S*[^\W_])?|[^\w\s\x00-\x7f]+")  # what stands between blanks, without the marks around it
LEAST_PIECES = 4
LETTERS_A_PIECE = 2.0
LEAST_VOCABULARY = 2000  # a smaller one cuts every word nearly into letters


class Unit(NamedTuple):
    """A word of the source as it stands, 3.141 for one, and the numbers of those that an alignment knows."""

    text: str
    words: list[int]


def strange(tokenizer: Tokenizer, word: str) -> bool:
    """Whether a vocabulary shows that its training text had no such word."""
    digits = sum(character.isdecimal() for character in word)
    if digits >= 2 or any(_unseen(tokenizer, each) for each in set(word)):
        return True
    if tokenizer.kind == "words":
        return bool(tokenizer.unknown_characters(word))
    if tokenizer.kind not in ("bpe", *ONLY_READ) or tokenizer.vocabulary < LEAST_VOCABULARY or word[0].islower():
        return False
    forms = tokenizer.encode_batch([word, f" {word}", word.lower(), f" {word.lower()}"])
    pieces = min(map(len, forms))
    return word[0].isupper() and pieces >= LEAST_PIECES and len(word) <= LETTERS_A_PIECE * pieces


def _unseen(tokenizer: Tokenizer, character: str) -> bool:
    """Whether a character can only be spelled byte by byte, or not at all."""
    if character.isascii():
        return False
    if tokenizer.kind in ("bpe", "sentencepiece"):
        alone = (tokenizer.encode(form) for form in (character, f" {character}"))
        return all(sum(len(tokenizer.spelled(each)) == 1 for each in ids) >= 2 for ids in alone)
    return tokenizer.kind in ("characters", "unigram") and bool(tokenizer.unknown_characters(character))


def strange_units(tokenizer: Tokenizer, text: str) -> list[Unit]:
    """The strange words of a source, in their order."""
    places = [match.span() for match in _WORD.finditer(text) if match[0].strip()]
    found = []
    for match in _UNIT.finditer(text):
        if strange(tokenizer, match[0]):
            within = [place for place, each in enumerate(places) if each[0] < match.end() and each[1] > match.start()]
            found.append(Unit(match[0], within))
    return found


def there(word: str, text: str) -> bool:
    """Whether a translation holds a word: a number whatever its commas, 1,000 as 1.000."""
    if re.search(rf"(?<!\d){re.escape(word)}(?!\d)", text):
        return True
    return word[0].isdecimal() and _digits(word) in {_digits(each[0]) for each in _UNIT.finditer(text)}


def _digits(word: str) -> str:
    return "".join(character for character in word if character.isdecimal())


def carried(text: str, units: Sequence[Unit], alignment: Alignment) -> tuple[str, list[str]]:
    """A translation with the words of its source that it had lost, and which they are."""
    spans = [match.span() for match in _WORD.finditer(text) if match[0].strip()]
    lost = [unit for unit in units if unit.words and not there(unit.text, text)]
    if not spans or len(spans) != len(alignment.target.words) or not alignment.source.words:
        return text, []  # half a character was written, or nothing: no word has a place
    looks = alignment.by_word()
    nearest = looks.argmax(1).tolist()
    taken: set[int] = set()
    changes: list[tuple[int, int, str]] = []
    unwritten: list[Unit] = []
    for unit in lost:
        own = [
            word
            for word, (begin, end) in enumerate(spans)
            if nearest[word] in unit.words and any(map(str.isalnum, text[begin:end]))
        ]
        if own:
            run = _longest(own)
            taken.update(run)
            changes.append((spans[run[0]][0], spans[run[-1]][1], unit.text))
        else:
            unwritten.append(unit)
    for unit in unwritten:
        begin = spans[_closest(unit, looks, taken)][0]
        changes.append((begin, begin, f"{unit.text} "))
    for begin, end, word in sorted(changes, reverse=True):
        text = text[:begin] + word + text[end:]
    return text, [unit.text for unit in lost]


def _longest(numbers: list[int]) -> list[int]:
    """The longest run of neighbours; of several, the first."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return max(runs, key=len)


def _closest(unit: Unit, looks: Float[Tensor, "T S"], taken: set[int]) -> int:
    """The word that looked most at one for which nothing was written: it goes before that."""
    shares = looks[:, unit.words].sum(1)
    shares[sorted(taken)] = -1.0
    return int(shares.argmax())

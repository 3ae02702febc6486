"""A tokenizer of your own: syllables, as spelling shows them. `qkv train book.txt --tokenizer syllables.py`

The class is a dataclass with `kind` and `tokens`. `learn` gives the same tokenizer with tokens, from parts of the
training text; `encode` gives ids counted from 0, and -1 for what no token has; `decode` gives the text again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Literal

from qkv.config import strict

VOWELS = "aeiouyäöüáéíóú"
CONSONANT = rf"[^\W\d_{VOWELS}]"
SYLLABLE = re.compile(rf"\s|{CONSONANT}*[{VOWELS}]+(?:{CONSONANT}(?![{VOWELS}]))*|.", re.IGNORECASE | re.DOTALL)


@strict
class Syllables:
    kind: Literal["syllables"] = "syllables"
    tokens: tuple[str, ...] = ()
    size: int = 1000  # of the vocabulary

    def learn(self, texts: Iterable[str]) -> Syllables:
        syllables: Counter[str] = Counter()
        letters: Counter[str] = Counter()
        for text in texts:
            syllables.update(SYLLABLE.findall(text))
            letters.update(text)
        often = sorted(syllables, key=lambda piece: (-syllables[piece], piece))
        known = dict.fromkeys([*sorted(letters), *often])  # letters spell what is rare
        return replace(self, tokens=tuple(known)[: max(self.size, len(letters))])

    @cached_property
    def ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        found = []
        for piece in SYLLABLE.findall(text):
            parts = [piece] if piece in self.ids else piece
            found += [self.ids.get(part, -1) for part in parts]
        return found

    def decode(self, ids: list[int]) -> str:
        return "".join(self.tokens[number] for number in ids)

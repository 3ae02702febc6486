"""What a task that hides pieces must know about a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from qkv.errors import InputError
from qkv.text.tokenizer import Tokenizer

MARKS = frozenset(".!?…。！？")


@dataclass(frozen=True)
class Pieces:
    opening: int  # [CLS], before every sample
    separator: int  # [SEP], after every text, and between the documents of a stream
    mask: int
    padding: int
    ordinary: Bool[np.ndarray, "V"]  # everything but special tokens: what may be hidden, and put in another's place
    marks: Bool[np.ndarray, "V"]  # pieces that end a sentence

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Pieces:
        needed = {"[MASK]": tokenizer.mask, "[PAD]": tokenizer.padding}
        missing = [name for name, number in needed.items() if number is None]
        if missing or not tokenizer.opening:
            raise InputError(
                f"a {tokenizer.kind} tokenizer without {' and '.join(missing) or '[CLS]'}: hiding pieces needs one "
                "with [CLS], [SEP], [PAD] and [MASK]. Choose --tokenizer wordpiece."
            )
        assert tokenizer.mask is not None
        assert tokenizer.padding is not None
        numbers = range(tokenizer.vocabulary)
        return cls(
            opening=tokenizer.opening[0],
            separator=tokenizer.separator,
            mask=tokenizer.mask,
            padding=tokenizer.padding,
            ordinary=np.array([not tokenizer.is_special(number) for number in numbers]),
            marks=np.array([tokenizer.token(number) in MARKS for number in numbers]),
        )

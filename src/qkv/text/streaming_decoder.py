"""Text while it is being written: one token in, the text that is certain by now out.

Joined, the pieces are exactly what `decode` makes of all ids. A token of a byte-level vocabulary may end inside a
character; its bytes wait until the character is whole. Work per token does not grow with the length of the text.
"""

from __future__ import annotations

import codecs

from qkv.text.pipelines import ONLY_READ
from qkv.text.tokenizer import Tokenizer


class StreamDecoder:
    def __init__(self, tokenizer: Tokenizer, before: int | None = None) -> None:
        """`before` is the token that the text goes on from: words are joined to it as to each other."""
        self._tokenizer = tokenizer
        # both this and the library put one U+FFFD for each longest broken part, as Unicode recommends
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._before = before

    def push(self, number: int) -> str:
        """The text that this token makes certain; empty for special tokens and unfinished characters."""
        if self._tokenizer.is_special(number) or not 0 <= number < self._tokenizer.vocabulary:
            return ""
        if self._tokenizer.kind == "bpe":
            return self._bytes.decode(self._tokenizer.spelled(number))
        if self._tokenizer.kind in ONLY_READ:
            spelled = self._tokenizer.spelled(number)
            first, self._before = self._before is None, number
            return self._bytes.decode(spelled.removeprefix(b" ") if first else spelled)
        if self._before is None:
            text = self._tokenizer.decode([number])
        else:
            # how a token is joined depends on the one before it, never on those after it
            text = self._tokenizer.decode([self._before, number])
            text = text[len(self._tokenizer.decode([self._before])) :]
        self._before = number
        return text

    def finish(self) -> str:
        """What was held back: a broken character at the very end."""
        return self._bytes.decode(b"", final=True)

"""Text while it is being written: one token in, the text that is certain by now out.

Joined, the pieces are exactly what `decode` makes of all ids. A token of a byte-level vocabulary may end inside a
character; its bytes wait until the character is whole. Work per token does not grow with the length of the text.

Stop strings over a stream: text is shown as soon as it cannot be the beginning of a stop string.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

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


class StoppedStream:
    """Tokens in, text out, up to the first stop string and without it."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), before: int | None = None) -> None:
        self.decoder = StreamDecoder(tokenizer, before)
        self.stop = [word for word in stop if word]
        self.held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        return self._show(self.decoder.push(token), last=False)

    def finish(self) -> str:
        return self._show(self.decoder.finish(), last=True)

    def _show(self, piece: str, last: bool) -> str:
        if self.stopped:
            return ""
        text = self.held + piece
        places = [place for word in self.stop if (place := text.find(word)) >= 0]
        if places:
            self.stopped, self.held = True, ""
            return text[: min(places)]
        keep = 0 if last else max((self._overlap(text, word) for word in self.stop), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]

    @staticmethod
    def _overlap(text: str, word: str) -> int:
        """The longest end of `text` that a stop string begins with."""
        longest = min(len(text), len(word) - 1)
        return next((size for size in range(longest, 0, -1) if text.endswith(word[:size])), 0)

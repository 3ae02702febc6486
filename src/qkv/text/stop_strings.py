"""Stop strings over a stream: text is shown as soon as it cannot be the beginning of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.text.streaming_decoder import StreamDecoder
from qkv.text.tokenizer import Tokenizer


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

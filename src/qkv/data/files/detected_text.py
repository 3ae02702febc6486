"""Decodes a file whose encoding was not given: as UTF-8, and other bytes in an encoding that fits them.

A file is read once, in blocks of whole lines, and is UTF-8 as long as all lines are. The first line that is not UTF-8,
with the text that follows it up to a limit, is the sample from which the encoding is guessed. From then on each line
that is valid UTF-8 is read as UTF-8, and the others in that encoding, so that valid UTF-8 in the same file is kept. If
no encoding fits, or nearly all of the file is UTF-8, bad bytes become U+FFFD. A character that is written as two
surrogates of three bytes each (CESU-8, from Java and old databases) is read as that character. The result depends only
on the bytes, not on how they are split into chunks.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterable, Iterator

from qkv.data.files.guess_encoding import MULTIBYTE, fitting_encoding, guess_encoding
from qkv.data.files.magic import HEAD_SIZE
from qkv.data.findings import Findings
from qkv.errors import DataError

WINDOW_SIZE = 2**20
"""How many bytes, from the first line that is not UTF-8, decide the encoding."""
MAX_LINE = 2**18
"""Longer lines are read in parts."""
_ASCII = bytes(range(128))
_SURROGATE_PAIR = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")
_UTF_8_CHARACTER = re.compile(
    _SURROGATE_PAIR.pattern + rb"|[\xc2-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_PERHAPS_UTF_8 = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")
_RARELY_BAD = 20
"""A file is UTF-8 with a few bad bytes if it has this many times as many continuation bytes of UTF-8 as bad bytes."""
_FEW_LINES = 10
_CERTAIN_CHARACTERS = 4
"""A line with fewer UTF-8 characters may be valid by chance, if the encoding has two bytes per character."""
_MAX_BAD_SHARE = 0.3
_SOME_BAD = 1000


class DetectedText:
    def __init__(
        self, where: str, findings: Findings, only_newlines: bool = False, declared: str | None = None
    ) -> None:
        self.where, self.findings, self.declared = where, findings, declared
        self._only_newlines = only_newlines
        self._decided = False
        self._fallback: str | None = None
        """The encoding of lines that are not UTF-8; None: UTF-8 with bad bytes."""
        self._utf_8_size = 0  # continuation bytes of UTF-8, before the encoding is decided
        self._offset = self._bad_count = 0
        self._line = 1
        self._first_bad: str | None = None
        self._bad_byte = ""
        self._has_utf_8 = False  # beyond ASCII
        self._fallback_lines = self._pairs = 0
        self._first_fallback_line = self._first_pair_line = 0

    def texts(self, head: bytes, chunks: Iterable[bytes]) -> Iterator[str]:
        """The text, in blocks."""
        if head.startswith(codecs.BOM_UTF8):
            head = head[len(codecs.BOM_UTF8) :]
            self._offset = len(codecs.BOM_UTF8)
        waiting: deque[bytes] = deque()
        blocks = _blocks(head, chunks)
        at_start = True
        while (block := waiting.popleft() if waiting else next(blocks, None)) is not None:
            if not self._decided and (start := self._evidence(block)) is not None:
                if at_start and start < HEAD_SIZE:
                    start = self._utf_8_size = 0
                self._decide(block, start, waiting, blocks)
            at_start = False
            yield self._decode(block)
            self._offset += len(block)
            self._line += self._line_ends(block)
            if self._bad_count > _SOME_BAD:
                self._require_mostly_text()
        self._require_mostly_text()
        if self._first_bad is not None:
            self.findings.unreadable[self.where] = self._bad_count, self._first_bad
        if self._fallback_lines and self._has_utf_8:
            self.findings.other_lines[self.where] = self._fallback_lines, f"{self.where}:{self._first_fallback_line}"
        if self._pairs:
            self.findings.surrogate_pairs[self.where] = self._pairs, f"{self.where}:{self._first_pair_line}"

    def _evidence(self, block: bytes) -> int | None:
        """The start of the first line that is not UTF-8, not even with a few bad bytes; None if there is none."""
        try:
            self._utf_8_size += len(block) - len(block.decode())
            return None
        except UnicodeDecodeError:
            pass
        start = 0
        for line in _lines(block):
            characters, good, bad = _counts(line)
            if bad and bad >= good:
                return start
            self._utf_8_size += good - characters
            start += len(line)
        return None

    def _decide(self, block: bytes, start: int, waiting: deque[bytes], blocks: Iterator[bytes]) -> None:
        """Guess the encoding by the lines that are not UTF-8; `waiting` gets the blocks that are read for that."""
        self._decided = True
        size = len(block) - start
        while size < WINDOW_SIZE and (following := next(blocks, None)) is not None:
            waiting.append(following)
            size += len(following)
        window = b"".join([block[start:], *waiting])[:WINDOW_SIZE]
        evidence, evidence_size, utf_8_size = [], 0, self._utf_8_size
        for line in _lines(window):
            characters, good, bad = _counts(line)
            if bad and bad >= good:
                evidence.append(line)
                evidence_size += bad
            else:
                utf_8_size += good - characters
        if utf_8_size > _RARELY_BAD * evidence_size and len(evidence) < _FEW_LINES:
            return
        sample = b"".join(evidence)
        self._fallback = fitting_encoding(self.declared, sample) or guess_encoding(sample)
        if self._fallback is not None:
            self.findings.encodings[self.where] = self._fallback

    def _decode(self, block: bytes) -> str:
        if block.isascii() and b"\0" not in block:
            return block.decode()
        text = None if b"\0" in block else self._decode_whole(block)
        if text is not None:
            return text
        start = 0
        texts: list[str] = []
        for line in _lines(block):
            texts.append(self._decode_line(line, block, start))
            start += len(line)
        return "".join(texts)

    def _decode_whole(self, block: bytes) -> str | None:
        """The text of a block that is all in one encoding; None where that is to be decided line by line."""
        if self._fallback not in MULTIBYTE:
            try:
                text = block.decode()
            except UnicodeDecodeError:
                pass
            else:
                self._has_utf_8 = True
                return text
        if self._fallback is None or _PERHAPS_UTF_8.search(block):
            return None
        try:
            text = block.decode(self._fallback)
        except UnicodeDecodeError:
            return None
        start = 0
        for line in _lines(block):
            if not line.isascii():
                self._count_fallback_line(block, start)
            start += len(line)
        return text

    def _count_fallback_line(self, block: bytes, start: int) -> None:
        self._fallback_lines += 1
        self._first_fallback_line = self._first_fallback_line or self._line + self._line_ends(block[:start])

    def _decode_line(self, line: bytes, block: bytes, start: int) -> str:
        text, bad = self._line_text(line, block, start)
        if nul := text.count("\0"):
            text, bad = text.replace("\0", "\ufffd"), bad + nul
        if bad:
            self._bad_count += bad
            if self._first_bad is None:
                position = _first_bad_byte(line, self._fallback)
                number = self._line + self._line_ends(block[: start + position])
                self._first_bad = f"{self.where}:{number}:{self._offset + start + position}"
                self._bad_byte = line[position : position + 1].hex()
        return text

    def _line_ends(self, block: bytes) -> int:
        returns = 0 if self._only_newlines else block.count(b"\r") - block.count(b"\r\n")
        return block.count(b"\n") + returns

    def _line_text(self, line: bytes, block: bytes, start: int) -> tuple[str, int]:
        """A line's text, and how many bytes could not be read."""
        joined, pairs = _SURROGATE_PAIR.subn(_joined_pair, line)
        bad = 0
        try:
            text = joined.decode()
        except UnicodeDecodeError:
            _, good, bad = _counts(line)
            as_utf_8 = self._fallback is None or good > bad
            text = joined.decode(errors="replace") if as_utf_8 else ""
        else:
            certain = self._fallback not in MULTIBYTE or len(joined) - len(text) >= 2 * _CERTAIN_CHARACTERS
            as_utf_8 = certain or self._fallback is None or _error(line, self._fallback) is not None
        if as_utf_8 or self._fallback is None:
            if pairs:
                self._pairs += pairs
                self._first_pair_line = self._first_pair_line or self._line + self._line_ends(block[:start])
            self._has_utf_8 |= not line.isascii()
            return text, bad
        if not line.isascii():
            self._count_fallback_line(block, start)
        try:
            return line.decode(self._fallback), 0
        except UnicodeDecodeError:
            text = line.decode(self._fallback, errors="replace")
            return text, text.count("\ufffd")

    def _require_mostly_text(self) -> None:
        if self._first_bad is not None and self._bad_count > _MAX_BAD_SHARE * self._offset:
            raise DataError(
                self._first_bad,
                f"not text, or in an encoding that qkv does not detect: {self._bad_count:,} of the first "
                f"{self._offset:,} bytes fit none, the first is {self._bad_byte}",
                "If it is text, name its encoding with --encoding.",
            )


def _joined_pair(pair: re.Match[bytes]) -> bytes:
    return pair[0].decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16").encode()


def _counts(line: bytes) -> tuple[int, int, int]:
    """The number of non-ASCII UTF-8 characters in a line, of their bytes, and of bytes that belong to none."""
    if line.isascii():
        return 0, 0, 0
    characters = _UTF_8_CHARACTER.findall(line)
    good = sum(map(len, characters))
    return len(characters), good, len(line.translate(None, _ASCII)) - good


def _lines(block: bytes) -> Iterator[bytes]:
    """The lines of a block with their line ends; lines that are too long are split."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start) + 1 or len(block)
        while end - start > MAX_LINE:
            cut = start + _cut(block[start : start + MAX_LINE + 1])
            yield block[start:cut]
            start = cut
        yield block[start:end]
        start = end


def _first_bad_byte(line: bytes, fallback: str | None) -> int:
    """The position of the first byte that cannot be read, or of the first NUL."""
    positions = [line.find(0)] if b"\0" in line else []
    line = _SURROGATE_PAIR.sub(b"\xef\xbf\xbd" * 2, line) if fallback is None else line
    errors = [error.start for encoding in ("utf-8", fallback) if encoding and (error := _error(line, encoding))]
    return min([*positions, *errors[-1:]])


def _error(line: bytes, encoding: str) -> UnicodeDecodeError | None:
    try:
        line.decode(encoding)
    except UnicodeDecodeError as error:
        return error
    return None


def _blocks(head: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines; a line that is too long is split at a position that depends only on the line."""
    rest = head
    iterator = iter(chunks)
    while True:
        if end := rest.rfind(b"\n") + 1:
            whole, rest = rest[:end], rest[end:]
            yield whole
        while len(rest) > MAX_LINE:
            cut = _cut(rest)
            yield rest[:cut]
            rest = rest[cut:]
        if (chunk := next(iterator, None)) is None:
            break
        rest += chunk
    if rest:
        yield rest


def _cut(line: bytes) -> int:
    """Where to split a line that is too long: after its last blank, else between two characters of UTF-8."""
    if blank := line.rfind(b" ", MAX_LINE // 2, MAX_LINE) + 1:
        return blank
    cut = MAX_LINE
    while cut > MAX_LINE - 4 and 0x80 <= line[cut] < 0xC0:
        cut -= 1
    return cut - 3 if _SURROGATE_PAIR.match(line, cut - 3) else cut

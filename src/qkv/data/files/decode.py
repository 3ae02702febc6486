"""Bytes to text: each file in its own encoding, uniform line ends, and a count of the bytes that cannot be read.

Only \\n ends a line. \\r\\n and a lone \\r become \\n and are counted; a byte order mark is left out with a note.
Bytes that fit no encoding become U+FFFD and are counted, with the position of the first; a file with many such bytes is
refused.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from qkv.data.files.detected_text import DetectedText
from qkv.data.files.magic import HEAD_SIZE, allows_nul_bytes, binary_format, magic_format, unicode_form
from qkv.data.findings import Findings
from qkv.errors import ConfigError, DataError

REPLACEMENT = "\ufffd"
_MAX_REPLACED_SHARE = 0.01
_SOME_REPLACED = 100


def require_encoding(encoding: str | None) -> None:
    """Refuse a name that is not an encoding of text in Python. None means that encodings are detected."""
    if encoding is None:
        return
    try:
        codecs.lookup(encoding)
        "".encode(encoding)
    except (LookupError, UnicodeError, ValueError):
        raise ConfigError(
            f"encoding {encoding!r} is not known; expected a name such as utf-8, cp1252, latin-1 or utf-16."
        ) from None


def decode(
    chunks: Iterable[bytes],
    where: str,
    encoding: str | None,
    findings: Findings,
    head_size: int = HEAD_SIZE,
    keep_line_ends: bool = False,
    declared: str | None = None,
) -> Iterator[str]:
    """Decode a stream of bytes, with \\n for every line end; DataError, with line and byte, for what is not text.

    Without an `encoding`, it is detected: UTF-8, UTF-16 or UTF-32 by a byte order mark, else by bytes. `declared` is
    an encoding that the file itself declares; it is used if the text is not UTF-8 and it fits.
    The first `head_size` bytes are collected before any text is yielded, to recognise binary formats.
    """
    with_head = _with_whole_head(chunks, head_size)
    head = next(with_head)
    looks_binary = binary_format if encoding is None else magic_format
    if not allows_nul_bytes(encoding) and (binary := looks_binary(head)):
        raise DataError(f"{where}:1:0", f"not text but {binary[0]}", binary[1])
    form = unicode_form(head) if encoding is None else None
    if form is not None:
        findings.encodings[where] = form
    if (encoding is None or _is_utf_8(encoding)) and head.startswith(codecs.BOM_UTF8):
        findings.boms.append(where)
    texts: Iterable[str]
    if encoding is None and form is None:
        texts = DetectedText(where, findings, keep_line_ends, declared).texts(head, with_head)
    else:
        texts = _GivenText(where, form or encoding or "", findings, keep_line_ends).texts(head, with_head)
    yield from texts if keep_line_ends else _with_plain_line_ends(texts, findings)


def _is_utf_8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def _with_whole_head(chunks: Iterable[bytes], head_size: int) -> Iterator[bytes]:
    """The same bytes, with at least `head_size` of them in the first chunk if there are as many."""
    head: list[bytes] = []
    size = 0
    iterator = iter(chunks)
    for chunk in iterator:
        head.append(chunk)
        size += len(chunk)
        if size >= head_size:
            break
    yield b"".join(head)
    yield from iterator


class _GivenText:
    """Decodes a file with one encoding. A few invalid bytes become U+FFFD; if there are more, the file is refused."""

    def __init__(self, where: str, encoding: str, findings: Findings, keep_line_ends: bool) -> None:
        self.where, self.encoding, self.findings, self.keep_line_ends = where, encoding, findings, keep_line_ends
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._nul_allowed = allows_nul_bytes(encoding)
        self._offset = 0  # bytes before the current chunk
        self._line = 1
        self._after_return = False
        self._characters = self._replaced = 0
        self._first_bad: tuple[str, str] | None = None

    def texts(self, head: bytes, chunks: Iterable[bytes]) -> Iterator[str]:
        if _is_utf_8(self.encoding) and head.startswith(codecs.BOM_UTF8):
            head = head[len(codecs.BOM_UTF8) :]
            self._offset = len(codecs.BOM_UTF8)
        yield self._decode(head)
        for chunk in chunks:
            yield self._decode(chunk)
        yield self._decode(b"", final=True)
        self._require_few(_MAX_REPLACED_SHARE)
        if self._first_bad is not None:
            self.findings.unreadable[self.where] = self._replaced, self._first_bad[0]

    def _decode(self, chunk: bytes, final: bool = False) -> str:
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(chunk, final)
        except UnicodeError as error:
            text = self._replace(chunk, final, state, error)
        if not self._nul_allowed and "\0" in text:
            offset = self._offset + max(0, chunk.find(0))
            line = self._line + count_lines(text[: text.find("\0")], self.keep_line_ends)
            self._first_bad = self._first_bad or (
                f"{self.where}:{line}:{offset}",
                "a NUL byte, which text does not have",
            )
            self._replaced += text.count("\0")
            text = text.replace("\0", REPLACEMENT)
        self._characters += len(text)
        self._offset += len(chunk)
        if self._after_return and text.startswith("\n") and not self.keep_line_ends:
            self._line -= 1
        self._line += count_lines(text, self.keep_line_ends)
        self._after_return = text.endswith("\r") or (not text and self._after_return)
        if self._replaced > _SOME_REPLACED:
            self._require_few(10 * _MAX_REPLACED_SHARE)
        return text

    def _replace(self, chunk: bytes, final: bool, state: tuple[bytes, int], error: UnicodeError) -> str:
        """Decode a chunk again, with U+FFFD for invalid bytes."""
        try:
            if not isinstance(error, UnicodeDecodeError):
                raise error
            self._remember(error, len(chunk))
            self._decoder.setstate(state)
            self._decoder.errors = "replace"
            text = self._decoder.decode(chunk, final)
            self._decoder.errors = "strict"
        except UnicodeError as error:
            raise DataError(self.where, f"not {self.encoding} text ({error})", "Use another --encoding.") from None
        self._replaced += text.count(REPLACEMENT)
        return text

    def _remember(self, error: UnicodeDecodeError, chunk_size: int) -> None:
        """Keep the position of the first invalid byte, and what is wrong with it."""
        if self._first_bad is not None:
            return
        # the object of the error begins with bytes that the decoder kept from the previous chunk
        offset = self._offset - (len(error.object) - chunk_size) + error.start
        before = error.object[: error.start].decode(self.encoding, errors="replace")
        line = self._line + count_lines(before, self.keep_line_ends)
        if self._after_return and before.startswith("\n") and not self.keep_line_ends:
            line -= 1
        bad_bytes = error.object[error.start : error.end][:4].hex(" ")
        problem = f"the byte {bad_bytes[:2]} is not {self.encoding.upper()}"
        if error.reason == "unexpected end of data":
            problem = f"the file ends inside a character (bytes {bad_bytes})"
        self._first_bad = f"{self.where}:{line}:{offset}", problem

    def _require_few(self, share: float) -> None:
        if self._first_bad is None or self._replaced <= max(1, share * self._characters):
            return
        where, problem = self._first_bad
        raise DataError(
            where,
            f"{problem}, and {self._replaced:,} of {self._characters:,} characters cannot be read in this encoding",
            "Leave --encoding out to have it detected for each file, or name another.",
        )


def count_lines(text: str, only_newlines: bool = False) -> int:
    """How many lines end in a text; \\r\\n ends one."""
    if only_newlines or "\r" not in text:
        return text.count("\n")
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _with_plain_line_ends(texts: Iterable[str], findings: Findings) -> Iterator[str]:
    held_return = ""  # a \r at the end of a piece: the next piece may begin with \n
    for text in texts:
        text, held_return = held_return + text, ""
        if text.endswith("\r"):
            text, held_return = text[:-1], "\r"
        if text:
            yield _plain(text, findings)
    if held_return:
        yield _plain(held_return, findings)


def _plain(text: str, findings: Findings) -> str:
    returns = text.count("\r")
    text = normalize_line_ends(text, findings)
    findings.newlines += text.count("\n") - returns
    return text


def normalize_line_ends(text: str, findings: Findings) -> str:
    """Replace \\r\\n and a lone \\r by \\n, and count them."""
    if "\r" in text:
        pairs = text.count("\r\n")
        findings.crlf += pairs
        findings.cr += text.count("\r") - pairs
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text

"""Bytes to text: UTF-8 by default, uniform line ends, and the exact place of bytes that cannot be read.

Only \\n ends a line. \\r\\n and a lone \\r become \\n and are counted; a byte order mark is left out with a note.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from qkv.data.findings import Findings
from qkv.errors import ConfigError, DataError

_HEAD_SIZE = 4096


def require_encoding(encoding: str) -> None:
    """Refuse a name that Python does not know as an encoding of text."""
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
    encoding: str,
    findings: Findings,
    head_size: int = _HEAD_SIZE,
    keep_line_ends: bool = False,
) -> Iterator[str]:
    """Decode a stream of bytes, with \\n for every line end; DataError, with line and byte, for what is not text.

    The first `head_size` bytes are collected before any text is yielded, to recognise binary formats by them.
    """
    decoder = _Decoder(where, encoding, findings, keep_line_ends)
    for chunk in _with_whole_head(chunks, head_size):
        if text := decoder.decode(chunk):
            yield text
    if text := decoder.finish():
        yield text


def _with_whole_head(chunks: Iterable[bytes], head_size: int) -> Iterator[bytes]:
    """The same bytes, with at least `head_size` of them in the first chunk if there are as many."""
    head = b""
    iterator = iter(chunks)
    for chunk in iterator:
        head += chunk
        if len(head) >= head_size:
            break
    yield head
    yield from iterator


class _Decoder:
    def __init__(self, where: str, encoding: str, findings: Findings, keep_line_ends: bool) -> None:
        self.where, self.encoding, self.findings, self.keep_line_ends = where, encoding, findings, keep_line_ends
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._nul_allowed = allows_nul_bytes(encoding)
        self._started = False
        self._offset = 0  # bytes before the current chunk
        self._line = 1
        self._held_return = ""  # a \r at the end of a chunk: the next may begin with its \n

    def decode(self, chunk: bytes) -> str:
        if not self._started:
            self._started = True
            if not self._nul_allowed and (binary := binary_format(chunk)):
                raise DataError(f"{self.where}:1:0", f"not text but {binary[0]}", binary[1])
            if chunk.startswith(codecs.BOM_UTF8) and self.encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
                self.findings.boms.append(self.where)
                chunk = chunk[len(codecs.BOM_UTF8) :]
                self._offset = len(codecs.BOM_UTF8)
        if not self._nul_allowed and (nul := chunk.find(0)) >= 0:
            line = self._line + chunk[:nul].count(b"\n")
            raise DataError(
                f"{self.where}:{line}:{self._offset + nul}",
                "a NUL byte, which text does not have",
                "If it is UTF-16, use --encoding utf-16; else give text.",
            )
        text = self._decode_bytes(chunk, final=False)
        self._offset += len(chunk)
        return self._normalize_chunk(text, final=False)

    def finish(self) -> str:
        return self._normalize_chunk(self._decode_bytes(b"", final=True), final=True)

    def _decode_bytes(self, chunk: bytes, final: bool) -> str:
        try:
            return self._decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            raise self._bad_byte_error(error, len(chunk)) from None
        except UnicodeError as error:
            raise DataError(self.where, f"not {self.encoding} text ({error})", "Use another --encoding.") from None

    def _bad_byte_error(self, error: UnicodeDecodeError, chunk_size: int) -> DataError:
        # the object of the error begins with bytes that the decoder kept from the previous chunk
        offset = self._offset - (len(error.object) - chunk_size) + error.start
        line = self._line + error.object[: error.start].decode(self.encoding, errors="replace").count("\n")
        bad_bytes = error.object[error.start : error.end][:4].hex(" ")
        if error.reason == "unexpected end of data":
            problem = f"the file ends inside a character (bytes {bad_bytes})"
        else:
            problem = f"the byte {bad_bytes[:2]} is not {self.encoding.upper()}"
        other = "cp1252" if self.encoding.lower().replace("-", "") == "utf8" else "utf-8"
        return DataError(
            f"{self.where}:{line}:{offset}", problem, f"If it is in another encoding, use --encoding {other}."
        )

    def _normalize_chunk(self, text: str, final: bool) -> str:
        if self.keep_line_ends:
            self._line += text.count("\n")
            return text
        text, self._held_return = self._held_return + text, ""
        if text.endswith("\r") and not final:
            text, self._held_return = text[:-1], "\r"
        returns = text.count("\r")
        text = normalize_line_ends(text, self.findings)
        lines = text.count("\n")
        self._line += lines
        self.findings.newlines += lines - returns
        return text


def normalize_line_ends(text: str, findings: Findings) -> str:
    """Replace \\r\\n and a lone \\r by \\n, and count them."""
    if "\r" in text:
        pairs = text.count("\r\n")
        findings.crlf += pairs
        findings.cr += text.count("\r") - pairs
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


MAGIC_FORMATS: list[tuple[bytes, str, str]] = [
    (b"\x1f\x8b", "gzip", "Rename it so that it ends in .gz."),
    (
        b"PK\x03\x04",
        "zip (or a docx, xlsx or epub, which are zips)",
        "Rename a zip of texts to .zip; save others as text.",
    ),
    (b"PK\x05\x06", "empty zip", "Put text files into it."),
    (b"\x28\xb5\x2f\xfd", "zstandard", "Rename it so that it ends in .zst."),
    (b"PAR1", "Parquet", "Rename it so that it ends in .parquet."),
    (b"%PDF", "PDF", "Save its text first, for example with pdftotext."),
    (b"\x89PNG", "PNG image", "Give text instead."),
    (b"\xff\xd8\xff", "JPEG image", "Give text instead."),
    (b"GIF8", "GIF image", "Give text instead."),
    (b"\x7fELF", "program", "Give text instead."),
    (b"SQLite format 3", "SQLite database", "Export its text first."),
    (b"\xd0\xcf\x11\xe0", "old Office document", "Save it as plain text first."),
    (b"{\\rtf", "RTF document", "Save it as plain text first."),
    (b"BZh", "bzip2", "Unpack it, or pack it as .gz."),
    (b"\xfd7zXZ", "xz", "Unpack it, or pack it as .gz."),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "Unpack it, or pack it as .zip."),
    (b"Rar!", "RAR", "Unpack it, or pack it as .zip."),
    (b"\x93NUMPY", "numpy array", "Give text instead."),
    (b"\x80\x02", "pickle", "Give text instead; qkv never opens pickles."),
    (b"\x80\x04", "pickle", "Give text instead; qkv never opens pickles."),
]
"""First bytes of a format, its name, and what to do instead of giving it as text."""
_UTF_32_MARKS = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def binary_format(head: bytes) -> tuple[str, str] | None:
    """The name of the format that the first bytes of a file tell, and a remedy; None for what may be text."""
    for magic, name, remedy in MAGIC_FORMATS:
        if head.startswith(magic):
            return name, remedy
    if head[257:262] == b"ustar":
        return "tar archive", "Unpack it and give the folder."
    if head.startswith(_UTF_32_MARKS):
        return "UTF-32 text", "Use --encoding utf-32."
    if head.startswith(_UTF_16_MARKS):
        return "UTF-16 text", "Use --encoding utf-16."
    sample = head[:_HEAD_SIZE]
    if (zeros := sample.count(0)) and zeros * 3 > len(sample) and len(sample) >= 4:
        byte_order = "le" if sample[1::2].count(0) >= sample[0::2].count(0) else "be"
        bits = 32 if zeros * 5 > len(sample) * 3 else 16
        encoding = f"utf-{bits}-{byte_order}"
        return f"binary data, perhaps {encoding.upper()} text", f"If it is text, use --encoding {encoding}."
    return None


def allows_nul_bytes(encoding: str) -> bool:
    """Whether ordinary text has zero bytes in this encoding."""
    return encoding.lower().replace("_", "").replace("-", "").startswith(("utf16", "utf32"))

"""Bytes to text: UTF-8 unless said otherwise, one kind of line end, and the exact place of what cannot be read.

Only \\n ends a line. \\r\\n and a lone \\r become \\n and are counted; a byte order mark is left out and said.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from qkv.data.findings import Findings
from qkv.errors import ConfigError, DataError

_HEAD = 4096


def require_encoding(encoding: str) -> None:
    """Refuse a name that Python does not know as an encoding of text."""
    try:
        known = codecs.lookup(encoding)
        "".encode(encoding)
    except (LookupError, UnicodeError, ValueError):
        known = None
    if known is None:
        raise ConfigError(
            f"encoding {encoding!r} is not known; expected a name such as utf-8, cp1252, latin-1 or utf-16."
        )


def decode(
    chunks: Iterable[bytes],
    where: str,
    encoding: str,
    findings: Findings,
    head: int = _HEAD,
    keep_line_ends: bool = False,
) -> Iterator[str]:
    """The text of a stream of bytes, with \\n for every line end, or a DataError that names line and byte.

    Nothing is given before `head` bytes, or all, have come: the format is recognised by them.
    """
    decoder = _Decoder(where, encoding, findings, keep_line_ends)
    for chunk in _with_head(chunks, head):
        if text := decoder.push(chunk):
            yield text
    if text := decoder.finish():
        yield text


def _with_head(chunks: Iterable[bytes], least: int = _HEAD) -> Iterator[bytes]:
    """The same bytes, the first piece long enough to recognise what they are."""
    head = b""
    iterator = iter(chunks)
    for chunk in iterator:
        head += chunk
        if len(head) >= least:
            break
    yield head
    yield from iterator


class _Decoder:
    def __init__(self, where: str, encoding: str, findings: Findings, keep_line_ends: bool) -> None:
        self.where, self.encoding, self.findings, self.keep_line_ends = where, encoding, findings, keep_line_ends
        self.decoder = codecs.getincrementaldecoder(encoding)()
        self.wide = wide_encoding(encoding)
        self.offset = 0  # bytes before the piece at hand
        self.line = 1
        self.held = ""  # a \r whose \n may come with the next piece
        self.started = False

    def push(self, chunk: bytes) -> str:
        if not self.started:
            self.started = True
            if not self.wide and (binary := binary_format(chunk)):
                raise DataError(f"{self.where}:1:0", f"not text but {binary[0]}", binary[1])
            if chunk.startswith(codecs.BOM_UTF8) and self.encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
                self.findings.boms.append(self.where)
                chunk = chunk[len(codecs.BOM_UTF8) :]
                self.offset = len(codecs.BOM_UTF8)
        if not self.wide and (zero := chunk.find(0)) >= 0:
            line = self.line + chunk[:zero].count(b"\n")
            raise DataError(
                f"{self.where}:{line}:{self.offset + zero}",
                "a NUL byte, which text does not have",
                "If it is UTF-16, use --encoding utf-16; else give text.",
            )
        text = self._decode(chunk, final=False)
        self.offset += len(chunk)
        return self._line_ends(text, final=False)

    def finish(self) -> str:
        return self._line_ends(self._decode(b"", final=True), final=True)

    def _decode(self, chunk: bytes, final: bool) -> str:
        try:
            text = self.decoder.decode(chunk, final)
        except UnicodeDecodeError as error:
            raise self._bad_byte(error, len(chunk)) from None
        except UnicodeError as error:
            raise DataError(self.where, f"not {self.encoding} text ({error})", "Use another --encoding.") from None
        return text

    def _bad_byte(self, error: UnicodeDecodeError, length: int) -> DataError:
        # the decoder may have kept some bytes of the piece before
        offset = self.offset - (len(error.object) - length) + error.start
        line = self.line + error.object[: error.start].decode(self.encoding, errors="replace").count("\n")
        bad = error.object[error.start : error.end][:4].hex(" ")
        if error.reason == "unexpected end of data":
            problem = f"the file ends inside a character (bytes {bad})"
        else:
            problem = f"the byte {bad[:2]} is not {self.encoding.upper()}"
        other = "cp1252" if self.encoding.lower().replace("-", "") == "utf8" else "utf-8"
        return DataError(
            f"{self.where}:{line}:{offset}", problem, f"If it is in another encoding, use --encoding {other}."
        )

    def _line_ends(self, text: str, final: bool) -> str:
        if self.keep_line_ends:
            self.line += text.count("\n")
            return text
        text, self.held = self.held + text, ""
        if text.endswith("\r") and not final:
            text, self.held = text[:-1], "\r"
        changed = text.count("\r")
        text = with_plain_line_ends(text, self.findings)
        lines = text.count("\n")
        self.line += lines
        self.findings.newlines += lines - changed
        return text


def with_plain_line_ends(text: str, findings: Findings) -> str:
    """The text with all line ends made \\n, the others counted."""
    if "\r" in text:
        pairs = text.count("\r\n")
        findings.crlf += pairs
        findings.cr += text.count("\r") - pairs
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


# formats by their first bytes: name, and what to do instead
MAGIC: list[tuple[bytes, str, str]] = [
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
UTF_32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def binary_format(head: bytes) -> tuple[str, str] | None:
    """The format that the first bytes of a file are in, and what to do instead; None where it may be text."""
    for magic, name, remedy in MAGIC:
        if head.startswith(magic):
            return name, remedy
    if head[257:262] == b"ustar":
        return "tar archive", "Unpack it and give the folder."
    if head.startswith(UTF_32):
        return "UTF-32 text", "Use --encoding utf-32."
    if head.startswith(UTF_16):
        return "UTF-16 text", "Use --encoding utf-16."
    sample = head[:4096]
    if (zeros := sample.count(0)) and zeros * 3 > len(sample) and len(sample) >= 4:
        order = "le" if sample[1::2].count(0) >= sample[0::2].count(0) else "be"
        wide = zeros * 5 > len(sample) * 3
        name = f"utf-{32 if wide else 16}-{order}"
        return f"binary data, perhaps {name.upper()} text", f"If it is text, use --encoding {name}."
    return None


def wide_encoding(encoding: str) -> bool:
    """Whether zero bytes are ordinary in this encoding."""
    return encoding.lower().replace("_", "-").replace("-", "").startswith(("utf16", "utf32"))

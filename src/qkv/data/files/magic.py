"""Recognises formats from the first bytes of a file: binary formats, and UTF-16 or UTF-32 text."""

from __future__ import annotations

import codecs

HEAD_SIZE = 2**16
"""How many of the first bytes are examined."""
_SAMPLE_SIZE = 4096
_MAX_CONTROL_SHARE, _SOME_CONTROL = 0.05, 8
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\x0b\x0c\r\x1b\x08") + b"\x7f"

MAGIC_FORMATS: list[tuple[bytes, str, str]] = [
    (b"\x1f\x8b", "gzip", "Rename it so that it ends in .gz."),
    (
        b"PK\x03\x04",
        "zip (or a docx, xlsx or epub, which are zips)",
        "Rename it so that it ends in .zip, .docx, .xlsx or .epub.",
    ),
    (b"PK\x05\x06", "empty zip", "Put text files into it."),
    (b"\x28\xb5\x2f\xfd", "zstandard", "Rename it so that it ends in .zst."),
    (b"PAR1", "Parquet", "Rename it so that it ends in .parquet."),
    (b"ARROW1", "Arrow file", "Save it as .parquet."),
    (b"%PDF", "PDF", "Rename it so that it ends in .pdf."),
    (b"\x89PNG", "PNG image", "Give text instead."),
    (b"\xff\xd8\xff", "JPEG image", "Give text instead."),
    (b"GIF8", "GIF image", "Give text instead."),
    (b"\x7fELF", "program", "Give text instead."),
    (b"SQLite format 3", "SQLite database", "Export its text first."),
    (b"\xd0\xcf\x11\xe0", "old Office document", "Save it as .docx or .xlsx."),
    (b"{\\rtf", "RTF document", "Rename it so that it ends in .rtf."),
    (b"BZh", "bzip2", "Rename it so that it ends in .bz2."),
    (b"\xfd7zXZ", "xz", "Rename it so that it ends in .xz."),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "Unpack it, or pack it as .zip."),
    (b"Rar!", "RAR", "Unpack it, or pack it as .zip."),
    (b"\x93NUMPY", "numpy array", "Give text instead."),
    (b"\x80\x02", "pickle", "Give text instead; qkv never opens pickles."),
    (b"\x80\x04", "pickle", "Give text instead; qkv never opens pickles."),
]
"""First bytes of a format, its name, and what to do instead of giving it as text."""
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def magic_format(head: bytes) -> tuple[str, str] | None:
    """The format with these magic bytes, and a remedy."""
    for magic, name, remedy in MAGIC_FORMATS:
        if head.startswith(magic):
            return name, remedy
    if head[257:262] == b"ustar":
        return "tar archive", "Rename it so that it ends in .tar."
    return None


def binary_format(head: bytes) -> tuple[str, str] | None:
    """The format of a file that is not text, by its first bytes, and a remedy; None if it may be text."""
    if (known := magic_format(head)) is not None:
        return known
    sample = head[:_SAMPLE_SIZE]
    if unicode_form(head) is None and len(sample) >= 4 and not _is_utf_8_text(sample):
        control = len(sample) - len(sample.translate(None, _CONTROL))
        if control > max(_SOME_CONTROL, _MAX_CONTROL_SHARE * len(sample)):
            return "binary data", "If it is text, name its encoding with --encoding."
    return None


def _is_utf_8_text(sample: bytes) -> bool:
    """Whether bytes are UTF-8 without zero bytes, such as terminal output; the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return 0 not in sample


def unicode_form(head: bytes) -> str | None:
    """utf-16 or utf-32, by a byte order mark or the positions of zero bytes; else None."""
    for mark, form in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return form
    sample = head[: _SAMPLE_SIZE // 4 * 4]
    zeros = sample.count(0)
    if zeros * 3 <= len(sample) or len(sample) < 4:
        return None
    order = "le" if sample[1::2].count(0) >= sample[0::2].count(0) else "be"
    form = f"utf-{32 if zeros * 5 > len(sample) * 3 else 16}-{order}"
    try:
        text = codecs.getincrementaldecoder(form)().decode(sample)
    except UnicodeError:
        return None
    return (
        form
        if text and sum(character.isprintable() or character.isspace() for character in text) > 0.95 * len(text)
        else None
    )


def is_text(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be text."""
    return binary_format(head) is None


def allows_nul_bytes(encoding: str | None) -> bool:
    """Whether ordinary text has zero bytes in this encoding."""
    return (encoding or "").lower().replace("_", "").replace("-", "").startswith(("utf16", "utf32"))

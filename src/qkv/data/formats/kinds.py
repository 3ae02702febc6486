"""What a file holds, by its name and, where that says nothing, by its first lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from qkv.data.files.unpack import CHUNK, Source, read_bytes
from qkv.data.formats.delimited import sniff
from qkv.data.formats.tabular import suffix

Kind = Literal["table", "fasttext", "conll", "conllu", "idx", "npz", "picture", "text"]
DATA_KINDS: tuple[Kind, ...] = ("table", "fasttext", "conll", "conllu", "idx", "npz")
"""Those that hold examples with their labels."""
FASTTEXT = "__label__"
_HEAD = 2**16
_TAG = re.compile(r"O|[BIESLU]-\S+")
_BY_SUFFIX: dict[str, Kind] = {
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq"), "table"),
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".bioes", ".iobes"), "conll"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"), "picture"),
    ".conllu": "conllu",
    ".npz": "npz",
}


def kind_by_name(source: Source) -> Kind | None:
    ending = suffix(source)
    if re.fullmatch(r"\.idx\d-ubyte", ending) or "-idx" in (source.member or source.path.name):
        return "idx"
    return _BY_SUFFIX.get(ending)


def kind_of(source: Source, encoding: str = "utf-8", chunks: Iterator[bytes] | None = None) -> Kind:
    """By name, else by content (`chunks`, where it has been opened before); what is nothing else is text."""
    if (kind := kind_by_name(source)) is not None:
        return kind
    head = b""
    for chunk in chunks or read_bytes(source):
        head += chunk[: CHUNK // 4]
        if len(head) >= _HEAD:
            break
    if re.match(rb"\0\0\x08[\x01-\x04]", head):
        return "idx"
    whole = len(head) < _HEAD
    try:
        text = head[:_HEAD].decode(encoding, errors="replace")
    except (LookupError, UnicodeError):
        return "text"
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    return _by_lines(lines if whole else lines[:-1])


def _by_lines(lines: list[str]) -> Kind:
    solid = [line for line in lines if line.strip()]
    if not solid:
        return "text"
    if all(line.startswith(FASTTEXT) for line in solid[:20]):
        return "fasttext"
    if all(line.startswith("#") or re.match(r"\d+(?:[-.]\d+)?\t", line) for line in solid) and any(
        line.count("\t") == 9 for line in solid
    ):
        return "conllu"
    words = [line.split() for line in solid if not line.startswith(("#", "-DOCSTART-"))]
    tagged = sum(len(cells) > 1 and bool(_TAG.fullmatch(cells[-1])) for cells in words)
    if len(solid) < len(lines) - 1 and tagged > 0.9 * len(words):
        return "conll"
    dialect = sniff(solid, "\t")
    return "table" if dialect.width > 1 and dialect.share > 0.95 else "text"

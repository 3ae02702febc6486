"""What a file holds, by its name and, where that says nothing, by its first lines; each file is opened once for it.

Detection and reading share one `Beginnings`, so that nothing is opened again to be recognised again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import tee
from typing import Literal
from weakref import ref

from qkv.data.files.unpack import CHUNK, Source, read_bytes
from qkv.data.findings import Findings
from qkv.data.formats.delimited import sniff
from qkv.data.formats.tabular import Header, Table, open_table
from qkv.errors import DataError

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
    ending = source.suffix
    if re.fullmatch(r"\.idx\d-ubyte", ending) or "-idx" in source.file_name:
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


MOST_HELD = 20
"""Files whose first bytes are held; of a folder with more, some may be opened again."""


class Beginnings:
    """The beginnings of the files of one set of data: read once, and given from memory as often as they are needed."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._held: dict[Source, Iterator[bytes]] = {}
        self._kinds: dict[Source, Kind] = {}
        self._parquet: dict[Source, Table] = {}

    def kind(self, source: Source) -> Kind:
        """What a file holds, by its name, else by its first lines."""
        if source not in self._kinds:
            self._kinds[source] = kind_of(source, self.encoding, self.chunks(source))
        return self._kinds[source]

    def table(self, source: Source, header: Header = None) -> Table:
        """The first rows of a table; the others are left to whoever opens it to read them."""
        if source in self._parquet:
            return self._parquet[source]
        chunks = None if source.format == "parquet" else self.chunks(source)
        table = open_table(source, self.encoding, Findings(), header, chunks=chunks)
        table = replace(table, rows=iter(table.sample))
        if source.format == "parquet":
            self._parquet[source] = table
        return table

    def chunks(self, source: Source) -> Iterator[bytes]:
        """The bytes of a file, the first of them from memory."""
        while len(self._held) >= MOST_HELD and source not in self._held:
            del self._held[next(iter(self._held))]
        chunks, self._held[source] = tee(self._held.get(source) or _read(source, ref(self)))
        return chunks


def _read(source: Source, holder: ref[Beginnings]) -> Iterator[bytes]:
    """The bytes of a file. The holder is held weakly: in a cycle, open files wait for the garbage collector."""
    try:
        yield from read_bytes(source)
    except DataError:  # whoever asks again is to get the same error
        if (beginnings := holder()) is not None:
            beginnings._held.pop(source, None)
        raise

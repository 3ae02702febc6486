"""Recognises the kind of a file by its name or, if the name is not enough, by its first lines.

`FilePreviews` keeps the first bytes of files in memory, so that detection and reading open a file only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import tee
from typing import Any, Literal
from weakref import ref

from qkv.data.files.decode import decode
from qkv.data.files.unpack import DOCUMENTS, FORMATS, Source, read_bytes
from qkv.data.findings import Findings
from qkv.data.formats import fasta
from qkv.data.formats.character_spans import span_columns
from qkv.data.formats.headers import Header
from qkv.data.formats.json_rows import NoRowsError
from qkv.data.formats.labelled_lines import (
    SNIFFED,
    SNIFFED_WITH_HEADINGS,
    LabelledLines,
    begins_with_heading,
    sniff_lines,
)
from qkv.data.formats.tabular import Table, open_table
from qkv.errors import DataError

FileKind = Literal["table", "fasttext", "conll", "conllu", "spans", "idx", "npz", "image", "text", "lines"]
"""In "lines", each line is an example whose label is not in the file."""
LABELLED_KINDS: tuple[FileKind, ...] = ("table", "fasttext", "conll", "conllu", "spans", "idx", "npz")
"""The kinds of files that contain labels. Images and texts may have theirs in the names of folders."""
IMAGE_KINDS: tuple[FileKind, ...] = ("idx", "npz", "image")
FASTTEXT_PREFIX = "__label__"
METADATA_FILES = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
"""Files that the datasets library of Hugging Face stores with the rows."""
_TAGGED: tuple[FileKind, ...] = ("conll", "conllu")
_MAYBE_TAGGED = (".tsv", ".csv")
"""Suffixes of tables that files of tagged words may have, too."""
MAX_PREVIEWS = 20
"""The number of files whose first bytes are kept; other files may be opened again."""
_PREFIXED_TAG = re.compile(r"O|[BIESLU]-\S+")
_KIND_BY_SUFFIX: dict[str, FileKind] = {
    **dict.fromkeys(FORMATS, "table"),
    **dict.fromkeys(DOCUMENTS, "text"),
    **dict.fromkeys(fasta.SUFFIXES, "table"),
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".bioes", ".iobes"), "conll"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"), "image"),
    ".conllu": "conllu",
    ".npz": "npz",
}


def kind_by_name(source: Source) -> FileKind | None:
    """The kind that a file's name implies; None for a name such as data.txt."""
    if source.file_name in METADATA_FILES:
        return "text"
    if re.fullmatch(r"\.idx\d-ubyte", source.suffix) or "-idx" in source.file_name:
        return "idx"
    return _KIND_BY_SUFFIX.get(source.suffix)


def _kind_by_content(chunks: Iterator[bytes], encoding: str | None) -> FileKind:
    """The kind of a file by its first bytes; text if they look like nothing else."""
    head = _read_head(chunks, b"", SNIFFED)
    if re.match(rb"\0\0\x08[\x01-\x04]", head):
        return "idx"
    try:
        lines = _whole_lines(head, SNIFFED, encoding)
        if begins_with_heading(lines):
            lines = _whole_lines(_read_head(chunks, head, SNIFFED_WITH_HEADINGS), SNIFFED_WITH_HEADINGS, encoding)
    except (DataError, LookupError):
        return "text"
    return _kind_by_lines(lines)


def _read_head(chunks: Iterator[bytes], head: bytes, size: int) -> bytes:
    while len(head) < size and (chunk := next(chunks, None)) is not None:
        head += chunk
    return head


def _whole_lines(head: bytes, size: int, encoding: str | None) -> list[str]:
    """The lines in the first `size` bytes, without an incomplete one."""
    lines = "".join(decode([head[:size]], "", encoding, Findings())).split("\n")
    return lines if len(head) < size else lines[:-1]


def _kind_by_lines(lines: list[str]) -> FileKind:
    filled = [line for line in lines if line.strip()]
    if not filled:
        return "text"
    if all(line.startswith(FASTTEXT_PREFIX) for line in filled[:20]):
        return "fasttext"
    if all(line.startswith("#") or re.match(r"\d+(?:[-.]\d+)?\t", line) for line in filled) and any(
        line.count("\t") == 9 for line in filled
    ):
        return "conllu"
    rows = [line.split() for line in filled if not line.startswith(("#", "-DOCSTART-"))]
    tagged = sum(len(cells) > 1 and bool(_PREFIXED_TAG.fullmatch(cells[-1])) for cells in rows)
    has_blank_lines = len(filled) < len(lines) - 1
    if has_blank_lines and tagged > 0.9 * len(rows):
        return "conll"
    layout = sniff_lines(lines)
    return "text" if layout is None or (isinstance(layout, LabelledLines) and not layout.certain) else "table"


class FilePreviews:
    """Reads the kinds, the first rows and the bytes of files, and keeps them in memory for later reads."""

    def __init__(self, encoding: str | None) -> None:
        self.encoding = encoding
        self._chunks: dict[Source, Iterator[bytes]] = {}
        self._kinds: dict[Source, FileKind] = {}
        self._tables: dict[Source, Table] = {}
        self.layouts: dict[object, Any] = {}  # of folders, for later use; their types are not known here

    def kind(self, source: Source) -> FileKind:
        if source not in self._kinds:
            by_name = None if source.suffix in _MAYBE_TAGGED else kind_by_name(source)
            kind = by_name or _kind_by_content(self.chunks(source), self.encoding)
            self._kinds[source] = kind if kind in _TAGGED else kind_by_name(source) or kind
            if source.format == "json" and not self._has_rows(source):
                self._kinds[source] = "text"
            elif source.format in ("json", "jsonl") and self._has_spans(source):
                self._kinds[source] = "spans"
        return self._kinds[source]

    def _has_rows(self, source: Source) -> bool:
        """Whether a JSON file has rows; settings and measurements have none. Damaged files are refused when read."""
        try:
            self.table(source)
        except NoRowsError:
            return False
        except (DataError, LookupError):
            pass
        return True

    def _has_spans(self, source: Source) -> bool:
        """Whether the rows of a JSON file are texts with spans of characters. Damaged files are refused when read."""
        try:
            return span_columns(self.table(source)) is not None
        except (DataError, LookupError):
            return False

    def first_lines(self, source: Source) -> list[str]:
        """The whole lines at the beginning of a text; none if it cannot be decoded."""
        try:
            return _whole_lines(_read_head(self.chunks(source), b"", SNIFFED), SNIFFED, self.encoding)
        except (DataError, LookupError):
            return []

    def table(self, source: Source, header: Header = None) -> Table:
        """A table whose rows are those of its sample, the first rows of the file."""
        if source in self._tables:
            return self._tables[source]
        chunks = None if source.is_read_whole else self.chunks(source)
        table = open_table(source, self.encoding, Findings(), header, chunks=chunks)
        table = replace(table, rows=iter(table.sample))
        if source.is_read_whole:
            self._tables[source] = table
        return table

    def chunks(self, source: Source) -> Iterator[bytes]:
        """The bytes of a file; those that were read before come from memory."""
        while len(self._chunks) >= MAX_PREVIEWS and source not in self._chunks:
            del self._chunks[next(iter(self._chunks))]
        source = replace(source, split=None)
        chunks, self._chunks[source] = tee(self._chunks.get(source) or _read_chunks(source, ref(self)))
        return chunks


def _read_chunks(source: Source, previews: ref[FilePreviews]) -> Iterator[bytes]:
    """The bytes of a file. A weak reference avoids a cycle, which would keep the file open until it is collected."""
    try:
        yield from read_bytes(source)
    except DataError:  # forget the failed iterator, so that the next reader gets the error too, not a truncated file
        if (strong := previews()) is not None:
            strong._chunks.pop(source, None)
        raise

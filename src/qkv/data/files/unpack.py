"""The uncompressed bytes of a file in chunks of bounded size: a gigabyte on one line takes as little memory as a page.

Sparse files are refused: the parts that are not stored on the disk are read as zeros, and a terabyte of zeros takes no
effort to make and hours to read.
"""

from __future__ import annotations

import lzma
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Literal

from qkv.data.files.archives import Archive, Member, is_archive, open_archive
from qkv.data.files.decompress import (
    COMPRESSIONS,
    COPY_AGAIN,
    Compression,
    chunks_of,
    damaged_error,
    decompress,
)
from qkv.data.findings import Caution, Findings, display_name
from qkv.errors import DataError, require_package

SPARSE_SIZE, SPARSE_RATIO = 2**30, 10
"""A larger file is refused if it is more than this many times as large as what is stored of it on the disk."""
SUSPICIOUS_SIZE, SUSPICIOUS_RATIO = 2**30, 200
"""Uncompressed data that is larger is refused if it is more than this many times as large as the compressed file."""
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    struct.error,
    ValueError,
    OverflowError,
    RuntimeError,
    IndexError,
)
"""What the zipfile module raises for a damaged or hostile archive."""
_ARCHIVE_ERRORS = (*ZIP_ERRORS, tarfile.TarError, KeyError)

DocumentFormat = Literal["html", "docx", "pdf", "ipynb", "epub", "rtf", "eml", "mbox"]
Format = Literal["text", "jsonl", "json", "parquet", "arrow", "workbook", "table", "tmx"] | DocumentFormat

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t,;|"}
"""The endings of delimited tables, each with the delimiters that are likely, the likeliest first."""
FORMATS: dict[str, Format] = {
    **dict.fromkeys(DELIMITERS, "table"),
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    **dict.fromkeys((".xlsx", ".xlsm"), "workbook"),
    ".tmx": "tmx",
}
TABLE_PACKAGES: dict[Format, str] = {"parquet": "pyarrow", "arrow": "pyarrow", "workbook": "openpyxl"}
"""Formats of tables that a package reads from the file itself."""
DOCUMENTS: dict[str, Format] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".docx": "docx",
    ".pdf": "pdf",
    ".ipynb": "ipynb",
    ".epub": "epub",
    ".rtf": "rtf",
    ".eml": "eml",
    ".mbox": "mbox",
}
"""The endings of documents, of which the text is extracted."""
ALL_FORMATS: dict[str, Format] = {**FORMATS, **DOCUMENTS}
DOCUMENT_PACKAGES: dict[Format, str] = {
    "html": "lxml",
    "docx": "lxml",
    "epub": "lxml",
    "pdf": "pypdf",
    "rtf": "striprtf",
    "eml": "lxml",
    "mbox": "lxml",
}
"""The packages that extract the text of documents; notebooks need none."""


@dataclass(frozen=True)
class Source:
    """A file, or a member of an archive."""

    path: Path
    member: str | None = None
    name: str | None = None
    """The name for messages, if it differs from the path."""
    split: str | None = None
    """For a table with a column of splits: only the rows of this split are read."""

    @property
    def display_name(self) -> str:
        base = self.name or display_name(self.path)
        return f"{base}/{display_name(self.member)}" if self.member else base

    @property
    def file_name(self) -> str:
        """The name without folders; that of the member in an archive."""
        return PurePath(self.member or self.path).name

    @property
    def suffix(self) -> str:
        """The suffix of the format: .csv for table.csv.gz."""
        name = PurePath(self.file_name)
        return (name.with_suffix("") if self.inner_compression != "plain" else name).suffix.lower()

    @property
    def compression(self) -> Compression:
        """How the file on disk is compressed; for a member, the format of its archive."""
        if is_archive(self.path):
            return "zip" if self.path.suffix.lower() == ".zip" else "tar"
        return COMPRESSIONS.get(self.path.suffix.lower(), "plain")

    @property
    def inner_compression(self) -> Compression:
        """How the file itself is compressed, or the member of the archive."""
        return COMPRESSIONS.get(PurePath(self.file_name).suffix.lower(), "plain")

    @property
    def is_read_whole(self) -> bool:
        """Whether a package reads the file itself, and not a stream of its bytes."""
        return self.format in TABLE_PACKAGES

    @property
    def format(self) -> Format:
        return ALL_FORMATS.get(self.suffix, "text")

    @property
    def is_document(self) -> bool:
        return self.suffix in DOCUMENTS


@dataclass(frozen=True)
class Builtin:
    """A set of documents that comes with the installed Python, such as the source of its standard library."""

    display_name: str
    documents: Callable[[], Iterable[str]]


def require_not_sparse(path: Path, where: str) -> None:
    """Refuse a large file that is hardly stored on the disk. OSError if the file cannot be examined."""
    status = path.stat()
    stored = status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size
    if status.st_size > max(SPARSE_SIZE, SPARSE_RATIO * stored):
        problem = f"of its {status.st_size:,} bytes only {stored:,} are stored, the rest are holes"
        raise DataError(where, problem, COPY_AGAIN)


def require_no_hole(path: Path, where: str) -> None:
    """Refuse a text file with a hole, which is read as NUL bytes. OSError if the file cannot be examined."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not hasattr(os, "SEEK_HOLE") or status.st_blocks * 512 >= status.st_size:
            return
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        if hole < status.st_size and os.pread(file.fileno(), 1, hole) == b"\0":
            problem = f"from byte {hole:,} on the file has a hole, which is read as NUL bytes; text has none"
            raise DataError(where, problem, COPY_AGAIN)


def require_packages(sources: Iterable[Source | Builtin]) -> None:
    """Refuse sources whose reader is not installed, before any of them is read."""
    for source in sources:
        if isinstance(source, Source) and "zst" in (source.inner_compression, COMPRESSIONS.get(source.path.suffix)):
            require_package("zstandard", f"{source.display_name}: reading .zst")
        packages = {**TABLE_PACKAGES, **DOCUMENT_PACKAGES}
        if isinstance(source, Source) and (package := packages.get(source.format)) is not None:
            require_package(package, f"{source.display_name}: reading {source.suffix}")


def read_bytes(source: Source) -> Iterator[bytes]:
    """The uncompressed bytes of a source, in chunks. Every failure of reading is raised as a DataError."""
    read_size = 0
    try:
        require_not_sparse(source.path, source.display_name)
        file_size = source.path.stat().st_size
        if source.compression != "plain":
            yield from _no_bomb(_read_member(source) if is_archive(source.path) else _read_compressed(source), source)
            return
        for chunk in _read_plain(source):
            read_size += len(chunk)
            if read_size > file_size:  # reading a growing log might never end
                raise changed_error(source.display_name)
            yield chunk
        if read_size < file_size:  # the last row may be cut, and look complete
            raise changed_error(source.display_name)
    except OSError as error:
        raise unreadable_error(source.display_name, error) from None


def _no_bomb(chunks: Iterator[bytes], source: Source) -> Iterator[bytes]:
    """The same chunks; DataError as soon as they are far more than a compressed file of ordinary text holds."""
    read_size, file_size = 0, source.path.stat().st_size
    for chunk in chunks:
        read_size += len(chunk)
        if read_size > max(SUSPICIOUS_SIZE, SUSPICIOUS_RATIO * file_size):
            raise DataError(
                source.display_name,
                f"unpacks to more than {SUSPICIOUS_RATIO} times its {file_size:,} bytes, as archive bombs do",
                "If it is ordinary text, unpack it yourself and give the unpacked file.",
            )
        yield chunk


def changed_error(where: str) -> DataError:
    return DataError(
        where, "changed while it was being read", "Start again when nothing writes to it, or make a copy first."
    )


def unreadable_error(where: str, error: OSError) -> DataError:
    """The DataError for an error of the operating system."""
    if isinstance(error, FileNotFoundError):
        return DataError(where, "vanished while it was being read", "Put it back and start again.")
    if isinstance(error, PermissionError):
        return DataError(where, "no permission to read it", "Change its permissions, or copy it to a folder of yours.")
    return DataError(where, f"cannot be read: {error.strerror or error}", "Check the file and the disk it is on.")


def _read_plain(source: Source) -> Iterator[bytes]:
    with source.path.open("rb") as file:
        yield from chunks_of(file)


def _read_compressed(source: Source) -> Iterator[bytes]:
    with source.path.open("rb") as file:
        yield from decompress(file, source.inner_compression, source.display_name)


def _read_member(source: Source) -> Iterator[bytes]:
    if source.member is None:
        problem = f"is a {source.compression} archive, which is not read here"
        raise DataError(source.display_name, problem, "Unpack it and give its files.")
    archive = _opened(source.path, source.name or display_name(source.path))
    try:
        with archive.open(source.member) as file:
            if source.inner_compression == "plain":
                yield from chunks_of(file)
            else:
                yield from decompress(file, source.inner_compression, source.display_name)
    except _ARCHIVE_ERRORS as error:
        if isinstance(error, RuntimeError) and re.search("password|encrypted", str(error)):
            raise DataError(
                source.display_name, "this member is encrypted", "Unpack it with its password first."
            ) from None
        raise damaged_error(source.display_name, source.compression, error) from None


def _opened(path: Path, where: str) -> Archive:
    """Open an archive; DataError if the file is not an archive."""
    kind = Source(path).compression
    try:
        status = path.stat()
        return _open_archive(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise unreadable_error(where, error) from None
    except _ARCHIVE_ERRORS as error:
        if kind == "zip":
            with path.open("rb") as file:
                if file.read(2) != b"PK":
                    problem = "is named .zip but is not a zip"
                    raise DataError(where, problem, "Rename it to match its content.") from None
        raise damaged_error(where, kind, error) from None


@lru_cache(maxsize=2)  # reading a list of ten thousand members again for each member would take minutes
def _open_archive(path: Path, size: int, modified: int) -> Archive:
    """The opened archive; size and time of modification are part of the cache's key."""
    source = Source(path)
    unpacked = _no_bomb(_read_compressed(source), source) if source.inner_compression != "plain" else None
    return open_archive(path, unpacked)


def archive_members(path: Path, where: str, findings: Findings) -> list[Member]:
    """The files in an archive, sorted. If a name occurs twice, the last file counts, as in other tools."""
    archive = _opened(path, where)
    if repeated := archive.repeated:
        subject = f"{len(repeated):,} names are" if len(repeated) > 1 else "1 name is"
        problem = f"{where}: {subject} repeated, the first {display_name(repeated[0])}"
        findings.add_note(Caution(f"{problem}; of each the last file is read."))
    if archive.not_files:
        findings.skipped["not a file"] += archive.not_files
    return archive.members

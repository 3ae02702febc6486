"""The uncompressed bytes of a file in chunks of bounded size: a gigabyte on one line takes as little memory as a page.

Sparse files are refused: the parts that are not stored on the disk are read as zeros, and a terabyte of zeros takes no
effort to make and hours to read.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import BinaryIO, Literal

from qkv.data.findings import Caution, Findings, display_name
from qkv.errors import DataError, require_package

CHUNK_SIZE = 2**20
SPARSE_SIZE, SPARSE_RATIO = 2**30, 10
"""A larger file is refused if it is more than this many times as large as what is stored of it on the disk."""
SUSPICIOUS_SIZE, SUSPICIOUS_RATIO = 2**30, 200
"""Uncompressed data that is larger is refused if it is more than this many times as large as the compressed file."""
COPY_AGAIN = "Copy or download it again."
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

Format = Literal["text", "jsonl", "json", "parquet", "table", "html", "docx", "pdf", "ipynb", "epub", "rtf"]
Compression = Literal["plain", "gz", "zst", "zip"]

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t,;|"}
"""The endings of delimited tables, each with the marks that may separate its cells, the likeliest first."""
FORMATS: dict[str, Format] = {
    **dict.fromkeys(DELIMITERS, "table"),
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DOCUMENTS: dict[str, Format] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".docx": "docx",
    ".pdf": "pdf",
    ".ipynb": "ipynb",
    ".epub": "epub",
    ".rtf": "rtf",
}
"""The endings of documents, of which the text is extracted."""
ALL_FORMATS: dict[str, Format] = {**FORMATS, **DOCUMENTS}
DOCUMENT_PACKAGES: dict[Format, str] = {
    "html": "lxml",
    "docx": "lxml",
    "epub": "lxml",
    "pdf": "pypdf",
    "rtf": "striprtf",
}
"""The packages that extract the text of documents; notebooks need none."""
COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst", ".zip": "zip"}


@dataclass(frozen=True)
class Source:
    """A file, or a member of a zip archive."""

    path: Path
    member: str | None = None
    name: str | None = None
    """The name for messages, if it is not the path."""
    split: str | None = None
    """Of a table with a column of splits: only the rows of this one."""

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
        """The suffix that tells the format: .csv for table.csv.gz."""
        name = PurePath(self.file_name)
        return (name.with_suffix("") if not self.member and self.compression in ("gz", "zst") else name).suffix.lower()

    @property
    def compression(self) -> Compression:
        return COMPRESSIONS.get(self.path.suffix.lower(), "plain")

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
        if isinstance(source, Source) and source.compression == "zst":
            require_package("zstandard", f"{source.display_name}: reading .zst")
        if isinstance(source, Source) and source.format == "parquet":
            require_package("pyarrow", f"{source.display_name}: reading .parquet")
        if isinstance(source, Source) and (package := DOCUMENT_PACKAGES.get(source.format)) is not None:
            require_package(package, f"{source.display_name}: reading {source.suffix}")


def read_bytes(source: Source) -> Iterator[bytes]:
    """The uncompressed bytes of a source, in chunks. Every failure of reading is raised as a DataError."""
    reader = {"plain": _read_plain, "gz": _read_gzip, "zst": _read_zstandard, "zip": _read_zip_member}
    read_size = 0
    try:
        require_not_sparse(source.path, source.display_name)
        file_size = source.path.stat().st_size
        for chunk in reader[source.compression](source):
            read_size += len(chunk)
            if source.compression != "plain" and read_size > max(SUSPICIOUS_SIZE, SUSPICIOUS_RATIO * file_size):
                raise DataError(
                    source.display_name,
                    f"unpacks to more than {SUSPICIOUS_RATIO} times its {file_size:,} bytes, as archive bombs do",
                    "If it is ordinary text, unpack it yourself and give the unpacked file.",
                )
            if source.compression == "plain" and read_size > file_size:  # reading a growing log might never end
                raise changed_error(source.display_name)
            yield chunk
        if source.compression == "plain" and read_size < file_size:  # the last row may be cut, and look complete
            raise changed_error(source.display_name)
    except OSError as error:
        raise unreadable_error(source.display_name, error) from None


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


def _damaged_error(source: Source, kind: str, problem: object) -> DataError:
    return DataError(source.display_name, f"the {kind} data is damaged or cut short ({problem})", COPY_AGAIN)


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(partial(read, CHUNK_SIZE), b"")


def _read_plain(source: Source) -> Iterator[bytes]:
    with source.path.open("rb") as file:
        yield from _chunks(file.read)


def _read_gzip(source: Source) -> Iterator[bytes]:
    try:
        with source.path.open("rb") as compressed, gzip.GzipFile(fileobj=compressed) as file:
            _require_magic(source, compressed, b"\x1f\x8b", "gzip")
            yield from _chunks(file.read)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged_error(source, "gzip", error) from None


def _read_zstandard(source: Source) -> Iterator[bytes]:
    require_packages([source])
    import zstandard

    try:
        with source.path.open("rb") as file:
            _require_magic(source, file, b"\x28\xb5\x2f\xfd", "zstandard")
            frame = None
            # a few compressed bytes may expand to many, so only a few are decompressed at a time
            while compressed := file.read(CHUNK_SIZE // 64):
                while compressed:
                    frame = frame or zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
                    if chunk := frame.decompress(compressed):
                        yield chunk
                    compressed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
            if frame is not None:
                raise _damaged_error(source, "zstandard", "the last frame has no end")
    except zstandard.ZstdError as error:
        raise _damaged_error(source, "zstandard", error) from None


def _require_magic(source: Source, file: BinaryIO, magic: bytes, kind: str) -> None:
    """Refuse an empty file, and one whose first bytes do not fit its suffix."""
    head = file.read(len(magic))
    file.seek(0)
    if not head:
        raise DataError(source.display_name, "the file is empty", "Give a file that holds text.")
    if not head.startswith(magic):
        raise DataError(
            source.display_name,
            f"is named {source.path.suffix} but does not hold {kind} data",
            "Give it the name that fits its content.",
        )


def _read_zip_member(source: Source) -> Iterator[bytes]:
    if source.member is None:
        raise DataError(
            source.display_name, "is a zip archive, which is not read here", "Unpack it and give its files."
        )
    try:
        status = source.path.stat()
        with _open_zip(source.path, status.st_size, status.st_mtime_ns).open(source.member) as file:
            yield from _chunks(file.read)
    except (*ZIP_ERRORS, KeyError) as error:
        if isinstance(error, RuntimeError) and re.search("password|encrypted", str(error)):
            raise DataError(
                source.display_name, "this member is encrypted", "Unpack it with its password first."
            ) from None
        raise _damaged_error(source, "zip", error) from None


@lru_cache(maxsize=2)  # reading a list of ten thousand members again for each member would take minutes
def _open_zip(path: Path, size: int, modified: int) -> zipfile.ZipFile:
    """The opened archive; size and time of modification are part of the cache's key."""
    return zipfile.ZipFile(path)


def zip_members(path: Path, where: str, findings: Findings) -> list[str]:
    """The names of the files in a zip, sorted. If a name occurs twice, the last file counts, as in other tools."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = Counter(info.filename for info in archive.infolist() if not info.is_dir())
    except OSError as error:
        raise unreadable_error(where, error) from None
    except ZIP_ERRORS as error:
        with path.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        if not is_zip:
            raise DataError(where, "is named .zip but is no zip", "Give it the name that fits its content.") from None
        raise _damaged_error(Source(path, name=where), "zip", error) from None
    if repeated := sorted(name for name, count in names.items() if count > 1):
        subject = f"{len(repeated):,} names are" if len(repeated) > 1 else "1 name is"
        problem = f"{where}: {subject} there more than once, the first {display_name(repeated[0])}"
        findings.add_note(Caution(f"{problem}; of each the last file is read."))
    return sorted(names)

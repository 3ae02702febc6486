"""Bytes of a source, unpacked, in chunks of bounded size: a gigabyte on one line takes as little memory as a page.

Sparse files are refused: parts that the disk does not hold are read as zeros, and a terabyte of them costs nothing to
make and hours to read.
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

# a file this large of which the disk holds so little is a mistake or a trap; zeros inside archives make small holes
SPARSE_SIZE, SPARSE_RATIO = 2**30, 10
REMEDY = "Copy or download it again."


def require_stored(path: Path, where: str) -> None:
    """Refuse a file that is nearly all holes. OSError where it cannot be looked at."""
    status = path.stat()
    stored = status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size
    if status.st_size > max(SPARSE_SIZE, SPARSE_RATIO * stored):
        problem = f"of its {status.st_size:,} bytes only {stored:,} are stored, the rest are holes"
        raise DataError(where, problem, REMEDY)


def require_no_hole(path: Path, where: str) -> None:
    """Refuse a text with a hole, which is read as NUL bytes. OSError where it cannot be looked at."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not hasattr(os, "SEEK_HOLE") or status.st_blocks * 512 >= status.st_size:
            return
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        if hole < status.st_size and os.pread(file.fileno(), 1, hole) == b"\0":
            problem = f"from byte {hole:,} on the file has a hole, which is read as NUL bytes; text has none"
            raise DataError(where, problem, REMEDY)


CHUNK = 2**20
# an honest text does not shrink two-hundredfold; a bomb does
SUSPICIOUS_SIZE, SUSPICIOUS_RATIO = 2**30, 200

Format = Literal["text", "jsonl", "json", "parquet", "table"]
Packing = Literal["plain", "gz", "zst", "zip"]

FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "table",
    ".tsv": "table",
}
PACKINGS: dict[str, Packing] = {".gz": "gz", ".zst": "zst", ".zip": "zip"}


@dataclass(frozen=True)
class Source:
    """One stream of bytes: a file, or a member of an archive."""

    path: Path
    member: str | None = None
    name: str | None = None
    """How messages call it, when not by its path."""

    @property
    def display_name(self) -> str:
        base = self.name or display_name(self.path)
        return f"{base}/{display_name(self.member)}" if self.member else base

    @property
    def file_name(self) -> str:
        """That of the file inside, where it is in an archive."""
        return PurePath(self.member or self.path).name

    @property
    def suffix(self) -> str:
        """The ending that says what a file holds, packing left aside."""
        name = PurePath(self.file_name)
        return (name.with_suffix("") if not self.member and self.packing in ("gz", "zst") else name).suffix.lower()

    @property
    def packing(self) -> Packing:
        return PACKINGS.get(self.path.suffix.lower(), "plain")

    @property
    def format(self) -> Format:
        return FORMATS.get(self.suffix, "text")


@dataclass(frozen=True)
class Builtin:
    """A source whose documents are at hand without a file of their own."""

    display_name: str
    documents: Callable[[], Iterable[str]]


def require_packages(sources: Iterable[Source | Builtin]) -> None:
    """Refuse sources whose reader is not installed, before any of them is read."""
    for source in sources:
        if isinstance(source, Source) and source.packing == "zst":
            require_package("zstandard", f"{source.display_name}: reading .zst")
        if isinstance(source, Source) and source.format == "parquet":
            require_package("pyarrow", f"{source.display_name}: reading .parquet")


def read_bytes(source: Source) -> Iterator[bytes]:
    """The bytes of a source, unpacked. Every way in which a file can fail ends in a DataError."""
    opened = {"plain": _plain, "gz": _gzip, "zst": _zstandard, "zip": _member}[source.packing]
    unpacked = 0
    try:
        require_stored(source.path, source.display_name)
        packed = source.path.stat().st_size
        for chunk in opened(source):
            unpacked += len(chunk)
            if source.packing != "plain" and unpacked > max(SUSPICIOUS_SIZE, SUSPICIOUS_RATIO * packed):
                raise DataError(
                    source.display_name,
                    f"unpacks to more than {SUSPICIOUS_RATIO} times its {packed:,} bytes, as archive bombs do",
                    "If it is honest text, unpack it yourself and give the unpacked file.",
                )
            if source.packing == "plain" and unpacked > packed:  # a log that is being written would never end
                raise changed(source.display_name)
            yield chunk
        if source.packing == "plain" and unpacked < packed:  # a row that was cut would pass for a whole one
            raise changed(source.display_name)
    except OSError as error:
        raise unreadable(source.display_name, error) from None


def changed(where: str) -> DataError:
    return DataError(where, "changed while it was being read", "Start again when it rests, or make a copy first.")


def unreadable(where: str, error: OSError) -> DataError:
    """The system's refusals in words."""
    if isinstance(error, FileNotFoundError):
        return DataError(where, "vanished while it was being read", "Put it back and start again.")
    if isinstance(error, PermissionError):
        return DataError(where, "no permission to read it", "Change its permissions, or copy it to your own place.")
    return DataError(where, f"cannot be read: {error.strerror or error}", "Check the file and the disk it is on.")


def _plain(source: Source) -> Iterator[bytes]:
    with source.path.open("rb") as file:
        yield from _chunks(file.read)


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(partial(read, CHUNK), b"")


def _damaged(source: Source, kind: str, error: object) -> DataError:
    return DataError(
        source.display_name, f"the {kind} data is damaged or cut short ({error})", "Copy or download it again."
    )


def _gzip(source: Source) -> Iterator[bytes]:
    try:
        with source.path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as file:
            _require_magic(source, packed, b"\x1f\x8b", "gzip")
            yield from _chunks(file.read)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(source, "gzip", error) from None


def _zstandard(source: Source) -> Iterator[bytes]:
    require_packages([source])
    import zstandard

    try:
        with source.path.open("rb") as file:
            _require_magic(source, file, b"\x28\xb5\x2f\xfd", "zstandard")
            frame = None
            # a small piece of input may unpack to a large piece of output, so the input pieces are small
            while packed := file.read(CHUNK // 64):
                while packed:
                    frame = frame or zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
                    if chunk := frame.decompress(packed):
                        yield chunk
                    packed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
            if frame is not None:
                raise _damaged(source, "zstandard", "the last frame has no end")
    except zstandard.ZstdError as error:
        raise _damaged(source, "zstandard", error) from None


# what the zip module raises on a damaged or hostile archive
ZIP_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    struct.error,
    ValueError,
    OverflowError,
    RuntimeError,
)


def _member(source: Source) -> Iterator[bytes]:
    if source.member is None:
        raise DataError(
            source.display_name, "is a zip archive, which is not read here", "Unpack it and give its files."
        )
    try:
        status = source.path.stat()
        with _archive(source.path, status.st_size, status.st_mtime_ns).open(source.member) as file:
            yield from _chunks(file.read)
    except (*ZIP_FAILURES, KeyError) as error:
        if isinstance(error, RuntimeError) and re.search("password|encrypted", str(error)):
            raise DataError(
                source.display_name, "this member is encrypted", "Unpack it with its password first."
            ) from None
        raise _damaged(source, "zip", error) from None


@lru_cache(maxsize=2)  # a list of ten thousand members, read again for each of them, would take minutes
def _archive(path: Path, size: int, changed: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


def zip_members(path: Path, where: str, findings: Findings) -> list[str]:
    """The files inside a zip, sorted by name; of files with one name the last, as every tool unpacks it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = Counter(info.filename for info in archive.infolist() if not info.is_dir())
    except OSError as error:
        raise unreadable(where, error) from None
    except ZIP_FAILURES as error:
        with path.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        if not is_zip:
            raise DataError(where, "is named .zip but is no zip", "Give it the name that fits its content.") from None
        raise _damaged(Source(path, name=where), "zip", error) from None
    if twice := sorted(name for name, count in names.items() if count > 1):
        what = f"{len(twice):,} names are" if twice[1:] else "1 name is"
        what = f"{where}: {what} there more than once, the first {display_name(twice[0])}"
        findings.add_note(Caution(f"{what}; of each the last file is read."))
    return sorted(names)


def _require_magic(source: Source, file: BinaryIO, magic: bytes, kind: str) -> None:
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

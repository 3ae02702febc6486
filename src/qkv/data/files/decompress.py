"""The bytes of compressed files, in chunks: gzip, bzip2 and xz by the standard library, zstandard with a package."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Literal

from qkv.errors import DataError, require_package

CHUNK_SIZE = 2**20
COPY_AGAIN = "Copy or download it again."

Compression = Literal["plain", "gz", "bz2", "xz", "zst", "zip", "tar"]
COMPRESSIONS: dict[str, Compression] = {
    ".gz": "gz",
    ".tgz": "gz",
    ".bz2": "bz2",
    ".tbz": "bz2",
    ".tbz2": "bz2",
    ".xz": "xz",
    ".txz": "xz",
    ".zst": "zst",
}
_MAGIC: dict[Compression, tuple[bytes, str]] = {
    "gz": (b"\x1f\x8b", "gzip"),
    "bz2": (b"BZh", "bzip2"),
    "xz": (b"\xfd7zXZ", "xz"),
    "zst": (b"\x28\xb5\x2f\xfd", "zstandard"),
}


def chunks_of(file: io.BufferedIOBase) -> Iterator[bytes]:
    return iter(partial(file.read, CHUNK_SIZE), b"")


def damaged_error(where: str, kind: str, problem: object) -> DataError:
    return DataError(where, f"the {kind} data is damaged or cut short ({problem})", COPY_AGAIN)


def decompress(file: io.BufferedIOBase, compression: Compression, where: str) -> Iterator[bytes]:
    """The bytes that a compressed file unpacks to; DataError for other or damaged files."""
    if compression == "zst":
        require_package("zstandard", f"{where}: reading .zst")
    magic, kind = _MAGIC[compression]
    head = file.read(len(magic))
    file.seek(0)
    if not head:
        raise DataError(where, "the file is empty", "Give a file that holds text.")
    if not head.startswith(magic):
        problem = f"is named .{compression} but does not hold {kind} data"
        raise DataError(where, problem, "Rename it to match its content.")
    try:
        if compression == "zst":
            yield from _decompress_zstandard(file, where)
        else:
            with _open(file, compression) as unpacked:
                yield from chunks_of(unpacked)
    except OSError as error:
        if error.errno is not None:
            raise
        raise damaged_error(where, kind, error) from None  # bz2 and gzip raise OSError without errno for damage
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise damaged_error(where, kind, error) from None


def _open(file: io.BufferedIOBase, compression: Compression) -> io.BufferedIOBase:
    if compression == "gz":
        return gzip.GzipFile(fileobj=file)
    return bz2.BZ2File(file) if compression == "bz2" else lzma.LZMAFile(file)  # type: ignore[arg-type]


def _decompress_zstandard(file: io.BufferedIOBase, where: str) -> Iterator[bytes]:
    import zstandard

    frame = None
    try:
        # a few compressed bytes may expand to many, so only a few are decompressed at a time
        while compressed := file.read(CHUNK_SIZE // 64):
            while compressed:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
                if chunk := frame.decompress(compressed):
                    yield chunk
                compressed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        if frame is not None:
            raise damaged_error(where, "zstandard", "the last frame has no end")
    except zstandard.ZstdError as error:
        raise damaged_error(where, "zstandard", error) from None

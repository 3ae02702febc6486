"""Archives, zip and tar: the names and sizes of their files, and the bytes of one file.

Nothing is ever extracted: a file of an archive is read in place, so malicious file names do no harm. Links and devices
of a tar are ignored. A compressed tar has no list of its files, so it is unpacked once into a temporary file of the
cache, which has no name and is deleted when the process ends.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple
from unicodedata import normalize

from qkv.data.cache import REMEDY, cache_folder
from qkv.storage import storage_errors, storage_remedy

TAR_SUFFIXES = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
ARCHIVE_SUFFIXES = (".zip", *TAR_SUFFIXES)
_UTF_8_FLAG = 0x800
MAX_HEADER_BYTES = 2**20
"""A longer name or comment of a file in a tar is refused: it would be read into memory."""


class Member(NamedTuple):
    """A file of an archive."""

    name: str
    size: int


class Archive:
    """An open archive. Its file is closed when the object is deleted, or when it turns out not to be an archive."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def __del__(self) -> None:
        if hasattr(self, "file"):  # not if the bytes of a compressed tar could not be unpacked
            self.file.close()

    members: list[Member]
    """Its files, sorted by name."""
    repeated: list[str]
    """Names that several files have; the last file of such a name is read."""
    not_files: int
    """The number of links, devices and the like in it."""

    def open(self, name: str) -> io.BufferedIOBase:
        """Open a file of the archive; KeyError for an unknown name."""
        raise NotImplementedError


class ZipArchive(Archive):
    def __init__(self, path: Path) -> None:
        super().__init__(path.open("rb"))
        self._zip = zipfile.ZipFile(self.file)
        files = [(_name_in_zip(info), info) for info in self._zip.infolist() if not info.is_dir()]
        self._files = dict(files)
        self.members = sorted(Member(name, info.file_size) for name, info in self._files.items())
        self.repeated = _repeated(name for name, _ in files)
        self.not_files = 0

    def open(self, name: str) -> io.BufferedIOBase:
        return self._zip.open(self._files[name])  # type: ignore[return-value]


def _name_in_zip(info: zipfile.ZipInfo) -> str:
    """The name of a file, in composed characters. macOS writes names in UTF-8 without the flag that says so, which the
    zipfile module then reads as cp437."""
    name = info.filename
    if not info.flag_bits & _UTF_8_FLAG:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return normalize("NFC", name)


class TarArchive(Archive):
    def __init__(self, path: Path, unpacked: Iterable[bytes] | None) -> None:
        """`unpacked` are the bytes of a compressed tar."""
        super().__init__(path.open("rb") if unpacked is None else _temporary_file(unpacked))
        self._places: dict[str, tuple[int, int]] = {}
        self.not_files = 0
        names: list[str] = []
        with tarfile.open(fileobj=self.file, mode="r:", tarinfo=_BoundedTarInfo) as tar:
            while (info := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # the tarfile module would keep them all
                if info.isreg() and not info.issparse():
                    names.append(info.name)
                    self._places[info.name] = info.offset_data, info.size
                elif not info.isdir():
                    self.not_files += 1
            self.file.seek(tar.offset)
            if any(self.file.read(tarfile.BLOCKSIZE)):  # the tarfile module takes a damaged header for the end
                raise tarfile.ReadError(f"no header of a file at byte {tar.offset:,}")
        self.members = sorted(Member(name, size) for name, (_, size) in self._places.items())
        self.repeated = _repeated(names)

    def open(self, name: str) -> io.BufferedIOBase:
        return io.BufferedReader(_Part(self.file, *self._places[name]))


def open_archive(path: Path, unpacked: Iterable[bytes] | None) -> Archive:
    """Open an archive and read the list of its files. `unpacked`: the bytes of a compressed tar."""
    return ZipArchive(path) if path.suffix.lower() == ".zip" else TarArchive(path, unpacked)


def is_archive(path: PurePath) -> bool:
    """Whether a path has a suffix of archives."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def _repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _temporary_file(chunks: Iterable[bytes]) -> BinaryIO:
    folder = cache_folder("input")
    with storage_remedy(REMEDY), storage_errors(folder):
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it stays open as long as the archive
        try:
            for chunk in chunks:
                file.write(chunk)
            file.seek(0)
        except BaseException:
            file.close()
            raise
    return file


class _BoundedTarInfo(tarfile.TarInfo):
    """A header of a tar; one that announces a name or comment of megabytes is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _BoundedTarInfo:
        info = super().frombuf(buf, encoding, errors)
        if info.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and info.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {info.size:,} bytes")
        return info


class _Part(io.RawIOBase):
    """A range of the bytes of a file; EOFError if the file ends inside it."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._position, self._end = file, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)[: self._end - self._position]  # type: ignore[arg-type]
        if not view:
            return 0
        self._file.seek(self._position)
        read = self._file.read(len(view))
        if not read:
            raise EOFError("the archive ends inside a file")
        view[: len(read)] = read
        self._position += len(read)
        return len(read)

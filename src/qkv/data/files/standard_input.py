"""Standard input as a corpus: copied to the cache, so that it can be read more than once and by `--resume`."""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qkv.data.cache import PART_SUFFIX, REMEDY, cache_folder
from qkv.data.corpus import CorpusConfig
from qkv.data.files.decode import decode, require_encoding
from qkv.data.files.decompress import CHUNK_SIZE
from qkv.data.findings import Findings
from qkv.errors import DataError, InputError
from qkv.storage import storage_errors, storage_remedy

STDIN_NAME = "-"


def receive(corpus: CorpusConfig, resumed: bool = False) -> Path | None:
    """Copy standard input to a file and return its path; None if the corpus does not name standard input.

    The copy of an earlier run is returned when that run is resumed, or when nothing is piped in.
    """
    if STDIN_NAME in corpus.valid:
        raise InputError("standard input cannot be the validation text; put it into a file and use --valid FILE.")
    if STDIN_NAME not in corpus.files:
        return None
    if corpus.files != (STDIN_NAME,):
        raise InputError("standard input (-) cannot be mixed with files; pipe everything in, or name files only.")
    if (resumed or not _is_piped()) and (copy := find_copy(corpus)) is not None:
        return copy
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        if corpus.fingerprint:
            raise InputError("the text that was piped in is no longer in the cache; pipe the same text in again.")
        raise InputError("nothing is piped in. Use it as in: cat book.txt | qkv train -")
    return _copy_input(corpus.encoding)


@contextmanager
def receive_once(corpus: CorpusConfig) -> Iterator[Path | None]:
    """Copy standard input for a command, and delete the copy at the end."""
    copy = receive(corpus)
    try:
        yield copy
    finally:
        if copy is not None:
            copy.unlink(missing_ok=True)


def find_copy(corpus: CorpusConfig) -> Path | None:
    """The copy of the text from which this corpus was read before."""
    copy = _copy_path(corpus.fingerprint) if corpus.fingerprint else None
    return copy if copy is not None and copy.is_file() else None


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, not a terminal or /dev/null."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        return not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    except OSError:  # a Python object without a file descriptor
        return True


def _copy_input(encoding: str | None) -> Path:
    """Copy standard input to a new file; DataError at the first byte that is not text."""
    require_encoding(encoding)
    folder = cache_folder("input")
    size = 0
    with (
        storage_remedy(REMEDY),
        storage_errors(folder),
        tempfile.NamedTemporaryFile("wb", dir=folder, suffix=PART_SUFFIX, delete=False) as file,
    ):
        try:
            for chunk in _validated_chunks(encoding):
                file.write(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    if not size:
        os.unlink(file.name)
        raise DataError("standard input", "it is empty", "Use it as in: cat book.txt | qkv train -")
    return Path(file.name)


def _validated_chunks(encoding: str | None) -> Iterator[bytes]:
    """The bytes of standard input; every chunk is yielded after it was decoded without an error."""
    pending: deque[bytes] = deque()

    def chunks() -> Iterator[bytes]:
        while chunk := sys.stdin.buffer.read(CHUNK_SIZE):
            pending.append(chunk)
            yield chunk

    for _ in decode(chunks(), "standard input", encoding, Findings()):
        while pending:
            yield pending.popleft()
    yield from pending


def keep_copy(copy: Path, fingerprint: str) -> Path:
    """Rename the copy. A file of this name with the same text is kept, because another process may be reading it."""
    final = _copy_path(fingerprint)
    if copy == final:
        return final
    if copy.suffix != PART_SUFFIX:  # the kept copy of a run that reads the text with other options
        copy = _duplicate(copy)
    try:
        if not _link(copy, final):
            os.replace(copy, final)
    finally:
        copy.unlink(missing_ok=True)
    return final


def _link(copy: Path, final: Path) -> bool:
    """Link the copy to its final name, unless that exists; whether the name holds the text now."""
    try:
        os.link(copy, final)  # unlike a rename, a link never replaces a file
    except FileExistsError:
        return filecmp.cmp(copy, final, shallow=False)
    except OSError:  # a file system without links
        return final.exists() and filecmp.cmp(copy, final, shallow=False)
    return True


def _duplicate(path: Path) -> Path:
    with (
        tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=PART_SUFFIX, delete=False) as file,
        path.open("rb") as old_file,
    ):
        shutil.copyfileobj(old_file, file)
    return Path(file.name)


def _copy_path(fingerprint: str) -> Path:
    return cache_folder("input") / f"{fingerprint}.txt"

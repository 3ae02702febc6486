"""Standard input as a corpus: kept in the cache, so that it can be read twice, and found again by `--resume`."""

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
from qkv.data.files.unpack import CHUNK
from qkv.data.findings import Findings
from qkv.errors import DataError, InputError
from qkv.storage import storage_errors, storage_remedy

NAME = "-"


def received(corpus: CorpusConfig, resumed: bool = False) -> Path | None:
    """The file that holds standard input, when the corpus names it.

    The copy of an earlier run serves the same run, `resumed`, and a recipe for which nothing is piped in.
    """
    if NAME in corpus.valid:
        raise InputError("standard input cannot be the validation text; put it into a file and use --valid FILE.")
    if NAME not in corpus.files:
        return None
    if corpus.files != (NAME,):
        raise InputError("standard input (-) cannot be mixed with files; pipe everything in, or name files only.")
    if (resumed or not _piped()) and (copy := kept(corpus)) is not None:
        return copy
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        if corpus.fingerprint:
            raise InputError("the text that was piped in is no longer in the cache; pipe the same text in again.")
        raise InputError("nothing is piped in. Use it as in: cat book.txt | qkv train -")
    return _spool(corpus.encoding)


@contextmanager
def received_once(corpus: CorpusConfig) -> Iterator[Path | None]:
    """The same for a command that reads it once and does not keep it."""
    spool = received(corpus)
    try:
        yield spool
    finally:
        if spool is not None:
            spool.unlink(missing_ok=True)


def kept(corpus: CorpusConfig) -> Path | None:
    """The copy of the text that this corpus was read from before."""
    copy = _place(corpus.fingerprint) if corpus.fingerprint else None
    return copy if copy is not None and copy.is_file() else None


def _piped() -> bool:
    """Whether somebody sends text: a pipe or a file, not a terminal and not /dev/null."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        return not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    except OSError:  # not a file of the system
        return True


def _spool(encoding: str) -> Path:
    """Copy what comes in, and decode it on the way: what is no text is refused at its first bad byte."""
    require_encoding(encoding)
    folder = cache_folder("input")
    size = 0
    with (
        storage_remedy(REMEDY),
        storage_errors(folder),
        tempfile.NamedTemporaryFile("wb", dir=folder, suffix=PART_SUFFIX, delete=False) as file,
    ):
        try:
            for chunk in _decoded(encoding):
                file.write(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    if not size:
        os.unlink(file.name)
        raise DataError("standard input", "nothing came in", "Use it as in: cat book.txt | qkv train -")
    return Path(file.name)


def _decoded(encoding: str) -> Iterator[bytes]:
    """The bytes of standard input, each piece given once all before it was decoded."""
    taken: deque[bytes] = deque()

    def chunks() -> Iterator[bytes]:
        while chunk := sys.stdin.buffer.read(CHUNK):
            taken.append(chunk)
            yield chunk

    for _ in decode(chunks(), "standard input", encoding, Findings()):
        while taken:
            yield taken.popleft()
    yield from taken


def keep(spool: Path, fingerprint: str) -> Path:
    """Give the text its lasting name. A copy that is there already stays: another process may be reading it."""
    final = _place(fingerprint)
    if spool == final:
        return final
    if spool.suffix != PART_SUFFIX:  # a copy that is read in another way, and still belongs to a run of its own
        spool = _copied(spool)
    try:
        if not _taken(spool, final):
            os.replace(spool, final)
    finally:
        spool.unlink(missing_ok=True)
    return final


def _taken(spool: Path, final: Path) -> bool:
    """Whether the name holds the text now: its own link, or what another process has put there."""
    try:
        os.link(spool, final)  # unlike a rename, it never takes the place of a file
    except FileExistsError:
        return filecmp.cmp(spool, final, shallow=False)
    except OSError:  # a disk without links
        return final.exists() and filecmp.cmp(spool, final, shallow=False)
    return True


def _copied(path: Path) -> Path:
    with (
        tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=PART_SUFFIX, delete=False) as file,
        path.open("rb") as old,
    ):
        shutil.copyfileobj(old, file)
    return Path(file.name)


def _place(fingerprint: str) -> Path:
    return cache_folder("input") / f"{fingerprint}.txt"

"""Files that are never half-written: written aside, flushed to the disk, hashed, put in place by one rename.

A folder written here carries `manifest.json`, the sha256 and size of each file; `verify` checks them before use.
A crash at any instant leaves the old state or the new one.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qkv.errors import RefusedError, StorageError, UnusablePathError
from qkv.safe_json import JsonObject, plain_file, read_json

MANIFEST = "manifest.json"
PARTIAL = ".partial"
TRASH = ".trash"
BEFORE = ".before"
AGAIN = "try again, or choose another place"

_FULL = "Make room"
_FIRST = {
    errno.EIO: "Check the disk",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Make it writable"),
}
_NO_PLACE = {errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
_CANNOT_FLUSH_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}
_CANNOT_LINK = {errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL}


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that holds `path`, or would hold it."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


@contextmanager
def writing(path: Path, needed: int = 0) -> Iterator[None]:
    """Turn the disk's refusals into one clear sentence, and refuse early when `needed` bytes are not there."""

    def refusal(reason: str, first: str) -> StorageError:
        amount = f"{needed:,} bytes are needed, " if needed else ""
        free = f"{amount}{free_bytes(path):,} bytes are free"
        return StorageError(f"{path}: {reason}; {free}. What was saved before is intact. {first}", AGAIN)

    try:
        if needed and free_bytes(path) < needed:
            raise refusal("not enough room on the disk", _FULL)
        yield
    except OSError as error:
        if error.errno in _NO_PLACE:
            raise UnusablePathError(path, error.strerror or str(error)) from None
        if error.errno not in _FIRST:
            raise
        raise refusal(error.strerror or str(error), _FIRST[error.errno]) from error


@contextmanager
def advised(remedy: str) -> Iterator[None]:
    """Within it, a refusal of the disk ends in this advice: only the caller knows what the files are for."""
    try:
        yield
    except StorageError as error:
        if error.remedy != AGAIN:
            raise
        raise StorageError(error.problem, remedy) from error.__cause__


def flush(path: Path) -> None:
    """Ask the disk to keep a file, or a folder's list of names."""
    folder = path.is_dir()
    # Windows flushes only what is open for writing, and no folders
    try:
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:  # some systems cannot flush a folder; a disk that fails is another matter
        if not (folder and error.errno in _CANNOT_FLUSH_FOLDERS):
            raise


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: Path, content: str | bytes) -> None:
    """Write a whole file so that its name shows the old content or the new, never a part."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with writing(path, len(data)):
        aside = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
        try:
            aside.write_bytes(data)
            flush(aside)
            aside.replace(path)
            flush(path.parent)
        finally:
            aside.unlink(missing_ok=True)


@contextmanager
def new_folder(final: Path, needed: int = 0, place: Callable[[Path, Path], None] | None = None) -> Iterator[Path]:
    """A folder to fill; at the end it is flushed, gets its manifest and its final name, all at once.

    The name must be free, unless `place` says how to take it (`replace_folder`).
    """
    with writing(final, needed):
        aside = final.with_name(f".{final.name}.{os.getpid()}{PARTIAL}")
        shutil.rmtree(aside, ignore_errors=True)
        _clear(final)
        if not final.parent.is_dir():
            final.parent.mkdir(parents=True)
            flush(final.parent.parent)
        aside.mkdir()
        try:
            yield aside
            files = sorted(path for path in aside.iterdir() if path.is_file())
            for path in files:
                flush(path)
            listed = {path.name: {"sha256": sha256(path), "bytes": path.stat().st_size} for path in files}
            (aside / MANIFEST).write_text(json.dumps({"files": listed}, indent=2) + "\n", encoding="utf-8")
            flush(aside / MANIFEST)
            flush(aside)
            place(final, aside) if place else aside.rename(final)
            flush(final.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _clear(final: Path) -> None:
    """Remove what processes that are no more left aside for this name."""
    if os.name != "posix":  # elsewhere a signal of 0 is not a question
        return
    for left in final.parent.glob(glob.escape(f".{final.name}.") + f"*{PARTIAL}"):
        number = left.name.removeprefix(f".{final.name}.").removesuffix(PARTIAL)
        try:
            os.kill(int(number), 0)
        except (ProcessLookupError, OverflowError):
            shutil.rmtree(left, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


def verify(folder: Path, *wanted: str) -> None:
    """Refuse a folder whose files are not those that were written; `wanted` must be among them."""
    listed = manifest(folder)
    for name in wanted:
        if name not in listed:
            raise RefusedError(f"{folder / MANIFEST}: does not list {name}. The folder is damaged; use another copy.")
    for name, facts in listed.items():
        path = folder / name
        if not path.is_file():
            problem = "missing, though the manifest lists it. The folder is damaged"
        elif plain_file(folder, name).stat().st_size != facts.get("bytes") or sha256(path) != facts.get("sha256"):
            problem = f"its sha256 is not the one in {MANIFEST}. The file was damaged or altered"
        else:
            continue
        raise RefusedError(f"{path}: {problem}; use another copy.")


def manifest(folder: Path) -> JsonObject:
    values = read_json(plain_file(folder, MANIFEST))
    listed = values.get("files")
    if isinstance(listed, dict) and all(
        isinstance(facts, dict) and name == Path(name).name and name not in ("", ".", "..", MANIFEST)
        for name, facts in listed.items()
    ):
        return listed
    raise RefusedError(f"{folder / MANIFEST}: 'files' must list plain file names with sha256 and bytes.")


def remove_folder(folder: Path) -> None:
    """Take a folder's name away first, then its files, so that a crash never leaves half of it under its name."""
    if folder.exists():
        gone = folder.with_name(f".{folder.name}.{os.getpid()}{TRASH}")
        with writing(folder):
            folder.rename(gone)
        _discard(gone)


def _discard(path: Path) -> None:
    real = path.is_dir() and not path.is_symlink()
    shutil.rmtree(path, ignore_errors=True) if real else path.unlink(missing_ok=True)


def remove_older(paths: Iterable[Path], seconds: int) -> None:
    """Remove what killed processes left aside long ago; what is gone or cannot be removed does not matter."""
    with suppress(OSError):  # a folder that is not there yet
        for path in paths:
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > seconds:
                    _discard(path)


def sweep(folder: Path) -> None:
    """Remove what a crash left aside, and put back what it left without a name. Only for a folder that is locked."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name.endswith((PARTIAL, TRASH)):
                _discard(path)
            elif path.name.endswith(BEFORE):
                named = folder / path.name.removeprefix(".").removesuffix(BEFORE)
                _discard(path) if named.exists() else path.replace(named)


def before(link: Path) -> Path:
    """Where `point` keeps the old one while the new one takes its name."""
    return link.with_name(f".{link.name}{BEFORE}")


def point(link: Path, target: Path) -> None:
    """Make `link` name `target`, a folder next to it, in one step; where links are not to be had, move the folder."""
    with writing(link):
        aside = link.with_name(f".{link.name}.{os.getpid()}{PARTIAL}")
        aside.unlink(missing_ok=True)
        try:
            aside.symlink_to(target.name, target_is_directory=True)
        except OSError as error:  # a system that gives links to administrators only
            if error.errno not in _CANNOT_LINK:
                raise
            aside = target
        try:
            # only a link can be replaced by a link in one step; a copied run may have a real folder here
            if link.is_dir() and (aside == target or not link.is_symlink()):
                raise IsADirectoryError
            aside.replace(link)
        except (IsADirectoryError, PermissionError):  # Windows refuses even a link in the place of a link
            replace_folder(link, aside)
        flush(link.parent)


def replace_folder(link: Path, new: Path) -> None:
    """In one step on Linux. Elsewhere in two: a crash between them leaves the old one aside, as `before` says."""
    old = before(link)
    if os.path.lexists(link):
        _discard(old)
        if _exchanged(link, new):
            _discard(new)
            return
        link.rename(old)
    try:
        new.rename(link)
    except OSError:
        if old.exists():
            old.rename(link)
        raise
    _discard(old)


def _exchanged(first: Path, second: Path) -> bool:
    """Give two folders each other's name at once, where the system and the disk can."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, TypeError, AttributeError):  # not Linux
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <fcntl.h> and <stdio.h>
    return rename(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold a folder for this process; gives False where another process holds it. A dead process holds nothing."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a+b")
    with file:
        yield _lock(file.fileno())


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

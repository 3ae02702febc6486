"""Files and folders that are never half-written: written under a temporary name, flushed, and renamed into place.

A folder written here carries `manifest.json` with the sha256 and size of each file; `verify_files` checks them before
use. A crash at any moment leaves the old state or the new one.
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
PARTIAL_SUFFIX = ".partial"
TRASH_SUFFIX = ".trash"
PREVIOUS_SUFFIX = ".before"
DEFAULT_REMEDY = "try again, or choose another place"

_FREE_SPACE = "Make room"
_FIRST_STEPS = {
    errno.EIO: "Check the disk",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FREE_SPACE),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Make it writable"),
}
_UNUSABLE_PATH = {errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
_CANNOT_FLUSH_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR}
_CANNOT_LINK = {errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL}


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that holds `path`, or would hold it."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


@contextmanager
def storage_errors(path: Path, needed: int = 0) -> Iterator[None]:
    """Turn OSErrors of the disk into a StorageError, which is also raised if fewer than `needed` bytes are free."""

    def storage_error(reason: str, first_step: str) -> StorageError:
        space = f"{needed:,} bytes are needed, " if needed else ""
        space += f"{free_bytes(path):,} bytes are free"
        return StorageError(f"{path}: {reason}; {space}. What was saved before is intact. {first_step}", DEFAULT_REMEDY)

    try:
        if needed and free_bytes(path) < needed:
            raise storage_error("not enough room on the disk", _FREE_SPACE)
        yield
    except OSError as error:
        if error.errno in _UNUSABLE_PATH:
            raise UnusablePathError(path, error.strerror or str(error)) from None
        if error.errno not in _FIRST_STEPS:
            raise
        raise storage_error(error.strerror or str(error), _FIRST_STEPS[error.errno]) from error


@contextmanager
def storage_remedy(remedy: str) -> Iterator[None]:
    """Give StorageErrors raised within it this remedy: only the caller knows what the files are for."""
    try:
        yield
    except StorageError as error:
        if error.remedy != DEFAULT_REMEDY:
            raise
        raise StorageError(error.problem, remedy) from error.__cause__


def flush(path: Path) -> None:
    """Force a file, or a folder's list of names, to the disk."""
    is_folder = path.is_dir()
    # Windows flushes only files that are open for writing, and no folders
    try:
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:  # some systems cannot flush a folder; other failures are errors
        if not (is_folder and error.errno in _CANNOT_FLUSH_FOLDERS):
            raise


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with storage_errors(path, len(data)):
        temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
        try:
            temporary.write_bytes(data)
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(final: Path, needed: int = 0, replace: Callable[[Path, Path], None] | None = None) -> Iterator[Path]:
    """Yield a temporary folder to fill; at the end it is flushed, gets its manifest and is renamed to `final`.

    `final` must not exist unless `replace`, called as replace(final, temporary), can replace it (`replace_folder`).
    """
    with storage_errors(final, needed):
        temporary = final.with_name(f".{final.name}.{os.getpid()}{PARTIAL_SUFFIX}")
        shutil.rmtree(temporary, ignore_errors=True)
        _remove_abandoned(final)
        if not final.parent.is_dir():
            final.parent.mkdir(parents=True)
            flush(final.parent.parent)
        temporary.mkdir()
        try:
            yield temporary
            files = sorted(path for path in temporary.iterdir() if path.is_file())
            for path in files:
                flush(path)
            listed = {path.name: {"sha256": sha256(path), "bytes": path.stat().st_size} for path in files}
            (temporary / MANIFEST).write_text(json.dumps({"files": listed}, indent=2) + "\n", encoding="utf-8")
            flush(temporary / MANIFEST)
            flush(temporary)
            replace(final, temporary) if replace else temporary.rename(final)
            flush(final.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(final: Path) -> None:
    """Remove the temporary folders that dead processes left for this name."""
    if os.name != "posix":  # on Windows, os.kill with signal 0 does not test whether a process exists
        return
    for folder in final.parent.glob(glob.escape(f".{final.name}.") + f"*{PARTIAL_SUFFIX}"):
        process_id = folder.name.removeprefix(f".{final.name}.").removesuffix(PARTIAL_SUFFIX)
        try:
            os.kill(int(process_id), 0)
        except (ProcessLookupError, OverflowError):
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


def verify_files(folder: Path, *required: str) -> None:
    """Raise RefusedError if a file differs from the manifest, or the manifest does not list a required name."""
    listed = read_manifest(folder)
    for name in required:
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


def read_manifest(folder: Path) -> JsonObject:
    values = read_json(plain_file(folder, MANIFEST))
    listed = values.get("files")
    if isinstance(listed, dict) and all(
        isinstance(facts, dict) and name == Path(name).name and name not in ("", ".", "..", MANIFEST)
        for name, facts in listed.items()
    ):
        return listed
    raise RefusedError(f"{folder / MANIFEST}: 'files' must list plain file names with sha256 and bytes.")


def remove_folder(folder: Path) -> None:
    """Rename a folder before its files are deleted, so that a crash never leaves half of it under its name."""
    if folder.exists():
        trash = folder.with_name(f".{folder.name}.{os.getpid()}{TRASH_SUFFIX}")
        with storage_errors(folder):
            folder.rename(trash)
        _discard(trash)


def _discard(path: Path) -> None:
    real_folder = path.is_dir() and not path.is_symlink()
    shutil.rmtree(path, ignore_errors=True) if real_folder else path.unlink(missing_ok=True)


def remove_stale(paths: Iterable[Path], seconds: int) -> None:
    """Remove leftovers of killed processes older than `seconds`, ignoring those that are gone or cannot be removed."""
    with suppress(OSError):  # the folder may not exist yet
        for path in paths:
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > seconds:
                    _discard(path)


def recover_folder(folder: Path) -> None:
    """Remove what a crash left, and restore previous versions that it left unnamed. The caller must hold the lock."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name.endswith((PARTIAL_SUFFIX, TRASH_SUFFIX)):
                _discard(path)
            elif path.name.endswith(PREVIOUS_SUFFIX):
                original = folder / path.name.removeprefix(".").removesuffix(PREVIOUS_SUFFIX)
                _discard(path) if original.exists() else path.replace(original)


def previous_path(link: Path) -> Path:
    """Where `replace_folder` keeps the old folder while the new one takes its name."""
    return link.with_name(f".{link.name}{PREVIOUS_SUFFIX}")


def point_link(link: Path, target: Path) -> None:
    """Make `link` point to `target`, a folder next to it, in one step; without links, rename the folder to `link`."""
    with storage_errors(link):
        temporary = link.with_name(f".{link.name}.{os.getpid()}{PARTIAL_SUFFIX}")
        temporary.unlink(missing_ok=True)
        try:
            temporary.symlink_to(target.name, target_is_directory=True)
        except OSError as error:  # some systems allow links to administrators only
            if error.errno not in _CANNOT_LINK:
                raise
            temporary = target
        try:
            # only a link can be replaced by a link in one step; a copied run may hold a real folder here
            if link.is_dir() and (temporary == target or not link.is_symlink()):
                raise IsADirectoryError
            temporary.replace(link)
        except (IsADirectoryError, PermissionError):  # Windows refuses even to replace a link by a link
            replace_folder(link, temporary)
        flush(link.parent)


def replace_folder(link: Path, new: Path) -> None:
    """Replace `link` by the folder `new`, in one step on Linux. Elsewhere a crash may leave it at `previous_path`."""
    old = previous_path(link)
    if os.path.lexists(link):
        _discard(old)
        if _swap_folders(link, new):
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


def _swap_folders(first: Path, second: Path) -> bool:
    """Try to swap the names of two folders in one step; return whether the system and the disk could."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, TypeError, AttributeError):  # not Linux
        return False
    at_fdcwd, rename_exchange = -100, 2  # constants of <fcntl.h> and <stdio.h>
    return rename(at_fdcwd, os.fsencode(first), at_fdcwd, os.fsencode(second), rename_exchange) == 0


@contextmanager
def try_lock(folder: Path) -> Iterator[bool]:
    """Lock a folder for this process; yield False if another process holds it. Locks of dead processes are released."""
    with storage_errors(folder):
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

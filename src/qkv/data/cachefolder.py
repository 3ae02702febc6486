"""Where caches live: QKV_CACHE, or the platform's own place."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from qkv.errors import StorageError

PART = ".part"
"""The ending of a file that is still coming in."""
_LEFT_OVER_SECONDS = 24 * 3600
REMEDY = "try again, or set QKV_CACHE to a folder on another disk"


def cache_folder(*parts: str) -> Path:
    """A folder of the cache (or an absolute one), made if need be, for this user only."""
    folder = root().joinpath(*parts)
    try:
        for each in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            each.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_dir():
            raise NotADirectoryError
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError
    except (PermissionError, FileExistsError, NotADirectoryError):
        raise StorageError(
            f"{folder}: the cache cannot be written there. Set QKV_CACHE to a folder of your own."
        ) from None
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}. Set QKV_CACHE to a folder on another disk.") from None
    return folder


def sweep_parts() -> None:
    """Remove what killed pipes and broken downloads left long ago."""
    for room in ("input", "sets"):
        with suppress(OSError):  # a room that is not there yet, a file that another process removed
            for path in (root() / room).rglob(f"*{PART}"):
                if time.time() - path.stat().st_mtime > _LEFT_OVER_SECONDS:
                    path.unlink()


def only_mine(path: Path, top: Path) -> bool:
    """Whether nobody but this user, and root, can write `path` or put something else in its place.

    As ssh asks it of keys: of the owner and mode of the file, its folder, and so on up to `top`. Only `top` may be open
    to others, where it keeps everybody's entries apart, as a system's folder for temporary files does.
    """
    if not hasattr(os, "geteuid"):  # Windows has lists of rights instead, and a cache for each user
        return True
    for each in (path, *path.parents):
        found = each.lstat()
        shared = each == top and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()) or (found.st_mode & 0o022 and not shared):
            return False
        if each == top:
            return True
    return False


def root() -> Path:
    """Where the cache is."""
    if said := os.environ.get("QKV_CACHE"):
        return Path(said)
    return own_root()


def own_root() -> Path:
    """This user's own place for caches, whatever QKV_CACHE says."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "qkv" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qkv"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"

"""Folders of derived data by key: read from the cache, or built under a temporary name and then renamed.

The cache is in the folder QKV_CACHE or, by default, in the platform's folder for caches.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from qkv.errors import RefusedError, StorageError
from qkv.safe_json import JsonObject, read_json
from qkv.storage import (
    PARTIAL_SUFFIX,
    TRASH_SUFFIX,
    atomic_folder,
    remove_folder,
    remove_stale,
    storage_remedy,
    try_lock,
    verify_files,
)

FACTS = "facts.json"
PART_SUFFIX = ".part"
"""The ending of a file that is not complete yet."""
REMEDY = "try again, or set QKV_CACHE to a folder on another disk"
_LEFT_OVER_SECONDS, _OLD_PART_SECONDS = 2 * 24 * 3600, 24 * 3600


def obtain(group: str, key: str, build: Callable[[Path], None], note: Callable[[str], None] | None = None) -> Path:
    """The folder of a key: the one in the cache, or a new one that `build` fills. `note` reports a damaged one."""
    folder = cache_folder(group) / key
    if is_intact(folder):
        return folder
    leftovers = (path for path in folder.parent.iterdir() if path.name.endswith((PARTIAL_SUFFIX, TRASH_SUFFIX)))
    remove_stale(leftovers, _LEFT_OVER_SECONDS)
    for downloads in ("input", "sets"):  # left by interrupted pipes and downloads
        remove_stale((root() / downloads).rglob(f"*{PART_SUFFIX}"), _OLD_PART_SECONDS)
    if folder.exists():
        if not _removed_damaged(folder) and is_intact(folder):
            return folder
        if note:
            note(f"{folder}: this folder of the cache was damaged or altered; it is built again.")
    try:
        with storage_remedy(REMEDY), atomic_folder(folder) as temporary:
            build(temporary)
    except OSError:
        # another process has built the same folder in the meantime
        if not is_intact(folder):
            raise
    return folder


def is_intact(folder: Path) -> bool:
    """Whether the folder has all files of its manifest, with their sha256.

    This takes about a second per gigabyte, as long as hashing the text itself, which is done at each start.
    """
    if not folder.is_dir():
        return False
    try:
        verify_files(folder, FACTS)
    except (RefusedError, OSError):
        return False
    return True


def _removed_damaged(folder: Path) -> bool:
    """Remove a damaged folder, unless another process has repaired it in the meantime; return whether it was damaged.

    Only the holder of the lock removes it, so no process can remove a folder that another one has just built.
    """
    while True:
        with try_lock(folder.parent) as held:
            if held:
                damaged = folder.exists() and not is_intact(folder)
                if damaged:
                    remove_folder(folder)
                return damaged
        time.sleep(0.05)


def write_facts(folder: Path, facts: Mapping[str, object]) -> None:
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def read_facts(folder: Path) -> JsonObject:
    return read_json(folder / FACTS)


def cache_folder(*parts: str) -> Path:
    """A folder of the cache; if it does not exist, it is created for this user only."""
    folder = root().joinpath(*parts)
    try:
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_dir():
            raise NotADirectoryError
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError
    except (PermissionError, FileExistsError, NotADirectoryError):
        problem = "the cache cannot be written here. Set QKV_CACHE to a folder of your own."
        raise StorageError(f"{folder}: {problem}") from None
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}. Set QKV_CACHE to a folder on another disk.") from None
    return folder


def only_user_can_write(path: Path, top: Path) -> bool:
    """Whether only this user and root can write `path` or replace it.

    As ssh does for keys, it checks owner and mode of the file, of its folder, and so on up to `top`. Only `top` may be
    writable by others, if it has the sticky bit, as the system's folder for temporary files has.
    """
    if not hasattr(os, "geteuid"):  # Windows has access control lists, and a cache folder for each user
        return True
    for place in (path, *path.parents):
        status = place.lstat()
        shared = place == top and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()) or (status.st_mode & 0o022 and not shared):
            return False
        if place == top:
            return True
    return False


def root() -> Path:
    """The folder of the cache."""
    folder = os.environ.get("QKV_CACHE")
    return Path(folder) if folder else default_root()


def default_root() -> Path:
    """The platform's folder for caches of this user, regardless of QKV_CACHE."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "qkv" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qkv"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"

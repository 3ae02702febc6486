"""Folders of derived data under a key: found whole, or built aside and put in place at once.

Where caches live: QKV_CACHE, or the platform's own place.

The identity of a corpus: its bytes and how they are read. Names do not count, so a copy is the same corpus.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from qkv.errors import RefusedError, StorageError
from qkv.safe_json import read_json
from qkv.storage import PARTIAL, TRASH, advised, locked, new_folder, remove_folder, verify

FACTS = "facts.json"
_LEFT_OVER_SECONDS = 2 * 24 * 3600


def obtain(room: str, key: str, build: Callable[[Path], None], note: Callable[[str], None] | None = None) -> Path:
    """The folder of a key: as found, or as `build` fills it now. `note` is told when a damaged one is made anew."""
    folder = cache_folder(room) / key
    if is_whole(folder):
        return folder
    _sweep(folder.parent)
    sweep_parts()
    if folder.exists():
        if not _removed_damaged(folder) and is_whole(folder):
            return folder
        if note:
            note(f"{folder}: this part of the cache was damaged or altered; it is made anew.")
    try:
        with advised(REMEDY), new_folder(folder) as aside:
            build(aside)
    except OSError:
        # another process put the same thing in place while we built ours
        if not is_whole(folder):
            raise
    return folder


def is_whole(folder: Path) -> bool:
    """Whether all files of the manifest are there with their sha256.

    About a second a gigabyte, which the text itself, hashed at each start to see whether it changed, costs as well.
    """
    if not folder.is_dir():
        return False
    try:
        verify(folder, FACTS)
    except (RefusedError, OSError):
        return False
    return True


def _removed_damaged(folder: Path) -> bool:
    """Remove a folder unless it is whole by now: another process may have found the damage, too, and repaired it.

    Only who holds the lock removes, and nobody can put a new folder in place before the damaged one is gone.
    """
    while True:
        with locked(folder.parent) as held:
            if held:
                damaged = folder.exists() and not is_whole(folder)
                if damaged:
                    remove_folder(folder)
                return damaged
        time.sleep(0.05)


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def facts(folder: Path) -> dict[str, Any]:
    return read_json(folder / FACTS)


def _sweep(room: Path) -> None:
    """Remove what crashed processes left aside long ago."""
    for path in room.iterdir():
        if path.name.endswith((PARTIAL, TRASH)):
            try:
                old = time.time() - path.stat().st_mtime > _LEFT_OVER_SECONDS
            except OSError:
                continue
            if old:
                shutil.rmtree(path, ignore_errors=True)


PART = ".part"
"""The ending of a file that is still coming in."""
_OLD_TEST_SECONDS = 24 * 3600
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
                if time.time() - path.stat().st_mtime > _OLD_TEST_SECONDS:
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

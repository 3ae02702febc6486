"""Where caches live: QKV_CACHE, or the platform's own place."""

from __future__ import annotations

import os
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
    """A folder of the cache, made if need be."""
    folder = root().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
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


def root() -> Path:
    if said := os.environ.get("QKV_CACHE"):
        return Path(said)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "qkv" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qkv"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"

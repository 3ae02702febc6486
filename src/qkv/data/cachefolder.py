"""Where caches live: QKV_CACHE, or the platform's own place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from qkv.errors import StorageError

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


def root() -> Path:
    if said := os.environ.get("QKV_CACHE"):
        return Path(said)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "qkv" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qkv"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"

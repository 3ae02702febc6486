"""Folders of derived data under a key: found whole, or built aside and put in place at once."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qkv.data.cachefolder import REMEDY, cache_folder, sweep_parts
from qkv.errors import RefusedError
from qkv.reading import read_json
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

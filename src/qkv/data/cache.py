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
from qkv.storage import PARTIAL, TRASH, advised, manifest, new_folder, remove_folder

FACTS = "facts.json"
_LEFT_OVER_SECONDS = 2 * 24 * 3600


def obtain(room: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder of a key: as found, or as `build` fills it now."""
    folder = cache_folder(room) / key
    if is_whole(folder):
        return folder
    _sweep(folder.parent)
    sweep_parts()
    if folder.exists():  # damaged: a file is missing or has another size
        remove_folder(folder)
    try:
        with advised(REMEDY), new_folder(folder) as aside:
            build(aside)
    except OSError:
        # another process put the same thing in place while we built ours
        if not is_whole(folder):
            raise
    return folder


def is_whole(folder: Path) -> bool:
    """Whether all files of the manifest are there with their sizes; hashing gigabytes on every start is too dear."""
    if not folder.is_dir():
        return False
    try:
        listed = manifest(folder)
        return FACTS in listed and all((folder / name).stat().st_size == each["bytes"] for name, each in listed.items())
    except (RefusedError, OSError, KeyError):
        return False


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

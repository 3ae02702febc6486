"""Names of in-memory objects for cards and messages, in place of the cache files with their rows.

The name is saved next to that file, so that a later process that resumes the run has it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from qkv.data.cache import REMEDY, cache_folder
from qkv.storage import storage_remedy, write_file
from qkv.visible import shortened

ENDING = ".name"


def described(data: object) -> str:
    """The type of an object and its size, as in: DataFrame of 300 x 2."""
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str):
        return f"({described(data[0])}, {described(data[1])})"
    kind, shape = type(data).__name__, getattr(data, "shape", None)
    if isinstance(data, Mapping):
        return f"{kind} of {', '.join(map(repr, data))}"
    if isinstance(shape, tuple) and shape:
        return f"{kind} of {' x '.join(f'{size:,}' for size in shape)}"
    return f"{kind} of {len(data):,}" if hasattr(data, "__len__") else kind


def save_name(file: Path, name: str) -> None:
    with storage_remedy(REMEDY):
        write_file(file.with_name(file.name + ENDING), shortened(name))


def name_of(file: str | Path) -> str:
    """The name of a data file for users: the object, if the file holds an object's rows."""
    file = Path(file)
    if file.parent == cache_folder("objects"):
        name_file = file.with_name(file.name + ENDING)
        if name_file.is_file():
            return name_file.read_text(encoding="utf-8")
    return str(file)


def names_of(files: tuple[str, ...]) -> str:
    """The data of a run, for its card."""
    return ", ".join(map(name_of, files))


def with_object_names(message: str) -> str:
    """Replace cache files in a message by the objects whose rows they hold, and lines by rows, counted from 0."""
    folder = re.escape(str(cache_folder("objects")))
    return re.sub(rf"({folder}/[0-9a-f]{{32}}(\.\w+))(?::(\d+)(?::\d+)?)?", _object, message)


def _object(file: re.Match[str]) -> str:
    name, line, has_header = name_of(file[1]), int(file[3] or 1), file[2] == ".csv"
    is_row = line > 1 and file[2] in (".csv", ".jsonl")
    return f"{name}, row {line - 1 - has_header}" if is_row else name

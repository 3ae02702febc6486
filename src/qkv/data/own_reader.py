"""A user-defined reader: a Python file with a function `read`, from a path to rows or texts.

What it returns is stored like an in-memory object (`objects.py`). The recipe keeps the name and the sha256 of the file,
and the paths that it read, which are read again if the rows are no longer in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv import own_files
from qkv.data import object_names, objects
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.objects import StoredObject
from qkv.errors import DataError, InputError
from qkv.own_files import OwnFile

GROUP = "qkv.readers"
SPLITS = ("files", "valid", "test")


@dataclass(frozen=True)
class OwnReader:
    read: Callable[[str], object]
    source: OwnFile


LOADED: dict[str, OwnReader] = {}  # by the names of their files


def load(name: str | Path) -> OwnReader:
    """Execute a Python file of the user, and return its function `read`; or load the reader of an installed package."""
    if not str(name).endswith(".py"):
        plugin = own_files.load_plugin(GROUP, str(name))
        if not callable(plugin):
            raise InputError(f"reader {name}: expected a Python file with a function `read`, from a path to rows.")
        source = own_files.source_of(plugin)
        return _register(OwnReader(plugin, OwnFile(str(name), source.sha256)))
    source = own_files.execute(name, "a function `read`")
    read = getattr(source.module, "read", None)
    if not callable(read):
        raise InputError(f"{source.file}: expected a function `read`, from a path to rows or texts.")
    return _register(OwnReader(read, source))


def _register(reader: OwnReader) -> OwnReader:
    LOADED[reader.source.name] = reader
    return reader


def through(corpus: Mapping[str, Any]) -> dict[str, Any]:
    """Run the reader that a section [corpus] names, and return the section with the files that hold its rows."""
    name, values = corpus.get("reader"), dict(corpus)
    if not isinstance(name, str | Path):
        return values
    reader = load(name)
    record: dict[str, Any] = {**reader.source.values}
    for split in SPLITS:
        if paths := [str(path) for path in corpus.get(split) or ()]:
            stored = _stored(reader, paths)
            record[split], values[split] = paths, [str(stored.file)]
            if split == "files":
                values = {**stored.options, **values}
    return {**values, "reader": record}


def restore(corpus: CorpusConfig | ExamplesConfig | ParallelConfig, where: str) -> None:
    """Make sure that the rows of a run are in the cache; missing ones are read again, with the same reader."""
    record = corpus.reader
    if record is None:
        return
    saved = {"file": record.file, "sha256": record.sha256}
    known = LOADED.get(record.file)
    missing = [s for s in SPLITS if not all(Path(name).exists() for name in getattr(corpus, s, ()))]
    if known is None and missing and not record.file.endswith(".py"):
        known = load(record.file)
    if known is not None or missing:
        own_files.require_same(None if known is None else known.source, saved, where, "data of a reader", "reader")
    for split in missing:
        assert known is not None
        (file,) = getattr(corpus, split)
        if str(_stored(known, getattr(record, split)).file) != file:
            raise DataError(
                ", ".join(getattr(record, split)),
                "the rows are not those that this run was started with",
                "Put the old files back, or start a new run.",
            )


def _stored(reader: OwnReader, paths: Sequence[str]) -> StoredObject:
    """Read files, and store all their rows in one file of the cache."""
    files_rows = [_rows(reader, path) for path in paths]
    if len(files_rows) > 1 and not all(isinstance(rows, list) for rows in files_rows):
        raise InputError(f"{reader.source.name}: `read` must return lists, so that several files can be joined.")
    rows = (
        files_rows[0]
        if len(files_rows) == 1
        else [row for part in files_rows if isinstance(part, list) for row in part]
    )
    stored = objects.store(rows, f"{paths[0]}, read by {reader.source.name}")
    object_names.save_name(stored.file, f"{', '.join(paths)} (read by {reader.source.name})")
    return stored


def _rows(reader: OwnReader, path: str) -> object:
    if not Path(path).exists():
        raise DataError(path, "no such file", "Check the name.")
    try:
        rows = reader.read(path)
        return list(rows) if isinstance(rows, Iterable) and not hasattr(rows, "__len__") else rows
    except Exception as error:
        raise InputError(f"{path}: {type(error).__name__} in {reader.source.name}: {error}") from error

"""Whether files are plainly texts and their translations, by their names and first lines; nothing is counted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from qkv.data import catalog
from qkv.data.findings import Findings
from qkv.data.formats import Source
from qkv.data.labelled.guessing import looks_labelled
from qkv.data.labelled.header import is_number
from qkv.data.labelled.kinds import kind_by_name, kind_of
from qkv.data.labelled.tables import Table, suffix
from qkv.data.parallel.columns import PLAIN, by_name, nested, open_parallel
from qkv.data.parallel.config import ParallelConfig
from qkv.data.parallel.finding import Group, find
from qkv.data.parallel.languages import aligned
from qkv.data.parallel.lines import lines
from qkv.data.parallel.pairs import Direction
from qkv.errors import QkvError

LOOKED_AT = 100
FEW = 0.1
MOST_UNEQUAL = 4
"""Texts of two columns that translate each other are, in the mean, of about one length."""
_ATTRIBUTION = "CC-BY"


def parallel(files: Sequence[str], encoding: str) -> bool:
    """Whether files are plainly for translation, and neither text for a language model nor examples with labels."""
    if not files:
        return False
    try:
        return all(catalog_task(name) == "translation" for name in files) or _parallel(files, encoding)
    except (QkvError, OSError, ValueError, LookupError):  # it is said where it is read
        return False


def catalog_task(name: str) -> str | None:
    entry = catalog.find(name)
    return None if entry is None or os.path.lexists(name) else entry.task


def _parallel(files: Sequence[str], encoding: str) -> bool:
    paths = [Path(name) for name in files]
    if len(paths) == 1 and (paths[0].is_dir() or paths[0].suffix.lower() == ".zip"):
        return _folder(files[0], encoding)
    if not all(path.is_file() for path in paths):
        return False
    twos = list(zip(paths[::2], paths[1::2], strict=False))
    if len(paths) % 2 == 0 and all(aligned(first.name, second.name) for first, second in twos):
        groups = find(ParallelConfig(files=tuple(files), encoding=encoding), Findings())
        return all(_in_step(group, encoding) for group in groups.train)
    return all(_table(Source(path), encoding) for path in paths)


def _folder(name: str, encoding: str) -> bool:
    """A folder or archive: its pairs of files, or nothing but a table of pairs and what is said about it."""
    config = ParallelConfig(files=(name,), encoding=encoding)
    try:
        groups = find(config, Findings())
    except QkvError as error:
        return "which languages?" in str(error)
    return all(
        _table(group.first, encoding) if group.second is None else _in_step(group, encoding) for group in groups.train
    )


def _in_step(group: Group, encoding: str) -> bool:
    """Whether the first lines of two files are filled in the same places and of about one length; how many there are
    is counted where they are read, so that a file that lost its end is refused and not taken for plain text."""
    if group.second is None:
        return _table(group.first, encoding)
    findings = Findings()
    both = [list(islice(lines(each, encoding, findings), LOOKED_AT)) for each in (group.first, group.second)]
    if not both[0] or not both[1]:
        return bool(both[0] or both[1])
    shared = list(zip(*both, strict=False))
    apart = sum(bool(one.strip()) != bool(other.strip()) for one, other in shared)
    sizes = sorted(sum(map(len, some)) for some in zip(*shared, strict=True))
    return apart <= FEW * len(shared) and sizes[1] <= MOST_UNEQUAL * max(1, sizes[0])


def _table(source: Source, encoding: str) -> bool:
    if kind_by_name(source) != "table" and kind_of(source, encoding) != "table":
        return False
    config = ParallelConfig(files=(), encoding=encoding)
    table = open_parallel(source, config, Findings())
    if nested(table, config) is not None:
        return True
    if (named := by_name(table.columns, PLAIN)) is not None:
        return _translate(table, named)
    unnamed = all(column.isdecimal() for column in table.columns)
    if not unnamed or source.format not in ("table", "text") or suffix(source) == ".csv" or looks_labelled(table):
        return False
    owed = all(str(row[2]).startswith(_ATTRIBUTION) for _, row in table.sample) if len(table.columns) == 3 else True
    return 2 <= len(table.columns) <= 3 and owed and _translate(table, (table.columns[0], table.columns[1]))


def _translate(table: Table, columns: Direction) -> bool:
    """Whether two columns hold sentences of about one length: no labels, no numbers, no names of things."""
    rows = [row for _, row in table.sample]
    first, second = ([str(row[table.columns.index(column)] or "").strip() for row in rows] for column in columns)
    for column in (first, second):
        if len(set(column)) < len(column) / 4 or sum(map(is_number, column)) > FEW * len(column):
            return False
    sizes = sorted(sum(map(len, column)) for column in (first, second))
    spaced = max(sum(" " in text for text in column) for column in (first, second))
    return sizes[1] <= MOST_UNEQUAL * max(1, sizes[0]) and spaced > len(rows) / 2

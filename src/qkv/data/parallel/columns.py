"""Which columns of a table are source and target: by what people call them, or the first two where nothing names them.

Known are source and target and their cousins, two columns named for languages, and the shape that data hubs use: one
column `translation` that holds {"en": ..., "de": ...}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from qkv.data.corpus import ParallelConfig
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings, Watch
from qkv.data.formats.column_names import ID, NESTED, PROMPT, TRANSLATION, plain
from qkv.data.formats.tabular import EmptyTableError, Header, Table, open_table
from qkv.data.labelled.guessing import listed, missing
from qkv.data.parallel.languages import SOURCE, TARGET, is_language
from qkv.data.parallel.pairs import Direction
from qkv.errors import DataError
from qkv.visible import visible


@dataclass(frozen=True)
class Columns:
    source: str
    target: str
    languages: Direction
    nested: bool = False
    """Whether both are keys of one column."""

    def said(self, table: Table) -> str:
        used = (NESTED,) if self.nested else (self.source, self.target)
        unused = [column for column in table.columns if column not in used]
        more = f"; not used: {', '.join(map(repr, unused[:8]))}{' ...' if len(unused) > 8 else ''}" if unused else ""
        how = f" ({table.said})" if table.said else ""
        return f"{table.where}: source: column {self.source!r}, target: column {self.target!r}{more}{how}."


def header_of(config: ParallelConfig) -> Header:
    """The first row names the columns only if it says so plainly: a first pair must not be lost."""
    return partial(_names_columns, config=config) if config.header is None else config.header


def open_parallel(source: Source, config: ParallelConfig, findings: Findings, watch: Watch | None = None) -> Table:
    try:
        table = open_table(source, config.encoding, findings, header_of(config), watch)
    except EmptyTableError as error:  # it asks for labels
        raise DataError(error.where, error.problem, "Give a file with rows of source and target.") from None
    if not table.sample:
        table.bad.finish()
        raise DataError(table.where, "the table has no rows", "Give a file with rows of source and target.")
    return table


def _names_columns(cells: Sequence[Any], config: ParallelConfig) -> bool:
    names = [str(cell).strip() for cell in cells]
    asked = [name for name in (config.source, config.target) if name is not None and not name.isdecimal()]
    return (
        any(name in names for name in asked)
        or by_name([visible(name) for name in names], (*TRANSLATION, *PROMPT)) is not None
    )


def by_name(columns: Sequence[str], known: Sequence[tuple[str, str]]) -> Direction | None:
    """The two columns that their names tell."""
    spoken = {plain(column): column for column in columns}
    for source, target in known:
        if source in spoken and target in spoken:
            return spoken[source], spoken[target]
    languages = [column for column in columns if is_language(column)]
    if len(columns) > 2:  # "id" is Indonesian only where nothing else is about
        languages = [column for column in languages if plain(column) not in ID]
    return (languages[0], languages[1]) if len(languages) == 2 else None


def choose(table: Table, config: ParallelConfig) -> Columns:
    """Source and target; DataError, with the columns there are, where it cannot be told."""
    if config.source is None and config.target is None and (keys := nested(table, config)) is not None:
        return Columns(*keys, languages=keys, nested=True)
    found = _pair(table, config)
    given = (_given(table, config.source, "source"), _given(table, config.target, "target"))
    source, target = given[0] or (found and found[0]), given[1] or (found and found[1])
    if source is None or target is None or source == target:
        problem = f"which columns are source and target? There are: {listed(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Say which with --source NAME and --target NAME.")
    named = is_language(source) and is_language(target)
    return Columns(source, target, (source, target) if named else (SOURCE, TARGET))


def _pair(table: Table, config: ParallelConfig) -> Direction | None:
    columns = table.columns
    if (found := by_name(columns, TRANSLATION) or by_name(columns, PROMPT)) is not None:
        return found
    said = [column for column in config.languages if column in columns]
    if len(said) == 2:
        return said[0], said[1]
    unnamed = all(column.isdecimal() for column in columns)
    return (columns[0], columns[1]) if len(columns) == 2 or (unnamed and len(columns) > 1) else None


def _given(table: Table, wanted: str | None, role: str) -> str | None:
    if wanted is None or wanted in table.columns:
        return wanted
    if wanted.isdecimal() and 1 <= int(wanted) <= len(table.columns):
        return table.columns[int(wanted) - 1]
    raise missing(table, wanted, role)


def nested(table: Table, config: ParallelConfig) -> Direction | None:
    """The keys of a column that holds both texts, in the order of the languages that were said."""
    if NESTED not in table.columns:
        return None
    place = table.columns.index(NESTED)
    first = next((row[place] for _, row in table.sample if isinstance(row[place], dict)), None)
    if first is None:
        return None
    keys = [key for key in (config.languages or first) if key in first]
    return (keys[0], keys[1]) if len(keys) == 2 else None


def rows(table: Table, columns: Columns) -> Iterator[tuple[int, str, str]]:
    """Line, source and target of each row; those that hold no two texts are counted, and too many are refused."""
    if columns.nested:
        place = table.columns.index(NESTED)
    else:
        for role, name in (("source", columns.source), ("target", columns.target)):
            if name not in table.columns:
                raise missing(table, name, role)
        one, other = table.columns.index(columns.source), table.columns.index(columns.target)
    for line, row in table.rows:
        if columns.nested:
            held = row[place] if isinstance(row[place], dict) else {}
            texts = (held.get(columns.source), held.get(columns.target))
        else:
            texts = (row[one], row[other])
        if (problem := _problem(texts, columns)) is not None:
            table.bad.reject(line, problem)
        else:
            yield line, str(texts[0]), str(texts[1])
    table.bad.finish()


def _problem(texts: tuple[Any, Any], columns: Columns) -> str | None:
    for text, name in zip(texts, (columns.source, columns.target), strict=True):
        if not isinstance(text, str):
            return f"expected text in {name!r}, found {'nothing' if text is None else type(text).__name__}"
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair, which is no character"
    return None

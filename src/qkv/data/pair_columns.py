"""The columns of parallel text: source and target.

They are given by options, or guessed from the names of the columns: usual names such as source and target, or two
languages. Else they are the first two columns of a file without a header, or the keys of a column `translation`, whose
cells are objects such as {"en": ..., "de": ...}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from qkv.data.columns import column_index, columns_note, given_column, list_columns
from qkv.data.corpus import ParallelConfig
from qkv.data.examples import Direction
from qkv.data.findings import Assumption, Caution
from qkv.data.formats import column_names as names
from qkv.data.formats.aligned import SOURCE, TARGET, is_language
from qkv.data.formats.headers import Header, Rows, guess_header, named_header
from qkv.data.formats.rows import LONE_SURROGATE
from qkv.data.formats.tabular import Table
from qkv.errors import DataError
from qkv.visible import encodable, visible


def sides_in_words(directions: Sequence[Direction]) -> str:
    """What a vocabulary of source and target is for: questions and answers are no two languages."""
    return "both sides" if tuple(directions) == ((SOURCE, TARGET),) else "both languages"


def directions_in_words(directions: Sequence[Direction], columns: Mapping[str, str]) -> str:
    """The languages of each direction; where they are not known, the names of the columns."""
    named = {role: f"column {name}" if name.isdecimal() else name for role, name in columns.items()}
    by_column = (named.get(SOURCE, SOURCE), named.get(TARGET, TARGET))
    return ", ".join(" to ".join(by_column if pair == (SOURCE, TARGET) else pair) for pair in directions)


@dataclass(frozen=True)
class PairColumns:
    """The columns of parallel text."""

    source: str
    target: str
    languages: Direction
    nested: bool = False
    """Whether `source` and `target` are keys of the objects in the column `translation`."""

    def note(self, table: Table) -> str:
        roles = {"source": self.source, "target": self.target}
        return columns_note(table, roles, (names.NESTED_TRANSLATION,) if self.nested else roles.values())

    def rows(self, table: Table) -> Iterator[tuple[int, str, str]]:
        """The line, source and target of each row. Rows without two texts are counted; DataError for too many."""
        if self.nested:
            source_index = target_index = table.columns.index(names.NESTED_TRANSLATION)
        else:
            source_index = column_index(table, self.source, "source")
            target_index = column_index(table, self.target, "target")
        incomplete = 0
        for line, row in table.rows:
            source, target = row[source_index], row[target_index]
            if table.source.format == "tmx" and (source is None or target is None):
                incomplete += 1
                continue
            if self.nested:
                source, target = _value_in(source, self.source), _value_in(target, self.target)
            if not isinstance(source, str) or not isinstance(target, str):
                name, cell = (self.target, target) if isinstance(source, str) else (self.source, source)
                type_name = "nothing" if cell is None else type(cell).__name__
                table.bad_rows.reject(line, f"expected text in {name!r}, found {type_name}")
            elif not encodable(source, target):
                table.bad_rows.reject(line, LONE_SURROGATE)
            else:
                yield line, source, target
        table.bad_rows.finish()
        if incomplete:
            subject = f"{incomplete:,} of {table.bad_rows.row_count:,} translation units"
            note = f"{table.where}: {subject} have no text in {self.source} or in {self.target}; they are left out."
            table.bad_rows.findings.add_note(Caution(note))


def _value_in(cell: object, key: str) -> object:
    return cell.get(key) if isinstance(cell, dict) else None


def header_rule(config: ParallelConfig) -> Header:
    """How a header is recognised: by well-known names or those of options, because the first pair must not be lost;
    among more columns than two also by the cells below it."""
    return partial(_find_pair_header, config=config) if config.header is None else config.header


def _find_pair_header(rows: Rows, config: ParallelConfig) -> int | None:
    named = named_header((config.source, config.target))
    guessed = named(rows) if callable(named) else guess_header(rows)
    if guessed is not None and (callable(named) or guessed > 0 or len(rows[0]) > 2):
        return guessed
    return 0 if _pair_by_any_name([visible(cell.strip()) for cell in rows[0]]) is not None else None


def pair_by_name(columns: Sequence[str], usual_pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The columns with the first of the usual pairs of names, else the two columns that are named for languages."""
    by_name = {names.normalize(column): column for column in columns}
    for source, target in usual_pairs:
        if source in by_name and target in by_name:
            return by_name[source], by_name[target]
    languages = [column for column in columns if is_language(column)]
    if len(columns) > 2:  # among more columns "id" is an id, not Indonesian
        languages = [column for column in languages if names.normalize(column) not in names.ID]
    return (languages[0], languages[1]) if len(languages) == 2 else None


def _pair_by_any_name(columns: Sequence[str]) -> tuple[str, str] | None:
    return pair_by_name(columns, names.TRANSLATION_PAIRS) or pair_by_name(columns, names.PROMPT_PAIRS)


def guess_pair(table: Table, config: ParallelConfig) -> PairColumns:
    """The columns of parallel text; DataError, with the names of the columns, if they cannot be guessed."""
    if config.source is None and config.target is None and (keys := nested_pair(table, config)) is not None:
        return PairColumns(*keys, languages=keys, nested=True)
    guessed = _guess_pair(table, config) or (None, None)
    source = given_column(table, config.source, "source") or guessed[0]
    target = given_column(table, config.target, "target") or guessed[1]
    if source is None or target is None or source == target:
        problem = f"which columns are source and target? There are: {list_columns(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Name them with --source NAME and --target NAME.")
    named_for_languages = is_language(source) and is_language(target)
    return PairColumns(source, target, (source, target) if named_for_languages else (SOURCE, TARGET))


def _guess_pair(table: Table, config: ParallelConfig) -> tuple[str, str] | None:
    columns = table.columns
    if table.source.format == "tmx":
        return _pair_of_memory(table, config)
    if (pair := _pair_by_any_name(columns)) is not None:
        return pair
    named_for_languages = [language for language in config.languages if language in columns]
    if len(named_for_languages) == 2:
        return named_for_languages[0], named_for_languages[1]
    first_two_are_pair = len(columns) == 2 or (table.has_numbered_columns and len(columns) > 1)
    return (columns[0], columns[1]) if first_two_are_pair else None


def _pair_of_memory(table: Table, config: ParallelConfig) -> tuple[str, str]:
    """The source language of a translation memory, and the other language that most of the first units have."""
    languages = [name for name in table.columns if name not in (config.source, config.target)]
    if len(table.columns) < 2:
        problem = f"holds texts in one language only, {table.columns[0]}"
        raise DataError(table.where, problem, "Expected units in two languages: export the memory with both.")
    if len(config.languages) == 2 and set(config.languages) <= set(table.columns):
        return config.languages[0], config.languages[1]
    counts = {name: sum(cell is not None for cell in table.sample_column(i)) for i, name in enumerate(table.columns)}
    source = config.source or languages[0]
    target = config.target or max((name for name in languages if name != source), key=counts.__getitem__)
    if len(table.columns) > 2 and not (config.source and config.target):
        listed = ", ".join(table.columns)
        note = f"{table.where}: of its languages ({listed}) {source} and {target} are taken"
        table.bad_rows.findings.add_note(Assumption(f"{note}; choose others with --source and --target."))
    return source, target


def nested_pair(table: Table, config: ParallelConfig) -> Direction | None:
    """The two keys of the objects in the column `translation`, in the order of --languages."""
    if names.NESTED_TRANSLATION not in table.columns:
        return None
    cells = table.sample_column(table.columns.index(names.NESTED_TRANSLATION))
    first = next((cell for cell in cells if isinstance(cell, dict)), {})
    keys = [key for key in (config.languages or first) if key in first]
    return (keys[0], keys[1]) if len(keys) == 2 else None

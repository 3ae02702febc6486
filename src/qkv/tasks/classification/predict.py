"""Rows of a table as a model takes them, one by one and in their order: numbers by the columns that it learned from,
texts by theirs. Each row gets an answer: one that cannot be read stops the work with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from qkv.data.columns import guess_texts
from qkv.data.corpus import ExamplesConfig
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats.kinds import kind_by_name
from qkv.data.formats.tabular import Table, open_table
from qkv.data.number_tables import number_in, rows_of_numbers
from qkv.data.split_files import find_examples
from qkv.errors import DataError, InputError
from qkv.models.registry import TableConfig
from qkv.recipe.bundle import Bundle
from qkv.tasks.classification.evaluate import learned_columns

Row = str | tuple[str, str] | list[float]


def reads_numbers(bundle: Bundle) -> bool:
    return isinstance(bundle.config, get_args(TableConfig))


def rows_in(bundle: Bundle, file: str, findings: Findings, **columns: str | None) -> Iterator[Row] | None:
    """The rows of a table; None for a file whose lines are the texts. `columns`: text, text2, where they are said."""
    source = Source(Path(file))
    if kind_by_name(source) != "table":
        return None
    config = ExamplesConfig(files=(file,), **columns)  # type: ignore[arg-type]
    found, known = (
        find_examples(config, findings).train[0].source,
        getattr(bundle.config, "columns", ()) or columns.values(),
    )
    table = open_table(found, config.encoding, findings)
    if not set(known) & set(table.columns):  # a header above few rows is not told by its looks
        named = open_table(found, config.encoding, findings, header=True)
        table = named if set(known) & set(named.columns) or learned_columns(bundle, named.columns) else table
    if reads_numbers(bundle):
        return _numbers(table, bundle.config)
    learned: dict[str, Any] = learned_columns(bundle, table.columns) if config.text is None else {}
    if source.suffix == ".tsv" and not learned and config.text is None:
        return None  # texts, or pairs of texts, with a tab between
    text, second = guess_texts(table, replace(config, **learned))
    pairs = getattr(bundle.config, "texts", 1) == 2
    if pairs and second is None:
        raise DataError(f"{table.where}:1", "this model judges pairs of texts", "Name both: --text NAME --text2 NAME.")
    return _texts(table, [text, second] if pairs and second else [text])


def _numbers(table: Table, config: Any) -> Iterator[list[float]]:
    for line, row in rows_of_numbers(table, config.columns):
        _require_sound(table)
        if isinstance(row, str):
            raise DataError(f"{table.where}:{line}", row, "Every row is answered: repair it, or leave the cell empty.")
        yield row
    _require_sound(table)


def _texts(table: Table, columns: list[str]) -> Iterator[Row]:
    places = [table.columns.index(name) for name in columns]
    for _, row in table.rows:
        _require_sound(table)
        cells = ["" if row[place] is None else str(row[place]) for place in places]
        yield (cells[0], cells[1]) if len(cells) == 2 else cells[0]
    _require_sound(table)


def _require_sound(table: Table) -> None:
    """A row that is left out would shift the answers of all rows behind it."""
    if table.bad.first is not None:
        line, problem = table.bad.first
        raise DataError(f"{table.where}:{line}", problem, "Every row is answered: repair it.")


def typed(bundle: Bundle, line: str) -> list[float]:
    """A row of numbers as people type it: parted by commas, in the order of the columns."""
    columns: tuple[str, ...] = getattr(bundle.config, "columns", ())
    found = [number_in(cell) for cell in line.split(",")]
    if len(found) != len(columns) or None in found:
        expected = f"{len(columns)} numbers parted by commas: {', '.join(columns[:8])}{' ...' if columns[8:] else ''}"
        raise InputError(f"{line[:60]!r}: this model reads rows of numbers; expected {expected}.")
    return [each for each in found if each is not None]

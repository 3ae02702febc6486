"""The rows of a table that are to be answered: one helper for classifying, tagging and translating with --file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from qkv.data.columns import given_column, guess_texts
from qkv.data.corpus import ExamplesConfig
from qkv.data.files.unpack import Source, require_packages
from qkv.data.findings import Findings
from qkv.data.formats.kinds import kind_by_name
from qkv.data.formats.tabular import Table, open_table
from qkv.errors import DataError


def is_table(file: str) -> bool:
    """Whether the name of a file is that of a table, which has columns, and not of a text with lines."""
    return kind_by_name(Source(Path(file))) == "table"


def open_answered_table(file: str, findings: Findings, known: Sequence[str]) -> Table:
    """Open a table; with few rows a header may be recognised only by its `known` columns."""
    source = Source(Path(file))
    require_packages([source])
    table = open_table(source, None, findings)
    if not set(known) & set(table.columns):
        with_header = open_table(source, None, Findings(), header=True)
        table = with_header if set(known) & set(with_header.columns) else table
    table.require_rows()
    return table


def column_texts(file: str, findings: Findings, given: str | None, trained: Sequence[str]) -> Iterator[str] | None:
    """The texts of the column that is `given`, or the first that the model was trained on, or that looks like text;
    None for a file with a text in each line."""
    if not is_table(file):
        return None
    known = [*([given] if given else []), *trained]
    table = open_answered_table(file, findings, known)
    column = given_column(table, given, "text") or next((name for name in trained if name in table.columns), None)
    if column is None and table.source.suffix == ".tsv" and table.has_numbered_columns:
        return None
    if column is None:
        column, _ = guess_texts(table, ExamplesConfig(files=(file,)))
    return (text for (text,) in rows_of_texts(table, [column]))


def rows_of_texts(table: Table, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The cells of these columns as text, empty where there is none."""
    positions = [table.columns.index(name) for name in columns]
    for _, row in table.rows:
        require_no_bad_row(table)
        yield tuple("" if row[position] is None else str(row[position]) for position in positions)
    require_no_bad_row(table)


def require_no_bad_row(table: Table) -> None:
    """Refuse a table with a row that cannot be read: without it, later answers would belong to other rows."""
    if table.bad_rows.first_bad is not None:
        line, problem = table.bad_rows.first_bad
        raise DataError(f"{table.where}:{line}", problem, "Every row is answered: repair it.")

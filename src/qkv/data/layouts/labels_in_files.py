"""Layouts of files that contain their labels: tables, words with tags, fastText lines, arrays of images."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.data.columns import guess_columns, guess_texts, looks_labelled
from qkv.data.corpus import ExamplesConfig
from qkv.data.files.discover import ListedFile
from qkv.data.files.unpack import DELIMITERS, Source
from qkv.data.formats.delimited import is_number
from qkv.data.formats.kinds import LABELLED_KINDS, FileKind, FilePreviews
from qkv.data.formats.tabular import Table
from qkv.data.layouts.label_words import may_be_labels
from qkv.data.layouts.listing import ExampleLayout, Listing, list_names, split_of_path, stem
from qkv.data.number_tables import holds_numbers
from qkv.data.text_files import is_mostly_text
from qkv.errors import DataError

_FAMILIES: tuple[tuple[FileKind, ...], ...] = (("conll", "conllu", "spans"), ("table", "fasttext"), ("idx", "npz"))
"""Kinds of files that may be examples of the same data."""
_MAX_COMPARED_TABLES = 200
_NO_OPTIONS = ExamplesConfig(files=())


def files_with_labels(listing: Listing) -> ExampleLayout | None:
    """Files of one kind that contain labels; small tables with other columns are left out."""
    labelled = listing.of_kinds(*LABELLED_KINDS)
    if not labelled:
        return None
    family = max(_FAMILIES, key=lambda kinds: sum(file.size for file in labelled if listing.kind(file) in kinds))
    files = [file for file in labelled if listing.kind(file) in family]
    if "table" in family and 1 < len(files) <= _MAX_COMPARED_TABLES:
        files = _matching_tables(files, listing)
    certain = all(has_labels(file.source, listing.previews) for file in files[:3]) and (
        listing.is_filtered or not is_mostly_text(listing.path, [file.source for file in labelled])
    )
    note = None
    if "conll" in family and len(groups := {_tagged_group(file) for file in files if split_of_path(file.path)}) > 1:
        note = f"{listing.name}: {list_names(groups)} are read together; --filter '{sorted(groups)[0]}*' reads one."
    return ExampleLayout([listing.example_file(file) for file in files], note, certain)


def _tagged_group(file: ListedFile) -> str:
    """The name of a file of tagged words without its split, such as the language of esp.train."""
    return stem(file.path.with_name(f"{file.path.name}.txt"))


def tables_named_for_labels(listing: Listing) -> ExampleLayout | None:
    """Tables of texts without a column of labels, whose names or folders are the labels: positive.csv, negative.csv."""
    files = [file for file in listing.of_kinds("table") if file.source.format != "json"]
    if not 1 < len(files) <= _MAX_COMPARED_TABLES:
        return None
    names = {file: listing.label_folder(file) or stem(file.path) for file in files}
    if not may_be_labels(set(names.values())):
        return None
    columns = set()
    for file in files:
        table = listing.previews.table(file.source, listing.header)
        if has_labels(file.source, listing.previews) and _guesses_label(table):
            return None
        columns.add(tuple(table.columns))
        guess_texts(table, _NO_OPTIONS)
    if len(columns) > 1:
        return None
    note = (
        f"{listing.name}: the names of the tables are the labels ({list_names(names.values())}); "
        "--label COLUMN names a column instead."
    )
    return ExampleLayout([listing.example_file(file, label=names[file]) for file in files], note)


def has_labels(source: Source, previews: FilePreviews) -> bool:
    """Whether a file clearly contains labelled examples, and not text for a language model."""
    kind = previews.kind(source)
    if kind != "table" or source.suffix in DELIMITERS or source.format == "workbook":
        return kind in LABELLED_KINDS
    table = previews.table(source)
    return looks_labelled(table) or holds_numbers(table, _NO_OPTIONS)


def _matching_tables(files: Sequence[ListedFile], listing: Listing) -> list[ListedFile]:
    """The largest table, and the others that have the columns that are read from it."""
    tables: dict[ListedFile, Table | None] = {}
    for file in files:
        try:
            tables[file] = listing.previews.table(file.source, listing.header) if file.size else None
        except DataError:
            tables[file] = None  # reported when it is read
    readable = [file for file, table in tables.items() if table is not None]
    if not readable:
        return list(files)
    training = [file for file in readable if split_of_path(file.path) in (None, "train")] or readable
    main = max(training, key=lambda file: file.size)
    main_table = tables[main]
    assert main_table is not None
    try:
        needed = set(guess_columns(main_table, _NO_OPTIONS).by_role().values())
    except DataError:
        needed = set(main_table.columns)
    if holds_numbers(main_table, _NO_OPTIONS):
        needed = set(main_table.columns)

    def matches(file: ListedFile) -> bool:
        table = tables[file]
        if file == main or table is None:
            return table is not None or file.source.format != "json"  # a JSON file without rows describes the others
        in_split = split_of_path(file.path) is not None
        missing = needed - set(table.columns)
        if table.has_numbered_columns and main_table.has_numbered_columns and not in_split:
            return not missing and not is_list_of_names(table)
        return not missing or (in_split and len(missing) <= len(needed) // 2)

    return [file for file in files if matches(file)]


def is_list_of_names(table: Table) -> bool:
    """Whether a table is only a list of label names: a number, counted from 0 or 1, and a name in each row."""
    if len(table.columns) != 2 or not 1 < len(table.sample) <= 1000:
        return False
    numbers, names = (
        [str(cell).strip() for cell in table.sample_column(index)]
        for index in ((0, 1) if is_number(str(table.sample[-1][1][0])) else (1, 0))
    )
    counts = [list(map(str, range(first, first + len(numbers)))) for first in (0, 1)]
    return numbers in counts and len(set(names)) == len(names)


def _guesses_label(table: Table) -> bool:
    try:
        guess_columns(table, _NO_OPTIONS)
    except DataError:
        return False
    return True

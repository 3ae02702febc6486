"""Layouts with texts and labels in different files: line by line, by an id, or in a table that names the files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from qkv.data.columns import guess_texts
from qkv.data.corpus import ExamplesConfig
from qkv.data.files.discover import ListedFile
from qkv.data.findings import Findings
from qkv.data.formats import column_names as names
from qkv.data.formats.delimited import is_number
from qkv.data.formats.tabular import SAMPLE_ROWS, Table, open_table
from qkv.data.layouts.listing import ExampleLayout, Listing, split_of_path
from qkv.data.split_files import ExampleFile, LabelSource
from qkv.errors import DataError
from qkv.visible import counted

_TEXTS = """
text texts sentence sentences tweet tweets review reviews comment comments input inputs x document documents content
contents question questions post posts message messages title titles headline headlines
"""
_LABELS = """
label labels y target targets class classes category categories gold sentiment sentiments emotion emotions intent
intents topic topics answer answers output outputs
"""
_TEXT_WORDS, _LABEL_WORDS = frozenset(_TEXTS.split()), frozenset(_LABELS.split())
_NAMES_OF_LABELS = re.compile(r"(?i)mapping|map|label_?(?:names|map|list|set)|class_?names|classes|labels|categories")
_MAX_LABEL_CHARACTERS, _MAX_LABEL_SHARE = 40, 0.2
_MAX_COMPARED_TABLES = 12
_MAX_NAMES_BYTES = 2**20
_NO_OPTIONS = ExamplesConfig(files=())


def texts_and_labels_by_line(listing: Listing) -> ExampleLayout | None:
    """Two files for each split, a text and its label on the same line: train_text.txt and train_labels.txt."""
    pairs: dict[tuple[PurePosixPath, str], dict[str, ListedFile]] = {}
    for file in listing.files:
        if file.source.format == "text" and (parsed := _role_in_name(file.path)) is not None:
            role, pattern = parsed
            pairs.setdefault((file.path.parent, pattern), {})[role] = file
    complete = [(pair["text"], pair["label"]) for pair in pairs.values() if len(pair) == 2]
    files = [(text, labels) for text, labels in complete if _are_labels_of(listing.lines(labels), listing.lines(text))]
    if not files:
        return None
    values = {line.strip() for _, labels in files for line in listing.lines(labels) if line.strip()}
    names_file, label_names = _find_label_names(listing, values)
    found = [
        listing.example_file(text, "lines", labels=LabelSource(labels.source, names=label_names))
        for text, labels in files
    ]
    text, labels = files[0]
    named = f", which {names_file.path.name} names" if names_file else ""
    more = len(files) - 1
    others = f"; {counted(more, 'more pair')} of files {'is' if more == 1 else 'are'} read the same way" if more else ""
    note = f"{listing.name}: {labels.path.name} has the labels of the lines of {text.path.name}{named}{others}."
    return ExampleLayout(found, note, side_files=[names_file.source] if names_file else [])


def _role_in_name(path: PurePosixPath) -> tuple[str, str] | None:
    """Whether a file is named for texts or for labels, and the name with * for that word."""
    if path.name.lower() == "seq.in":
        return "text", "*"
    parts = re.split(r"([\s._\-]+)", path.name)
    for place in range(len(parts) - 1, -1, -1):
        word = parts[place].lower()
        if role := "text" if word in _TEXT_WORDS else "label" if word in _LABEL_WORDS else None:
            rest = [*parts[:place], "*", *parts[place + 1 :]]
            if len(rest) > 1 and rest[-2] == "." and rest[-1] in ("txt", "text", "csv"):
                rest = rest[:-2]
            return role, "".join(rest).lower()
    return None


def _are_labels_of(labels: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether the lines are short labels with few distinct values, one for each text."""
    filled, filled_texts = ([line.strip() for line in lines if line.strip()] for lines in (labels, texts))
    if len(filled) < 2 or len(filled) < len(labels) - 1 or max(map(len, filled)) > _MAX_LABEL_CHARACTERS:
        return False
    numbers = all(map(is_number, filled))
    return (numbers or len(set(filled)) <= max(2, _MAX_LABEL_SHARE * len(filled))) and len(set(filled_texts)) > len(
        set(filled_texts) & set(filled)
    )


def _find_label_names(listing: Listing, values: set[str]) -> tuple[ListedFile | None, tuple[tuple[str, str], ...]]:
    """The names of numbered labels, if a file lists them: "0 anger" on each line, a JSON object, or names in order."""
    if not values or not all(value.isdecimal() for value in values):
        return None, ()
    for file in listing.files:
        if file.size > _MAX_NAMES_BYTES or not _NAMES_OF_LABELS.search(file.path.stem) or split_of_path(file.path):
            continue
        found = _names_in(file, listing)
        if values <= found.keys() and len(set(found.values())) == len(found):
            return file, tuple(found.items())
    return None, ()


def _names_in(file: ListedFile, listing: Listing) -> Mapping[str, str]:
    lines = [line.strip() for line in listing.lines(file) if line.strip()]
    if file.source.format == "json":
        try:
            value = json.loads("\n".join(lines))
        except (ValueError, RecursionError):
            return {}
        if isinstance(value, list):
            return {str(number): str(name) for number, name in enumerate(value)}
        pairs = [(str(key), str(name)) for key, name in value.items()] if isinstance(value, dict) else []
    else:
        cells = [re.split(r"\t|\s*[,:;]\s*|\s+", line, maxsplit=1) for line in lines]
        if any(len(row) < 2 for row in cells):
            return {str(number): name for number, name in enumerate(lines)}
        pairs = [(row[0], row[1]) for row in cells]
    if all(name.isdecimal() for _, name in pairs):
        pairs = [(name, key) for key, name in pairs]
    return dict(pairs)


def texts_and_labels_by_id(listing: Listing) -> ExampleLayout | None:
    """Texts or sequences in one table, and their labels in another, joined by an id."""
    files = [file for file in listing.of_kinds("table") if file.size]
    if not 1 < len(files) <= _MAX_COMPARED_TABLES:
        return None
    tables = {file: listing.previews.table(file.source, listing.header) for file in files}
    found: list[ExampleFile] = []
    for text_file, text_table in tables.items():
        if not _has_texts_without_labels(text_table):
            continue
        for label_file, label_table in tables.items():
            splits = {split_of_path(text_file.path), split_of_path(label_file.path)} - {None}
            if label_file == text_file or len(splits) > 1:
                continue
            if (join := _join(text_table, label_table)) is not None:
                found.append(listing.example_file(text_file, "table", labels=LabelSource(label_file.source, *join)))
                break
    labels = found[0].labels if found else None
    if labels is None:
        return None
    where = f"{found[0].source.file_name} has the texts and {labels.source.file_name} their labels"
    return ExampleLayout(found, f"{listing.name}: {where}, in column {labels.label!r}, joined by {labels.text_id!r}.")


def _has_texts_without_labels(table: Table) -> bool:
    """Whether a table has columns of texts and of ids, and none of labels."""
    try:
        text, _ = guess_texts(table, _NO_OPTIONS)
    except DataError:
        return False
    others = [column for column in table.columns if column != text]
    known_label = any(names.normalize(column) in names.LABEL for column in others)
    return not known_label and any(_is_distinct(table, column) for column in others)


def _join(texts: Table, labels: Table) -> tuple[str, str, str] | None:
    """The columns of the ids in both tables and that of the labels; None if the tables do not belong together."""
    for text_id in texts.columns:
        ids = {str(cell).strip() for cell in texts.sample_column(texts.columns.index(text_id))}
        if len(ids) < len(texts.sample) or max(map(len, ids), default=0) > 2 * _MAX_LABEL_CHARACTERS:
            continue
        for label_id in labels.columns:
            others = {str(cell).strip() for cell in labels.sample_column(labels.columns.index(label_id))}
            complete = max(len(texts.sample), len(labels.sample)) < SAMPLE_ROWS
            shared = len(ids & others)
            same_name = names.normalize(text_id) == names.normalize(label_id)
            if shared >= 0.9 * min(len(ids), len(others)) or (not complete and same_name and shared):
                columns = [name for name in labels.columns if name != label_id]
                if label := _label_column(labels, columns):
                    return text_id, label_id, label
    return None


def _label_column(table: Table, columns: Sequence[str]) -> str | None:
    """The column of the labels: one with a usual name, else the only one with repeated values."""
    by_name = {names.normalize(column): column for column in columns}
    for name in names.LABEL:
        if name in by_name:
            return by_name[name]
    few = [column for column in columns if not _is_distinct(table, column) and names.normalize(column) not in names.ID]
    return few[0] if len(few) == 1 else None


def _is_distinct(table: Table, column: str) -> bool:
    cells = [str(cell) for cell in table.sample_column(table.columns.index(column))]
    return len(set(cells)) == len(cells)


def files_listed_in_a_table(listing: Listing) -> ExampleLayout | None:
    """One file per text or image, and a table with the label of each file, such as labels.csv."""
    files = [file for file in listing.files if listing.kind(file) in ("image", "text")]
    tables = [file for file in listing.of_kinds("table") if file.size]
    if len(files) < 2 or not 0 < len(tables) <= _MAX_COMPARED_TABLES:
        return None
    by_name: dict[str, ListedFile] = {}
    for file in files:
        for name in (file.path.as_posix(), file.path.name, file.path.stem):
            by_name[name] = file
    labels: dict[ListedFile, str] = {}
    note = ""
    for table_file in tables:
        table = listing.previews.table(table_file.source, listing.header)
        for column in table.columns:
            cells = [str(cell).strip() for cell in table.sample_column(table.columns.index(column))]
            if len(cells) < 2 or sum(cell in by_name for cell in cells) < 0.9 * len(cells):
                continue
            label = _label_column(table, [name for name in table.columns if name != column])
            if label is not None:
                labels |= dict(_labels_of_files(table_file, column, label, by_name, listing))
                note = f"{listing.name}: {table_file.path.name} has the label of each file, in column {label!r}."
                break
    if len(labels) < 0.5 * len(files):
        return None
    kinds = {listing.kind(file) for file in labels}
    if len(kinds) > 1:
        return None
    found = [
        listing.example_file(file, label=label) for file, label in sorted(labels.items(), key=lambda row: row[0].path)
    ]
    return ExampleLayout(found, note, side_files=[table.source for table in tables])


def _labels_of_files(
    table_file: ListedFile, column: str, label: str, by_name: Mapping[str, ListedFile], listing: Listing
) -> Iterator[tuple[ListedFile, str]]:
    table = open_table(table_file.source, listing.previews.encoding, Findings(), listing.header)
    file_column, label_column = table.columns.index(column), table.columns.index(label)
    for _, row in table.rows:
        file = by_name.get(str(row[file_column]).strip())
        if file is not None and row[label_column] is not None and str(row[label_column]).strip():
            yield file, str(row[label_column]).strip()

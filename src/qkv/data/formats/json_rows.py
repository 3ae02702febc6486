"""Reads the rows of a JSON file: one value per line, a list, or an object that contains them in one of these forms:

    {"train": [...], "test": [...]}             rows of splits
    {"sports": ["...", ...], "world": [...]}    texts under their label; also {"train": {"sports": [...]}}
    {"data": [...], "version": 2}               rows under a key that says nothing about them
    {"17": {"text": "..."}, "18": ...}          objects by their ids
    {"text": [...], "label": [...]}             columns, also as {"text": {"0": "..."}, ...}
    {"columns": [...], "data": [[...], ...]}    lists of cells, and the names of the columns

A row is an object, a list of cells, or a text. The form is decided by the first rows; then rows are read one by one.
Only columns are held in memory, because they are stored one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Literal

from qkv.data.formats import column_names as names
from qkv.data.formats.rows import BadRows, JsonReader, Keys, ObjectKey
from qkv.errors import DataError
from qkv.visible import visible

Meaning = Literal["split", "label", ""]
SPLIT: Meaning = "split"
LABEL: Meaning = "label"
TEXT, ID = "text", "id"
"""Names of columns for keys of an object, and for rows that are only texts."""
MAX_COLUMN_CHARACTERS = 2**28
"""Larger columns are refused, because they must be held in memory."""
_SAMPLE = 2000
_EXPECTED = 'Expected [{"text": ..., "label": ...}, ...], such lists under "train" and "test", or one object per line.'

Value = tuple[Keys, bool, object]
"""The keys that lead to a value of an object, whether it is an element of a list, and the value."""
Record = dict[str, object]


class NoRowsError(DataError):
    """A JSON file without rows, such as settings or measurements."""


def read_json(reader: JsonReader, bad_rows: BadRows, by_lines: bool) -> Iterator[tuple[int, object]]:
    """The rows of a file and their numbers, in lines from 1; `by_lines`: its name says that each line is an object."""
    first_character = reader.peek()
    if first_character not in ("[", "{") or (by_lines and first_character == "{") or reader.has_one_value_per_line():
        return map(_flat_row, reader.lines(bad_rows))
    if first_character == "[":
        rows = reader.to_the_end(reader.elements())
    else:
        rows = enumerate(_nested_rows(reader.to_the_end(reader.members()), bad_rows.where), 1)
    first = list(islice(rows, _SAMPLE))
    header = _header([value for _, value in first])
    rows = chain(first[1:] if header else first, rows)
    return _exploded(map(_flat_row, ((number, _named(value, header)) for number, value in rows)))


def _header(values: Sequence[object]) -> list[str]:
    """The names of columns, if the first of several lists of cells contains names instead of values."""
    if len(values) < 2 or not all(isinstance(value, list) for value in values):
        return []
    cells = [cell for cell in _list(values[0]) if isinstance(cell, str)]
    is_header = len(cells) == len(_list(values[0])) and all(map(names.is_known, cells))
    return cells if is_header and not any(set(cells) & set(map(str, _list(value))) for value in values[1:]) else []


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _named(value: object, header: Sequence[str] = ()) -> object:
    """A list of cells as an object; columns without names have numbers."""
    if not isinstance(value, list) or not any(isinstance(cell, str) for cell in value):
        return value
    columns = header if len(header) == len(value) else [str(number) for number in range(1, len(value) + 1)]
    return dict(zip(columns, value, strict=True))


def _flat_row(row: tuple[int, object]) -> tuple[int, object]:
    """A row without nested objects: their values become columns; texts in pieces are joined."""
    number, value = row
    value = _named(value)
    if not isinstance(value, dict) or not any(isinstance(cell, dict | list) for cell in value.values()):
        return number, value
    flat: Record = {}
    for key, cell in value.items():
        if (
            isinstance(cell, dict)
            and names.normalize(key) not in names.LABEL
            and names.normalize(key) != names.NESTED_TRANSLATION
        ):
            for inner, inner_cell in cell.items():
                flat[inner if inner not in value and inner not in flat else f"{key}.{inner}"] = inner_cell
        elif (pieces := _text_in_pieces(cell)) is not None:
            flat[TEXT if TEXT not in value else key] = pieces
        else:
            flat[key] = cell
    return number, flat


def _text_in_pieces(cell: object) -> str | None:
    """A text that is a list of objects, each with a part of it."""
    if not isinstance(cell, list) or not cell:
        return None
    pieces = [piece.get(TEXT) if isinstance(piece, dict) else None for piece in cell]
    return "".join(map(str, pieces)) if all(isinstance(piece, str) for piece in pieces) else None


def _exploded(rows: Iterable[tuple[int, object]]) -> Iterator[tuple[int, object]]:
    """A row for each text of a list in a row, such as {"tag": "greeting", "patterns": ["Hi", "Hello"]}."""
    for number, value in rows:
        key = next((key for key in names.SEVERAL_TEXTS if isinstance(value, dict) and _are_texts(value.get(key))), None)
        if key is None or not isinstance(value, dict) or any(name in value for name in names.TEXT[:2]):
            yield number, value
        else:
            shared = {name: cell for name, cell in value.items() if not isinstance(cell, list)}
            yield from ((number, {TEXT: text, **shared}) for text in value[key])


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value) and bool(value)


def _nested_rows(values: Iterator[Value], where: str) -> Iterator[object]:
    """The rows of an object; NoRowsError if it holds none."""
    sample = list(islice(values, _SAMPLE))
    all_values = chain(sample, values)
    lists = [(keys, value) for keys, in_list, value in sample if in_list]
    kind = next((kind for kind in (dict, list, str) if any(isinstance(value, kind) for _, value in lists)), None)
    if kind is list and {"columns", "data"} <= {keys[-1] for keys, *_ in sample}:
        return _cells_and_names(all_values)
    if kind in (dict, list):
        return _list_rows(all_values, kind, _rows_of_kind(lists, kind))
    if _are_columns(sample):
        return _transposed(all_values, where)
    if all(len(keys) == 1 and " " in keys[0].strip() and not in_list for keys, in_list, _ in sample) and sample:
        return ({TEXT: ObjectKey(keys[0]), LABEL: value} for keys, _, value in all_values)
    if (depth := _record_depth(sample)) is not None:
        return _records(all_values, depth)
    if kind is str and len(lists) > 1:
        return _list_rows(all_values, kind, lists)
    found = ", ".join(dict.fromkeys(keys[0] for keys, *_ in sample[:100]))[:100] or "none"
    raise NoRowsError(f"{where}:1", f"a JSON object without rows; its keys are: {visible(found)}", _EXPECTED)


def _rows_of_kind(lists: Sequence[tuple[Keys, object]], kind: type) -> list[tuple[Keys, object]]:
    """The rows of the given kind: those of all lists, or of the longest where the objects have no key in common."""
    rows = [(keys, value) for keys, value in lists if isinstance(value, kind)]
    shared = set.intersection(*(set(value) for _, value in rows if isinstance(value, dict))) if kind is dict else rows
    longest = Counter(keys for keys, _ in rows).most_common(1)[0][0]
    return rows if shared else [(keys, value) for keys, value in rows if keys == longest]


def _cells_and_names(values: Iterable[Value]) -> Iterator[object]:
    """Lists of cells under "data", and before them their names under "columns"."""
    header: list[str] = []
    for keys, in_list, value in values:
        if in_list and keys[-1] == "columns":
            header.append(str(value))
        elif in_list and keys[-1] == "data":
            yield _named(value, header)


def _column_of(keys: Keys, in_list: bool) -> tuple[Keys, str]:
    """The name of the column that a value is in, and the keys before it: {"text": [...]} or {"text": {"0": ...}}."""
    return (keys[:-1], keys[-1]) if in_list else (keys[:-2], keys[-2])


def _are_columns(sample: Sequence[Value]) -> bool:
    """Whether all values are in columns with names, one of which is the name of a text or a label."""
    if len({(len(keys), in_list) for keys, in_list, _ in sample}) != 1 or (not sample[0][1] and len(sample[0][0]) < 2):
        return False
    sizes = Counter(_column_of(keys, in_list) for keys, in_list, _ in sample)
    columns = {names.normalize(column) for _, column in sizes}
    known = any(column in names.TEXT or column.removesuffix("s") in (*names.TEXT, *names.LABEL) for column in columns)
    return known and max(sizes.values()) > 1 and (len(columns) > 1 or len(sample) == _SAMPLE)


def _transposed(values: Iterable[Value], where: str) -> Iterator[object]:
    """The rows of columns that are stored one after the other."""
    tables: dict[Keys, dict[str, list[object]]] = {}
    characters = 0
    for keys, in_list, value in values:
        parent, column = _column_of(keys, in_list)
        tables.setdefault(parent, {}).setdefault(column, []).append(value)
        characters += len(value) if isinstance(value, str) else 8
        if characters > MAX_COLUMN_CHARACTERS:
            problem = f"columns of more than {MAX_COLUMN_CHARACTERS:,} characters"
            raise DataError(where, problem, "Store one object per line, as .jsonl.")
    for parent, columns in tables.items():
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name!r} {length:,}" for name, length in list(lengths.items())[:5])
            raise DataError(where, f"columns of different lengths ({listed})", "Give a value for each row.")
        split: Record = {SPLIT: ObjectKey(parent[-1])} if parent and names.split_of(parent[-1]) else {}
        for row in zip(*columns.values(), strict=True):
            yield {**dict(zip(columns, row, strict=True)), **split}


def _record_depth(sample: Sequence[Value]) -> int | None:
    """How many keys lead to each object that has texts and other values; None if there are no such objects."""
    records: dict[Keys, set[str]] = {}
    for keys, in_list, value in sample:
        if not in_list and isinstance(value, str):
            records.setdefault(keys[:-1], set()).add(keys[-1])
    depths = Counter(map(len, records))
    if not depths:
        return None
    depth = depths.most_common(1)[0][0]
    shared = set.intersection(*(keys for parent, keys in records.items() if len(parent) == depth))
    if depth == 0:
        return 0 if any(names.normalize(key) in names.TEXT for key in shared) else None
    return depth if depths[depth] > 1 and shared else None


def _records(values: Iterable[Value], depth: int) -> Iterator[object]:
    """Rows that are values of an object, each with its key as id."""
    for parent, members in groupby(values, key=lambda value: value[0][:depth]):
        record: Record = {}
        for keys, in_list, value in members:
            if len(keys) > depth and in_list:
                cells = record.setdefault(keys[-1], [])
                if isinstance(cells, list):
                    cells.append(value)
            elif len(keys) > depth:
                record[keys[-1] if keys[-1] not in record else ".".join(keys[depth:])] = value
        yield {ID: ObjectKey(parent[-1]), **record} if parent else record


def _level_meanings(rows: Sequence[tuple[Keys, object]]) -> list[Meaning]:
    """What the keys of each level say about the rows below them: their split, their label, or nothing."""
    meanings: list[Meaning] = []
    has_label = any(isinstance(value, list) or (isinstance(value, dict) and len(value) > 1) for _, value in rows)
    for level in range(max(len(keys) for keys, _ in rows)):
        keys_of_level = {keys[level] for keys, _ in rows if len(keys) > level}
        if all(map(names.split_of, keys_of_level)):
            meanings.append(SPLIT)
        elif len(keys_of_level) == 1 and (has_label or keys_of_level & names.WRAPPERS):
            meanings.append("")
        else:
            meanings.append("" if all(map(_has_own_label, (value for _, value in rows))) else LABEL)
    return meanings


def _has_own_label(value: object) -> bool:
    if isinstance(value, dict):
        return any(names.normalize(key) in names.LABEL for key in value)
    return isinstance(value, list) and len(value) > 1


def _list_rows(values: Iterable[Value], kind: type, sample: Sequence[tuple[Keys, object]]) -> Iterator[object]:
    """The elements of lists of one kind, `sample` being the first, with what the keys of the lists say about them."""
    level_meanings = _level_meanings(sample)
    meaningful = any(level_meanings)
    keys_with_rows = {keys for keys, _ in sample}
    for keys, in_list, value in values:
        if not in_list or not (meaningful or keys in keys_with_rows):
            continue
        if not isinstance(value, kind):
            if keys in keys_with_rows:  # a bad row among good ones; other values are not rows
                yield value
            continue
        keys_with_rows.add(keys)
        key_values: dict[str, list[str]] = {SPLIT: [], LABEL: []}
        for key, meaning in zip(keys, level_meanings, strict=False):
            if meaning:
                key_values[meaning].append(key)
        row = _named(value) if kind is list else value if kind is dict else {TEXT: value}
        if isinstance(row, dict):
            if key_values[LABEL]:
                row = {**row, LABEL: ObjectKey("/".join(key_values[LABEL]))}
            if key_values[SPLIT]:
                row = {**row, SPLIT: ObjectKey(key_values[SPLIT][0])}
        yield row

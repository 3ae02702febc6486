"""Whether the first row of a table names its columns, told by the names and by how it differs from the rows below."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.data.labelled.names import known

_LONGEST_NAME = 40
_MANY = 20


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    first, body = [cell.strip() for cell in rows[0]], rows[1:]
    if not body or not all(len(cell) <= _LONGEST_NAME for cell in first) or not any(first):
        return not body and any(known(cell) for cell in first)
    columns = [[row[index].strip() for row in body if index < len(row)] for index in range(len(first))]
    if any(cell and cell in set(column) and _recurs(column) for cell, column in zip(first, columns, strict=True)):
        return False  # it is one of the labels
    if any(known(cell) for cell in first) and not any(is_number(cell) for cell in first):
        return True
    for cell, column in zip(first, columns, strict=True):
        filled = [value for value in column if value]
        if cell and not is_number(cell) and len(filled) > 1 and all(is_number(value) for value in filled):
            return True
        if cell and len(column) >= _MANY and len(set(column)) <= len(column) // 10:
            return True  # a few labels that recur, and it is none of them
    return False


def _recurs(column: Sequence[str]) -> bool:
    return len(set(column)) <= max(2, len(column) // 2)


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value  # Python's 1_000 is nobody's number

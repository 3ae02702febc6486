"""Untrusted text made safe for a terminal, a message or a table cell, and short representations of large results.

Control characters (C0, DEL, C1), line and paragraph separators, bidirectional overrides and isolates, the byte order
mark and lone surrogates (bytes that were not UTF-8) are escaped. All other text stays as it is. Results that hold
tensors or long lists get a `repr` that fits on a screen: shapes and counts instead of contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields
from html import escape
from typing import ClassVar

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_IN_LINES = re.compile(f"[{_CONTROL}]")
_IN_ONE_LINE = re.compile(f"[\t\n{_CONTROL}]")


def visible(text: str) -> str:
    """Escape text for one line, or for one cell of a tab-separated row."""
    return _IN_ONE_LINE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Escape text of several lines: line feeds and tabs stay."""
    return _IN_LINES.sub(_escape, text)


def visible_json(document: str) -> str:
    """Escape a JSON document without changing its values: these characters occur only in strings, as \\uXXXX."""
    return _IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _escape(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


def shortened(text: str, max_length: int = 120) -> str:
    """Return the text on one line, cut if it is too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def encodable(*texts: str) -> bool:
    """Whether the texts can be encoded: JSON strings may have half of a surrogate pair, which cannot."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: "1 thread", "2 threads"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage; one that would be rounded to none or to all is said to be a little more or less."""
    least = 10.0**-digits
    if 0 < share < least / 200:
        return f"less than {least:.{digits}f}%"
    if 1 - least / 200 < share < 1:
        return f"more than {100 - least:.{digits}f}%"
    return f"{share:.{digits}%}"


MAX_REPR_LENGTH, MAX_REPR_ITEMS = 60, 6


class ShortRepr:
    """A base for dataclasses declared with `repr=False`: long fields are summarised instead of written out."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def __repr__(self) -> str:
        parts = (f"{field.name}={short_repr(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({', '.join(parts)})"


class ShownResult(ShortRepr):
    """A result that has `values`, or a `table`: a notebook displays these."""

    def values(self) -> Mapping[str, object]:
        raise NotImplementedError

    def table_values(self) -> Mapping[str, object]:
        """The values that the table shows."""
        return self.values()

    def __str__(self) -> str:
        """What a notebook displays, as lines of text."""
        head, rows = self._shown()
        table = [[str(cell) for cell in row] for row in (*([head] if head else []), *rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join(map(visible, [*lines, *self.remarks()]))

    def _repr_html_(self) -> str:
        head, rows = self._shown()
        return html_table(rows, head) + "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks())

    def remarks(self) -> Sequence[str]:
        """Sentences below the table."""
        return ()

    def _shown(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        """A head, which may be empty, and rows."""
        if callable(own := getattr(self, "table", None)):
            return own().columns, own().rows
        values = {name: value for name, value in self.table_values().items() if value == value}  # not NaN
        rows = ((name, f"{v:.4f}" if isinstance(v, float) else short_repr(v)) for name, v in values.items())
        return (), [(name.replace("_", " "), value.strip("'")) for name, value in rows]


def html_table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Cells are text and nothing else."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{top}</tr>' if head else ''}{body}</table>"


def short_repr(value: object) -> str:
    kind = type(value).__name__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{kind} {tuple(value.shape)}>"
    if isinstance(value, Mapping):
        keys = [str(key) for key in list(value)[:MAX_REPR_ITEMS]]
        return f"<{kind} of {len(value)}: {', '.join(keys)}{', …' if len(value) > MAX_REPR_ITEMS else ''}>"
    if isinstance(value, list | tuple) and (
        len(value) > MAX_REPR_ITEMS or any(isinstance(item, ShortRepr) for item in value)
    ):
        return f"<{kind} of {len(value)}>"
    text = repr(value)
    return text if len(text) <= MAX_REPR_LENGTH else f"{text[: MAX_REPR_LENGTH - 1]}…"

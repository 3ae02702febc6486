"""Text of strangers for a terminal, a message or one cell of a table: what could steer a terminal becomes visible.

Escaped are control characters (C0, DEL, C1), line and paragraph separators, bidirectional overrides and isolates, the
byte order mark, and bytes that were no UTF-8 (lone surrogates). All other text stays as it is. Results that hold
tensors or long lists get a `repr` that fits on a screen: shapes and counts, not contents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, fields
from typing import ClassVar

_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_IN_LINES = re.compile(f"[{_STEERING}]")
_IN_A_LINE = re.compile(f"[\t\n{_STEERING}]")


def visible(text: str) -> str:
    """One line, and one cell of a row with tabs between the cells."""
    return _IN_A_LINE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Text of several lines: line feeds and tabs stay."""
    return _IN_LINES.sub(_escape, text)


def visible_json(document: str) -> str:
    """A JSON document of the same values: these characters stand only in its strings, where \\uXXXX means them."""
    return _IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _escape(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


def shortened(text: str, longest: int = 120) -> str:
    """Give a text on one line, cut where it is too long."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def counted(number: int, thing: str) -> str:
    """Give a number with its noun, as in: 1 thread, 2 threads."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


LONGEST_TEXT, MOST_ITEMS = 60, 6


class ShortRepr:
    """For dataclasses, which need `repr=False` as well. Whatever is long is described, not written out."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def __repr__(self) -> str:
        parts = (f"{field.name}={described(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({', '.join(parts)})"


def described(value: object) -> str:
    kind = type(value).__name__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{kind} {tuple(value.shape)}>"
    if isinstance(value, Mapping):
        keys = [str(key) for key in list(value)[:MOST_ITEMS]]
        return f"<{kind} of {len(value)}: {', '.join(keys)}{', …' if len(value) > MOST_ITEMS else ''}>"
    if isinstance(value, list | tuple) and (len(value) > MOST_ITEMS or any(isinstance(i, ShortRepr) for i in value)):
        return f"<{kind} of {len(value)}>"
    text = repr(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"

"""Text of strangers for a terminal, a message or one cell of a table: what could steer a terminal becomes visible.

Escaped are control characters (C0, DEL, C1), line and paragraph separators, bidirectional overrides and isolates, the
byte order mark, and bytes that were no UTF-8 (lone surrogates). All other text stays as it is.
"""

from __future__ import annotations

import re

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

"""HTML of this package's results for notebooks: no scripts, and text always escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from torch import Tensor

MAX_WORDS = 40  # words of a matrix; of a longer text the last ones are shown
ACCENT = "31, 79, 163"


def shaded(text: str, share: float, title: str = "") -> str:
    """A cell with a background as dark as `share` says, from 0 to 1."""
    ground = f"background: rgba({ACCENT}, {max(0.0, min(1.0, share)) ** 0.65:.2f})"
    return f'<td style="{ground}; min-width: 1em" title="{escape(title)}">{escape(text)}</td>'


def matrix(weights: Tensor, queries: Sequence[str], keys: Sequence[str]) -> str:
    """The attention weights of one head: rows are queries, columns are keys; the title of a cell has its weight."""
    down, across = max(0, len(queries) - MAX_WORDS), max(0, len(keys) - MAX_WORDS)
    queries, keys = queries[down:], keys[across:]
    top = "".join(f'<th style="writing-mode: vertical-rl">{escape(token)}</th>' for token in keys)
    lines = []
    for word, row in zip(queries, weights[down:, across:].tolist(), strict=True):
        cells = (shaded("", weight, f"{word} → {other}: {weight:.3f}") for other, weight in zip(keys, row, strict=True))
        lines.append(f"<tr><th>{escape(word)}</th>{''.join(cells)}</tr>")
    return f"<table><tr><th></th>{top}</tr>{''.join(lines)}</table>"


def words(texts: Sequence[str], values: Sequence[float]) -> str:
    """Words with a background: the darker, the more a word contributed to the answer; words against it are
    underlined."""
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    cells = []
    for text, value in zip(texts, values, strict=True):
        shown = f"<u>{escape(text)}</u>" if value < 0 else escape(text)
        ground = f"background: rgba({ACCENT}, {max(0.0, value / largest) * 0.45:.2f})"
        cells.append(f'<span style="{ground}" title="{value:+.4f}">{shown}</span>')
    return f"<p>{' '.join(cells)}</p>"

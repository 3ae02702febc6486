"""How objects of this room show themselves in a notebook: plain HTML without scripts, and text always escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from torch import Tensor

MAX_WORDS = 40  # words of a matrix; a longer text is shown by its last ones
ACCENT = "31, 79, 163"


def shaded(text: str, share: float, title: str = "") -> str:
    """A cell on a ground as dark as `share` says, from 0 to 1."""
    ground = f"background: rgba({ACCENT}, {max(0.0, min(1.0, share)) ** 0.65:.2f})"
    return f'<td style="{ground}; min-width: 1em" title="{escape(title)}">{escape(text)}</td>'


def matrix(weights: Tensor, asking: Sequence[str], answering: Sequence[str]) -> str:
    """Attention of one head: rows ask, columns answer; a cell's title says its weight."""
    down, across = max(0, len(asking) - MAX_WORDS), max(0, len(answering) - MAX_WORDS)
    asking, answering = asking[down:], answering[across:]
    top = "".join(f'<th style="writing-mode: vertical-rl">{escape(token)}</th>' for token in answering)
    lines = []
    for word, row in zip(asking, weights[down:, across:].tolist(), strict=True):
        cells = (
            shaded("", weight, f"{word} → {other}: {weight:.3f}") for other, weight in zip(answering, row, strict=True)
        )
        lines.append(f"<tr><th>{escape(word)}</th>{''.join(cells)}</tr>")
    return f"<table><tr><th></th>{top}</tr>{''.join(lines)}</table>"


def words(texts: Sequence[str], values: Sequence[float]) -> str:
    """Words on grounds: the darker, the more a word did for the answer; what spoke against it is underlined."""
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    cells = []
    for text, value in zip(texts, values, strict=True):
        shown = f"<u>{escape(text)}</u>" if value < 0 else escape(text)
        ground = f"background: rgba({ACCENT}, {max(0.0, value / largest) * 0.45:.2f})"
        cells.append(f'<span style="{ground}" title="{value:+.4f}">{shown}</span>')
    return f"<p>{' '.join(cells)}</p>"

"""Attention as a picture for a paper: one head with its words, or small pictures of all heads, as SVG or PNG.

Rows ask, columns answer; a weight w is drawn as dark as w^0.65, as on the page (decision 17), in 24 steps; what is
lighter than the lightest is left out. Where heads are small, the largest weight under each dot is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from qkv.inspection.attention_pass import Attended, walk
from qkv.inspection.subject import StackName, Subject, main_stack, stacks
from qkv.storage import write_file
from qkv.studies.picture import PALE, Frame, Shape, Squares, Word, pillow, png, svg

STEPS = 24
SIDE = 620.0  # of one head, at most
CELL = 26.0  # of a weight, at most
READABLE = 8.0  # the smallest cell beside which a word can be read
SMALL = 84  # of a head among many, at most
GRID = 1000.0  # of all heads side by side, at most
LEGEND = (0.02, 0.1, 0.25, 0.5, 1.0)
LONGEST = 14  # letters of a word
ASKS: dict[StackName, str] = {
    "self": "each word (row) looks at words of its text (columns)",
    "encoder": "each word of the source (row) looks at words of the source (columns)",
    "decoder": "each written word (row) looks at written words (columns)",
    "cross": "each written word (row) looks at words of the source (columns)",
}


def draw(
    subject: Subject, head: tuple[int, int] | None, *, to_svg: Path | None = None, to_png: Path | None = None
) -> None:
    """The picture of one head, layer and head counted from 0, or of all; PNG needs Pillow, which is asked for first."""
    if to_png is not None:
        pillow()
    shapes, width, height = one(subject, *head) if head is not None else all_heads(subject)
    if to_svg is not None:
        write_file(to_svg, svg(shapes, height, width))
    if to_png is not None:
        write_file(to_png, png(shapes, height, width))


def colour(step: int) -> str:
    """From white to the accent."""
    share = step / STEPS
    return "#" + "".join(f"{round(255 + (full - 255) * share):02x}" for full in (0x1F, 0x4F, 0xA3))


def squares(weights: Tensor, x: float, y: float, wide: float, high: float) -> list[Shape]:
    """A matrix as squares, those of one strength together."""
    steps = (weights.clamp(0, 1) ** 0.65 * STEPS).round().long()
    shapes: list[Shape] = []
    for step in range(1, STEPS + 1):
        corners = tuple((x + column * wide, y + row * high) for row, column in (steps == step).nonzero().tolist())
        if corners:
            shapes.append(Squares(corners, wide, high, colour(step)))
    return shapes


def legend(right: float, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    for number, weight in enumerate(reversed(LEGEND)):
        x = right - 58 * (number + 1)
        step = max(1, round(weight**0.65 * STEPS))
        shapes += [Squares(((x, y - 6),), 12.0, 12.0, colour(step)), Word(x + 17, y, f"{weight:g}", PALE, size=12)]
    return shapes


def label(piece: str) -> str:
    text = piece.strip() or "·"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def words(pieces: Sequence[str], cell: float) -> list[tuple[int, str]]:
    """The words beside a matrix, or where there is no room for them, some of their numbers."""
    if cell >= READABLE:
        return [(place, label(piece)) for place, piece in enumerate(pieces)]
    step = max(10, round(50 / cell / 10) * 10)
    return [(place, str(place + 1)) for place in range(0, len(pieces), step)]


def one(subject: Subject, layer: int, head: int) -> tuple[list[Shape], int, int]:
    """One head with its words."""
    name = main_stack(stacks(subject.model)).name
    seen: list[Attended] = []
    walk(subject, seen.append, layers={name: [layer]}, heads=[head])
    weights = seen[0].weights[0]
    rows, columns = weights.shape
    asking = subject.pieces(subject.inputs.tokens)
    answering = subject.pieces(subject.inputs.source or ()) if name == "cross" else asking
    cell = min(CELL, SIDE / max(rows, columns))
    size = max(7, min(13, int(cell) - 1)) if cell >= READABLE else 11
    long = max((len(text) for list_ in (asking, answering) for _, text in words(list_, cell)), default=1)
    left = 24.0 + 0.62 * size * long
    top = 76.0 + (0.62 * size * long if cell >= READABLE else 4.0)
    width = max(left + columns * cell + 24, 480.0)
    shapes: list[Shape] = [
        Word(20.0, 22.0, f"{subject.name}: layer {layer + 1}, head {head + 1}", size=16),
        Word(20.0, 45.0, ASKS[name], PALE, size=12),
    ]
    bottom = top + rows * cell
    shapes += [*squares(weights, left, top, cell, cell), Frame(left, top, columns * cell, rows * cell)]
    for place, text in words(asking, cell):
        shapes.append(Word(left - 6, top + (place + 0.5) * cell, text, anchor="end", size=size))
    for place, text in words(answering, cell):
        turn = 90 if cell >= READABLE else 0
        shapes.append(Word(left + (place + 0.5) * cell, top - 6, text, size=size, turn=turn))
    shapes += legend(width - 4, bottom + 22)
    return shapes, round(width), round(bottom + 40)


def all_heads(subject: Subject) -> tuple[list[Shape], int, int]:
    """Every head of every layer, small."""
    tower = main_stack(stacks(subject.model))
    size = min(float(SMALL), max(20.0, (GRID - 60) / tower.heads - 6))
    heads: list[Shape] = []
    left, top, step = 52.0, 84.0, size + 6

    def draw_heads(attended: Attended) -> None:
        rows, columns = (min(round(size), length) for length in attended.weights.shape[1:])
        small = F.adaptive_max_pool2d(attended.weights, (rows, columns))
        y = top + attended.layer * step
        for head, weights in zip(attended.heads, small, strict=True):
            x = left + head * step
            heads.extend([*squares(weights, x, y, size / columns, size / rows), Frame(x, y, size, size, "#c9c5bb")])

    walk(subject, draw_heads, layers={tower.name: None})
    width = max(left + tower.heads * step + 18, 480.0)
    bottom = top + len(tower.layers) * step
    title = f"{subject.name}: {len(tower.layers)} layers of {tower.heads} heads"
    shapes: list[Shape] = [Word(20.0, 22.0, title, size=16), Word(20.0, 45.0, ASKS[tower.name], PALE, size=12), *heads]
    shapes.append(Word(20.0, top - 10, "layer", PALE, size=11))
    for head in range(tower.heads):
        name = f"head {head + 1}" if size > 44 else str(head + 1)
        shapes.append(Word(left + head * step + size / 2, top - 10, name, PALE, "middle", 11))
    for layer in range(len(tower.layers)):
        shapes.append(Word(left - 10, top + layer * step + size / 2, str(layer + 1), PALE, "end", 11))
    shapes += legend(width - 4, bottom + 16)
    return shapes, round(width), round(bottom + 34)

"""Pictures of attention for a paper: one head with its tokens, or small pictures of all heads, as SVG or PNG.

Rows are queries, columns are keys. The darkness of a weight w is w^0.65, as on the page (decision 17), in 24 steps, of
which white ones are left out. In a small picture each cell shows the largest of the weights that it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from qkv.inspection.attention_pass import AttentionValues, trace_attention
from qkv.inspection.subject import StackName, Subject, main_stack, stacks
from qkv.storage import write_file
from qkv.studies.picture import PALE_COLOUR, Frame, Label, Rectangles, Shape, import_pillow, png, svg

DARKNESS_STEPS = 24
MAX_HEAD_SIZE = 620.0  # of a picture with one head
MAX_CELL_SIZE = 26.0
MIN_LABELLED_CELL = 8.0  # smaller cells are labelled with numbers instead of tokens
MAX_SMALL_HEAD_SIZE = 84
MAX_ALL_HEADS_WIDTH = 1000.0
LEGEND_WEIGHTS = (0.02, 0.1, 0.25, 0.5, 1.0)
MAX_LABEL_LETTERS = 14
CAPTIONS: dict[StackName, str] = {
    "self": "each word (row) attends to words of its text (columns)",
    "encoder": "each word of the source (row) attends to words of the source (columns)",
    "decoder": "each word of the target (row) attends to words of the target (columns)",
    "cross": "each word of the target (row) attends to words of the source (columns)",
}


def draw(
    subject: Subject, head: tuple[int, int] | None, *, to_svg: Path | None = None, to_png: Path | None = None
) -> None:
    """Draw one head, given by its layer and head counted from 0, or all heads."""
    if to_png is not None:
        import_pillow()  # which is optional, so it is required before the model runs
    shapes, width, height = one_head(subject, *head) if head is not None else all_heads(subject)
    if to_svg is not None:
        write_file(to_svg, svg(shapes, height, width))
    if to_png is not None:
        write_file(to_png, png(shapes, height, width))


def colour(step: int) -> str:
    """The colour of a darkness step, from white to dark blue."""
    share = step / DARKNESS_STEPS
    return "#" + "".join(f"{round(255 + (channel - 255) * share):02x}" for channel in (0x1F, 0x4F, 0xA3))


def weight_cells(weights: Tensor, x: float, y: float, cell_width: float, cell_height: float) -> list[Shape]:
    """A matrix of weights as filled rectangles, grouped by colour."""
    steps = (weights.clamp(0, 1) ** 0.65 * DARKNESS_STEPS).round().long()
    shapes: list[Shape] = []
    for step in range(1, DARKNESS_STEPS + 1):
        cells = (steps == step).nonzero().tolist()
        if cells:
            corners = tuple((x + column * cell_width, y + row * cell_height) for row, column in cells)
            shapes.append(Rectangles(corners, cell_width, cell_height, colour(step)))
    return shapes


def legend(right: float, y: float) -> list[Shape]:
    shapes: list[Shape] = []
    for index, weight in enumerate(reversed(LEGEND_WEIGHTS)):
        x = right - 58 * (index + 1)
        step = max(1, round(weight**0.65 * DARKNESS_STEPS))
        shapes.append(Rectangles(((x, y - 6),), 12.0, 12.0, colour(step)))
        shapes.append(Label(x + 17, y, f"{weight:g}", PALE_COLOUR, size=12))
    return shapes


def token_label(token: str) -> str:
    text = token.strip() or "·"
    return text if len(text) <= MAX_LABEL_LETTERS else text[: MAX_LABEL_LETTERS - 1] + "…"


def axis_labels(tokens: Sequence[str], cell_size: float) -> list[tuple[int, str]]:
    """Positions and labels of an axis: all tokens or, if cells are too small, some positions counted from 1."""
    if cell_size >= MIN_LABELLED_CELL:
        return [(position, token_label(token)) for position, token in enumerate(tokens)]
    step = max(10, round(50 / cell_size / 10) * 10)
    return [(position, str(position + 1)) for position in range(0, len(tokens), step)]


def one_head(subject: Subject, layer: int, head: int) -> tuple[list[Shape], int, int]:
    """One head with its tokens: the shapes, the width and the height."""
    stack = main_stack(stacks(subject.model)).name
    attended: list[AttentionValues] = []
    trace_attention(subject, attended.append, layers={stack: [layer]}, heads=[head])
    weights = attended[0].weights[0]
    rows, columns = weights.shape
    queries = subject.pieces(subject.inputs.tokens)
    keys = subject.pieces(subject.inputs.source or ()) if stack == "cross" else queries
    cell = min(MAX_CELL_SIZE, MAX_HEAD_SIZE / max(rows, columns))
    readable = cell >= MIN_LABELLED_CELL
    font_size = max(7, min(13, int(cell) - 1)) if readable else 11
    query_labels, key_labels = axis_labels(queries, cell), axis_labels(keys, cell)
    longest_label = 0.62 * font_size * max((len(text) for _, text in query_labels + key_labels), default=1)
    left = 24.0 + longest_label
    top = 76.0 + (longest_label if readable else 4.0)
    width = max(left + columns * cell + 24, 480.0)
    shapes: list[Shape] = [
        Label(20.0, 22.0, f"{subject.name}: layer {layer + 1}, head {head + 1}", size=16),
        Label(20.0, 45.0, CAPTIONS[stack], PALE_COLOUR, size=12),
    ]
    bottom = top + rows * cell
    shapes += [*weight_cells(weights, left, top, cell, cell), Frame(left, top, columns * cell, rows * cell)]
    for position, text in query_labels:
        shapes.append(Label(left - 6, top + (position + 0.5) * cell, text, anchor="end", size=font_size))
    for position, text in key_labels:
        shapes.append(Label(left + (position + 0.5) * cell, top - 6, text, size=font_size, vertical=readable))
    shapes += legend(width - 4, bottom + 22)
    return shapes, round(width), round(bottom + 40)


def all_heads(subject: Subject) -> tuple[list[Shape], int, int]:
    """A small picture of every head of every layer: the shapes, the width and the height."""
    stack = main_stack(stacks(subject.model))
    size = min(float(MAX_SMALL_HEAD_SIZE), max(20.0, (MAX_ALL_HEADS_WIDTH - 60) / stack.heads - 6))
    head_shapes: list[Shape] = []
    left, top, distance = 52.0, 84.0, size + 6

    def draw_layer(attended: AttentionValues) -> None:
        rows, columns = (min(round(size), length) for length in attended.weights.shape[1:])
        pooled = F.adaptive_max_pool2d(attended.weights, (rows, columns))
        y = top + attended.layer * distance
        for head, weights in zip(attended.heads, pooled, strict=True):
            x = left + head * distance
            head_shapes.extend(weight_cells(weights, x, y, size / columns, size / rows))
            head_shapes.append(Frame(x, y, size, size, "#c9c5bb"))

    trace_attention(subject, draw_layer, layers={stack.name: None})
    width = max(left + stack.heads * distance + 18, 480.0)
    bottom = top + len(stack.layers) * distance
    title = f"{subject.name}: {len(stack.layers)} layers of {stack.heads} heads"
    shapes: list[Shape] = [
        Label(20.0, 22.0, title, size=16),
        Label(20.0, 45.0, CAPTIONS[stack.name], PALE_COLOUR, size=12),
        *head_shapes,
        Label(20.0, top - 10, "layer", PALE_COLOUR, size=11),
    ]
    for head in range(stack.heads):
        name = f"head {head + 1}" if size > 44 else str(head + 1)
        shapes.append(Label(left + head * distance + size / 2, top - 10, name, PALE_COLOUR, "middle", 11))
    for layer in range(len(stack.layers)):
        shapes.append(Label(left - 10, top + layer * distance + size / 2, str(layer + 1), PALE_COLOUR, "end", 11))
    shapes += legend(width - 4, bottom + 16)
    return shapes, round(width), round(bottom + 34)

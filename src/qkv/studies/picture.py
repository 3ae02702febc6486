"""Plots of scores with intervals, with a row for each system or a curve over layers.

A plot is a list of shapes, which `svg` writes as text and `png` draws with Pillow. attention_picture.py uses them too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from qkv.errors import InputError, require_package
from qkv.evaluation.intervals import Estimate
from qkv.storage import write_file

ENDINGS = (".svg", ".png")
WIDTH = 860
LEFT, RIGHT, TOP, BOTTOM = 210.0, 90.0, 62.0, 46.0  # margins
ROW_HEIGHT = 30.0
FONT_SIZE = 15
PNG_SCALE = 2  # pixels of a PNG for each unit of the picture
TEXT_COLOUR, PALE_COLOUR, GRID_COLOUR = "#1f2430", "#6b7280", "#e5e7eb"
NETWORK_COLOUR, BASELINE_COLOUR = "#1d5fd1", "#9a6700"
WHISKER = 5.0


@dataclass(frozen=True)
class IntervalRow:
    """A system in a plot of intervals."""

    name: str
    score: Estimate
    is_network: bool
    is_best: bool = False


@dataclass(frozen=True)
class Segment:
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    thickness: float = 1.0


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    colour: str
    radius: float = 5.0


@dataclass(frozen=True)
class Label:
    x: float
    y: float  # the vertical middle of the letters
    text: str
    colour: str = TEXT_COLOUR
    anchor: Literal["start", "middle", "end"] = "start"  # which point of the text is at x
    size: int = FONT_SIZE
    vertical: bool = False  # whether the text is rotated by 90 degrees, and reads upwards


@dataclass(frozen=True)
class Rectangles:
    """Filled rectangles of one size and colour, given by their upper left corners."""

    corners: tuple[tuple[float, float], ...]
    width: float
    height: float
    colour: str


@dataclass(frozen=True)
class Frame:
    x: float
    y: float
    width: float
    height: float
    colour: str = PALE_COLOUR


Shape = Segment | Dot | Label | Rectangles | Frame


def require_format(path: Path) -> None:
    """Refuse a file name with an unknown ending, and a PNG without Pillow, before anything is trained."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"--picture {path}: expected a name that ends in {' or '.join(ENDINGS)}.")
    if path.suffix.lower() == ".png":
        import_pillow()


def draw_intervals(path: Path, rows: Sequence[IntervalRow], title: str, axis_title: str) -> None:
    """Draw a dot for each score and a bar for its interval, one row per system."""
    low, high, ticks = axis([value for row in rows for value in _finite_values(row.score)])

    def x(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    bottom = TOP + ROW_HEIGHT * len(rows)
    shapes: list[Shape] = [Label(20.0, 24.0, title, size=FONT_SIZE + 3)]
    for tick in ticks:
        shapes += [
            Segment(x(tick), TOP - 6, x(tick), bottom, GRID_COLOUR),
            Label(x(tick), bottom + 12, f"{tick:g}", PALE_COLOUR, "middle", 12),
        ]
    shapes.append(Label((LEFT + WIDTH - RIGHT) / 2, bottom + 32, axis_title, PALE_COLOUR, "middle", 13))
    for index, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * (index + 0.5)
        colour = NETWORK_COLOUR if row.is_network else BASELINE_COLOUR
        shapes.append(Label(LEFT - 16, y, row.name + (" *" if row.is_best else ""), anchor="end"))
        if row.score.value is None:
            shapes.append(Label(LEFT, y, "not defined", PALE_COLOUR))
            continue
        if row.score.low is not None and row.score.high is not None:
            left, right = x(row.score.low), x(row.score.high)
            shapes.append(Segment(left, y, right, y, colour, 2.0))
            shapes += [Segment(end, y - WHISKER, end, y + WHISKER, colour, 2.0) for end in (left, right)]
        shapes += [Dot(x(row.score.value), y, colour), Label(WIDTH - RIGHT + 20, y, f"{row.score.value:.4f}")]
    write_picture(path, shapes, round(bottom + BOTTOM))


def text_plot(scores: Sequence[tuple[str, Estimate]], width: int = 60) -> list[str]:
    """Draw intervals as lines of characters, with an o for the score."""
    low, high, _ = axis([value for _, score in scores for value in _finite_values(score)])
    longest = max(len(name) for name, _ in scores)

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1))

    lines = []
    for name, score in scores:
        row = [" "] * width
        if score.value is not None:
            if score.low is not None and score.high is not None:
                row[column(score.low) : column(score.high) + 1] = "-" * (column(score.high) - column(score.low) + 1)
            row[column(score.value)] = "o"
        lines.append(f"{name:>{longest}} |{''.join(row).rstrip()}")
    return [*lines, f"{'':>{longest}}  {low:<{width // 2}g}{high:>{width - width // 2}g}"]


CURVE_COLOURS = ("#1d5fd1", "#c2410c", "#15803d", "#7e22ce", "#9a6700", "#0f766e")
CURVES_HEIGHT = 300.0
MAX_WHOLE_TICKS = 40  # an axis has a tick at every whole number if there are at most this many


Curve = Sequence[tuple[float, Estimate]]  # positions on the x axis with their scores


def draw_curves(path: Path, curves: Mapping[str, Curve], title: str, axis_title: str) -> None:
    """Draw a curve for each name, with the intervals of its scores."""
    low, high, y_ticks = axis(
        [value for curve in curves.values() for _, score in curve for value in _finite_values(score)]
    )
    positions = [position for curve in curves.values() for position, _ in curve]
    first, last, x_ticks = axis(positions)
    if all(float(position).is_integer() for position in positions) and last - first <= MAX_WHOLE_TICKS:
        x_ticks = [float(tick) for tick in range(int(first), int(last) + 1)]
    left, right, bottom = 70.0, 250.0, TOP + CURVES_HEIGHT

    def x(position: float) -> float:
        return left + (position - first) / (last - first) * (WIDTH - left - right)

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * CURVES_HEIGHT

    shapes: list[Shape] = [Label(20.0, 24.0, title, size=FONT_SIZE + 3)]
    for tick in y_ticks:
        shapes += [Segment(left, y(tick), WIDTH - right, y(tick), GRID_COLOUR)]
        shapes += [Label(left - 12, y(tick), f"{tick:g}", PALE_COLOUR, "end", 12)]
    shapes += [Label(x(tick), bottom + 16, f"{tick:g}", PALE_COLOUR, "middle", 12) for tick in x_ticks]
    shapes.append(Label(x(first) / 2 + x(last) / 2, bottom + 36, axis_title, PALE_COLOUR, "middle", 13))
    for index, (name, curve) in enumerate(curves.items()):
        colour = CURVE_COLOURS[index % len(CURVE_COLOURS)]
        points = [(x(position), y(score.value), score) for position, score in curve if score.value is not None]
        for (x1, y1, _), (x2, y2, _) in pairwise(points):
            shapes.append(Segment(x1, y1, x2, y2, colour, 2.0))
        for point_x, point_y, score in points:
            shapes.append(Dot(point_x, point_y, colour, 4.0))
            if score.low is not None and score.high is not None:
                shapes.append(Segment(point_x, y(score.low), point_x, y(score.high), colour))
        legend_y = TOP + 12 + 24 * index
        shapes += [Dot(WIDTH - right + 26, legend_y, colour), Label(WIDTH - right + 40, legend_y, name)]
    write_picture(path, shapes, round(bottom + BOTTOM + 12))


def write_picture(path: Path, shapes: Sequence[Shape], height: int) -> None:
    write_file(path, svg(shapes, height) if path.suffix.lower() == ".svg" else png(shapes, height))


def _finite_values(score: Estimate) -> list[float]:
    return [value for value in (score.value, score.low, score.high) if value is not None and math.isfinite(value)]


def axis(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """The ends and the ticks of an axis for these values; ticks are round numbers."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    magnitude = max(abs(low), abs(high), 1.0)
    length = high - low if high - low > 1e-6 * magnitude else magnitude / 10  # ignore rounding errors
    exact_step = length / 5
    power = 10.0 ** math.floor(math.log10(exact_step))
    step = min((power, 2 * power, 5 * power, 10 * power), key=lambda step: abs(step - exact_step))
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    ticks = [round(number * step, 10) for number in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def svg(shapes: Sequence[Shape], height: int, width: int = WIDTH) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, Helvetica, Arial, sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for shape in shapes:
        match shape:
            case Segment(x1, y1, x2, y2, colour, thickness):
                ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
                parts.append(f'<line {ends} stroke="{colour}" stroke-width="{thickness:g}"/>')
            case Dot(x, y, colour, radius):
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>')
            case Label(x, y, text, colour, anchor, size, vertical):
                attributes = (
                    f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" dominant-baseline="central"'
                )
                rotation = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if vertical else ""
                parts.append(f'<text {attributes}{rotation} fill="{colour}">{escape(printable(text))}</text>')
            case Rectangles(corners, rectangle_width, rectangle_height, colour):
                size_path = f"h{rectangle_width:.4g}v{rectangle_height:.4g}h{-rectangle_width:.4g}z"
                outlines = "".join(f"M{x:.5g} {y:.5g}{size_path}" for x, y in corners)
                parts.append(f'<path d="{outlines}" fill="{colour}"/>')
            case Frame(x, y, frame_width, frame_height, colour):
                box = f'x="{x:.1f}" y="{y:.1f}" width="{frame_width:.1f}" height="{frame_height:.1f}"'
                parts.append(f'<rect {box} fill="none" stroke="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


def printable(text: str) -> str:
    """Replace control characters, which XML must not contain."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def import_pillow() -> Any:
    require_package("PIL", "a picture in PNG (SVG needs nothing)")
    from PIL import Image, ImageDraw, ImageFont

    return Image, ImageDraw, ImageFont


def png(shapes: Sequence[Shape], height: int, width: int = WIDTH) -> bytes:
    images, drawings, fonts = import_pillow()
    image = images.new("RGB", (width * PNG_SCALE, height * PNG_SCALE), "white")
    drawing = drawings.Draw(image)
    for shape in shapes:
        match shape:
            case Segment(x1, y1, x2, y2, colour, thickness):
                ends = [round(PNG_SCALE * value) for value in (x1, y1, x2, y2)]
                drawing.line(ends, fill=colour, width=max(1, round(PNG_SCALE * thickness)))
            case Dot(x, y, colour, radius):
                box = [PNG_SCALE * value for value in (x - radius, y - radius, x + radius, y + radius)]
                drawing.ellipse(box, colour)
            case Label(x, y, text, colour, anchor, size, vertical):
                font = fonts.load_default(PNG_SCALE * size)
                if not vertical:
                    pillow_anchor = {"start": "lm", "middle": "mm", "end": "rm"}[anchor]
                    position = (PNG_SCALE * x, PNG_SCALE * y)
                    drawing.text(position, printable(text), colour, font=font, anchor=pillow_anchor)
                    continue
                length, line_height = round(drawing.textlength(printable(text), font)) + 2, 2 * PNG_SCALE * size
                mask = images.new("L", (length, line_height), 0)
                drawings.Draw(mask).text((0, line_height / 2), printable(text), 255, font=font, anchor="lm")
                above = {"start": length, "middle": length // 2, "end": 0}[anchor]  # part of the text above y
                corner = (round(PNG_SCALE * x) - line_height // 2, round(PNG_SCALE * y) - above)
                image.paste(images.new("RGB", (line_height, length), colour), corner, mask.rotate(90, expand=True))
            case Rectangles(corners, rectangle_width, rectangle_height, colour):
                for x, y in corners:
                    left, upper = round(PNG_SCALE * x), round(PNG_SCALE * y)
                    right, lower = round(PNG_SCALE * (x + rectangle_width)), round(PNG_SCALE * (y + rectangle_height))
                    drawing.rectangle([left, upper, max(left, right - 1), max(upper, lower - 1)], colour)
            case Frame(x, y, frame_width, frame_height, colour):
                ends = [round(PNG_SCALE * value) for value in (x, y, x + frame_width, y + frame_height)]
                drawing.rectangle(ends, outline=colour, width=PNG_SCALE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()

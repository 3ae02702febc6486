"""Plots of scores with intervals, a row for each system or a curve over layers; the shapes of all plots, as SVG or PNG.

Shapes are listed once and written as SVG by hand, or as PNG by Pillow. Attention: attention_picture.py.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from qkv.errors import InputError, require_package
from qkv.evaluation.intervals import Estimate
from qkv.storage import write_file

ENDINGS = (".svg", ".png")
LEFT, RIGHT, TOP, BOTTOM, ROW, WIDTH = 210.0, 90.0, 62.0, 46.0, 30.0, 860
SIZE = 15  # of letters
SCALE = 2  # dots of a PNG for one of the picture
INK, PALE, GRID = "#1f2430", "#6b7280", "#e5e7eb"
NETWORK, BASELINE = "#1d5fd1", "#9a6700"
WHISKER = 5.0


@dataclass(frozen=True)
class Line:
    """One system of the picture."""

    name: str
    figure: Estimate
    learned: bool
    chosen: bool = False


@dataclass(frozen=True)
class Segment:
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    thick: float = 1.0


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    colour: str
    radius: float = 5.0


@dataclass(frozen=True)
class Word:
    x: float
    y: float  # of the middle of the letters
    text: str
    colour: str = INK
    anchor: str = "start"  # start, middle, end
    size: int = SIZE
    turn: int = 0  # degrees against the clock; 0 or 90


@dataclass(frozen=True)
class Squares:
    """Squares of one colour, by their upper left corners."""

    corners: tuple[tuple[float, float], ...]
    wide: float
    high: float
    colour: str


@dataclass(frozen=True)
class Frame:
    x: float
    y: float
    wide: float
    high: float
    colour: str = PALE


Shape = Segment | Dot | Word | Squares | Frame


def check(path: Path) -> None:
    """Refuse a name without a known format, before hours are spent."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"--picture {path}: expected a name that ends in {' or '.join(ENDINGS)}.")
    if path.suffix.lower() == ".png":
        pillow()


def draw_intervals(path: Path, lines: Sequence[Line], title: str, axis: str) -> None:
    """A row for each system, a dot for its score, a bar for its interval; `lines` are sorted, the best first."""
    low, high, ticks = scale([value for line in lines for value in _ends(line.figure)])

    def x(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    bottom = TOP + ROW * len(lines)
    shapes: list[Shape] = [Word(20.0, 24.0, title, size=SIZE + 3)]
    for tick in ticks:
        shapes += [
            Segment(x(tick), TOP - 6, x(tick), bottom, GRID),
            Word(x(tick), bottom + 12, f"{tick:g}", PALE, "middle", 12),
        ]
    shapes.append(Word((LEFT + WIDTH - RIGHT) / 2, bottom + 32, axis, PALE, "middle", 13))
    for number, line in enumerate(lines):
        y = TOP + ROW * (number + 0.5)
        colour = NETWORK if line.learned else BASELINE
        shapes.append(Word(LEFT - 16, y, line.name + (" *" if line.chosen else ""), anchor="end"))
        if line.figure.value is None:
            shapes.append(Word(LEFT, y, "not defined", PALE))
            continue
        if line.figure.low is not None and line.figure.high is not None:
            left, right = x(line.figure.low), x(line.figure.high)
            shapes.append(Segment(left, y, right, y, colour, 2.0))
            shapes += [Segment(end, y - WHISKER, end, y + WHISKER, colour, 2.0) for end in (left, right)]
        shapes += [Dot(x(line.figure.value), y, colour), Word(WIDTH - RIGHT + 20, y, f"{line.figure.value:.4f}")]
    write(path, shapes, round(bottom + BOTTOM))


def characters(scores: Sequence[tuple[str, Estimate]], width: int = 60) -> list[str]:
    """Scores with their intervals as lines of characters; an o for the score."""
    low, high, _ = scale([value for _, score in scores for value in _ends(score)])
    longest = max(len(name) for name, _ in scores)

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1))

    lines = []
    for name, score in scores:
        row = [" "] * width
        if score.value is not None:
            if score.low is not None and score.high is not None:
                row[place(score.low) : place(score.high) + 1] = "-" * (place(score.high) - place(score.low) + 1)
            row[place(score.value)] = "o"
        lines.append(f"{name:>{longest}} |{''.join(row).rstrip()}")
    return [*lines, f"{'':>{longest}}  {low:<{width // 2}g}{high:>{width - width // 2}g}"]


CURVES = ("#1d5fd1", "#c2410c", "#15803d", "#7e22ce", "#9a6700", "#0f766e")
HIGH = 300.0  # of the field of curves
MARKS = 40  # whole numbers that an axis has room for


Curve = Sequence[tuple[float, Estimate]]  # places on the axis, and their figures


def draw_curves(path: Path, curves: Mapping[str, Curve], title: str, axis: str) -> None:
    """A curve for each name, with the intervals of its figures."""
    low, high, ticks = scale([value for curve in curves.values() for _, figure in curve for value in _ends(figure)])
    places = [place for curve in curves.values() for place, _ in curve]
    first, last, marks = scale(places)
    if all(float(place).is_integer() for place in places) and last - first <= MARKS:
        marks = [float(mark) for mark in range(int(first), int(last) + 1)]
    left, right, bottom = 70.0, 250.0, TOP + HIGH

    def x(place: float) -> float:
        return left + (place - first) / (last - first) * (WIDTH - left - right)

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * HIGH

    shapes: list[Shape] = [Word(20.0, 24.0, title, size=SIZE + 3)]
    for tick in ticks:
        shapes += [Segment(left, y(tick), WIDTH - right, y(tick), GRID)]
        shapes += [Word(left - 12, y(tick), f"{tick:g}", PALE, "end", 12)]
    shapes += [Word(x(mark), bottom + 16, f"{mark:g}", PALE, "middle", 12) for mark in marks]
    shapes.append(Word(x(first) / 2 + x(last) / 2, bottom + 36, axis, PALE, "middle", 13))
    for number, (name, curve) in enumerate(curves.items()):
        colour = CURVES[number % len(CURVES)]
        known = [(place, figure) for place, figure in curve if figure.value is not None]
        for (before, one), (after, other) in pairwise(known):
            shapes.append(Segment(x(before), y(one.value or 0.0), x(after), y(other.value or 0.0), colour, 2.0))
        for place, figure in known:
            shapes.append(Dot(x(place), y(figure.value or 0.0), colour, 4.0))
            if figure.low is not None and figure.high is not None:
                shapes.append(Segment(x(place), y(figure.low), x(place), y(figure.high), colour))
        height = TOP + 12 + 24 * number
        shapes += [Dot(WIDTH - right + 26, height, colour), Word(WIDTH - right + 40, height, name)]
    write(path, shapes, round(bottom + BOTTOM + 12))


def write(path: Path, shapes: Sequence[Shape], height: int) -> None:
    write_file(path, svg(shapes, height) if path.suffix.lower() == ".svg" else png(shapes, height))


def _ends(figure: Estimate) -> list[float]:
    return [value for value in (figure.value, figure.low, figure.high) if value is not None and math.isfinite(value)]


def scale(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """From where to where an axis goes, and its round marks."""
    least, most = (min(values), max(values)) if values else (0.0, 1.0)
    size = max(abs(least), abs(most), 1.0)
    room = most - least if most - least > 1e-6 * size else size / 10  # differences of rounding are none
    rough = room / 5
    step = min((part * 10.0 ** math.floor(math.log10(rough)) for part in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
    first, last = math.floor(least / step), math.ceil(most / step)
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
            case Segment(x1, y1, x2, y2, colour, thick):
                ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
                parts.append(f'<line {ends} stroke="{colour}" stroke-width="{thick:g}"/>')
            case Dot(x, y, colour, radius):
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>')
            case Word(x, y, text, colour, anchor, size, turn):
                place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" dominant-baseline="central"'
                turned = f' transform="rotate({-turn} {x:.1f} {y:.1f})"' if turn else ""
                parts.append(f'<text {place}{turned} fill="{colour}">{escape(printable(text))}</text>')
            case Squares(corners, wide, high, colour):
                steps = "".join(f"M{x:.5g} {y:.5g}h{wide:.4g}v{high:.4g}h{-wide:.4g}z" for x, y in corners)
                parts.append(f'<path d="{steps}" fill="{colour}"/>')
            case Frame(x, y, wide, high, colour):
                box = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
                parts.append(f'<rect {box} fill="none" stroke="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


def printable(text: str) -> str:
    """Without what no XML may hold."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def pillow() -> Any:
    require_package("PIL", "a picture in PNG (SVG needs nothing)")
    from PIL import Image, ImageDraw, ImageFont

    return Image, ImageDraw, ImageFont


def png(shapes: Sequence[Shape], height: int, width: int = WIDTH) -> bytes:
    image, drawing, fonts = pillow()
    canvas = image.new("RGB", (width * SCALE, height * SCALE), "white")
    pen = drawing.Draw(canvas)
    for shape in shapes:
        match shape:
            case Segment(x1, y1, x2, y2, colour, thick):
                ends = [round(SCALE * each) for each in (x1, y1, x2, y2)]
                pen.line(ends, fill=colour, width=max(1, round(SCALE * thick)))
            case Dot(x, y, colour, radius):
                pen.ellipse(
                    [SCALE * (x - radius), SCALE * (y - radius), SCALE * (x + radius), SCALE * (y + radius)], colour
                )
            case Word(x, y, text, colour, anchor, size, turn):
                font = fonts.load_default(SCALE * size)
                place = {"start": "lm", "middle": "mm", "end": "rm"}[anchor]
                if not turn:
                    pen.text((SCALE * x, SCALE * y), printable(text), colour, font=font, anchor=place)
                    continue
                long, tall = round(pen.textlength(printable(text), font)) + 2, 2 * SCALE * size
                label = image.new("L", (long, tall), 0)
                drawing.Draw(label).text((0, tall / 2), printable(text), 255, font=font, anchor="lm")
                up = {"start": long, "middle": long // 2, "end": 0}[anchor]
                corner = (round(SCALE * x) - tall // 2, round(SCALE * y) - up)
                canvas.paste(image.new("RGB", (tall, long), colour), corner, label.rotate(90, expand=True))
            case Squares(corners, wide, high, colour):
                for x, y in corners:
                    left, upper = round(SCALE * x), round(SCALE * y)
                    right, lower = round(SCALE * (x + wide)), round(SCALE * (y + high))
                    pen.rectangle([left, upper, max(left, right - 1), max(upper, lower - 1)], colour)
            case Frame(x, y, wide, high, colour):
                ends = [round(SCALE * each) for each in (x, y, x + wide, y + high)]
                pen.rectangle(ends, outline=colour, width=SCALE)
    held = io.BytesIO()
    canvas.save(held, "PNG")
    return held.getvalue()

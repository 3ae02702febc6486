"""Lines on two logarithmic axes as an SVG picture, written by hand: no library, readable as text."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass

# Colours that stay apart for colour-blind eyes (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, GREY, FAINT = "#24292f", "#6e7781", "#e6e8eb"
WIDTH, HEIGHT = 460, 300  # of the inside of a panel
LEFT, TOP, GAP, BELOW, LINE = 74, 64, 92, 52, 17


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a title, what the axes are called, and lines of (x, y) by their name in the legend."""

    title: str
    across: str
    up: str
    lines: dict[str, list[tuple[float, float]]]


def draw(title: str, panels: list[Panel]) -> str:
    """The panels side by side, each with its legend below."""
    legend = LINE * max(len(panel.lines) for panel in panels) + 14
    width = LEFT + len(panels) * WIDTH + (len(panels) - 1) * GAP + 24
    height = TOP + HEIGHT + BELOW + legend
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(24, 26, title, weight="bold", size=15),
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({LEFT + number * (WIDTH + GAP)} {TOP})">')
        parts += _panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    x = _scale([point[0] for point in points], 0, WIDTH, 2, 0.15)
    y = _scale([point[1] for point in points], HEIGHT, 0, 10, 0.15)
    parts = [_text(0, -12, panel.title, weight="bold")]
    for value in sorted({point[0] for point in points}):
        parts.append(f'<path d="M{x(value):.1f} 0V{HEIGHT}" stroke="{FAINT}"/>')
        parts.append(_text(x(value), HEIGHT + 18, f"{value:g}", anchor="middle", colour=GREY))
    for level, name in _levels(lambda value: 0 <= y(value) <= HEIGHT):
        parts.append(f'<path d="M0 {y(level):.1f}H{WIDTH}" stroke="{FAINT}"/>')
        parts.append(_text(-8, y(level) + 4, name, anchor="end", colour=GREY))
    parts.append(f'<path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="{GREY}"/>')
    parts.append(_text(WIDTH / 2, HEIGHT + 38, panel.across, anchor="middle"))
    parts.append(f'<g transform="translate(-58 {HEIGHT / 2}) rotate(-90)">{_text(0, 0, panel.up, anchor="middle")}</g>')
    for number, (name, line) in enumerate(panel.lines.items()):
        colour, level = COLOURS[number], HEIGHT + BELOW + LINE * (number + 0.5)
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-linejoin="round"/>')
        parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.8" fill="{colour}"/>' for a, b in line]
        parts.append(f'<path d="M0 {level - 4:.1f}h26" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(34, level, name))
    return parts


def _scale(values: list[float], start: float, end: float, base: float, margin: float) -> Callable[[float], float]:
    low, high = (math.log(bound, base) for bound in (min(values), max(values)))
    low, high = low - margin, high + margin
    return lambda value: start + (math.log(value, base) - low) / (high - low) * (end - start)


def _levels(inside: Callable[[float], bool]) -> list[tuple[float, str]]:
    """Seconds to mark, and how they are written: powers of ten, and their doubles and halves where those are few."""
    units = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)]
    found: list[tuple[float, str]] = []
    for digits in ((1, 10, 100), (1, 2, 5, 10, 20, 50, 100, 200, 500)):
        found = [(n * unit, f"{n} {name}") for name, unit in units for n in digits if inside(n * unit)]
        if len(found) > 2:
            break
    return found


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = INK, weight: str = "normal", size: int = 13
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-weight="{weight}" font-size="{size}">{html.escape(words)}</text>'

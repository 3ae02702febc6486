"""The losses of a run as a picture of characters, for the card and for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POINTS = 640  # an even number; a few for each column of the picture, more could not be seen
SHARE = 0.9  # of the running mean that stays at every step

Point = tuple[int, float]


class Curve:
    """Takes the lines of a journal one by one; what it keeps and draws does not grow with the run."""

    def __init__(self) -> None:
        self.steps, self.checks = Thinned(), Thinned()
        self.mean = self.weight = 0.0

    def add(self, line: Mapping[str, Any]) -> None:
        """Smooth a loss on the way: a running mean that starts unbiased."""
        if (loss := line.get("loss")) is not None:
            self.mean = SHARE * self.mean + (1 - SHARE) * loss
            self.weight = SHARE * self.weight + (1 - SHARE)
            self.steps.add((line["step"], self.mean / self.weight))
        if (loss := line.get("validation_loss")) is not None:
            self.checks.add((line["step"], loss))

    def draw(self, width: int = 76, height: int = 16) -> str:
        import plotext

        steps, checks = self.steps.points(), self.checks.points()
        figure = plotext.figure
        figure.clear()
        figure.theme("colorless")
        figure.plot_size(width, height)
        for points, marker in ((steps, "braille"), (checks, "x")):
            if points:
                signal = figure.signal(*(list(axis) for axis in zip(*points, strict=True)), marker=marker)
                figure.draw(signal.lines(marker == "braille"))
        if last := max((step for step, _ in [*steps, *checks]), default=0):
            figure.ruler("x").ticks(sorted({round(last * part / 5) for part in range(6)} - {0} | {1}))
        figure.label("step (line: loss on training windows, smoothed; x: validation)", "x")
        return str(plotext.uncolorize(str(figure.build()))).rstrip()


class Thinned:
    """Points at even distances: whenever there are too many, every second one goes. The newest is always there."""

    def __init__(self) -> None:
        self.kept: list[Point] = []
        self.newest: list[Point] = []
        self.seen, self.distance = 0, 1

    def add(self, point: Point) -> None:
        self.newest = [point]
        if self.seen % self.distance == 0:
            self.kept.append(point)
            self.newest = []
            if len(self.kept) > POINTS:  # an odd number: the last one stays
                self.kept, self.distance = self.kept[::2], 2 * self.distance
        self.seen += 1

    def points(self) -> list[Point]:
        return self.kept + self.newest

"""A report is data: sections that a terminal shows, the content of card.md, and the values of a JSON document.

The frame of every card.md: a sentence, a table, the curve, the doctor's remarks, and the notes of the run.

The losses of a run as a curve of characters, for the card and for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.storage import storage_remedy, write_file
from qkv.version import __version__
from qkv.visible import visible

if TYPE_CHECKING:
    from qkv.tasks.protocol import Session


@dataclass(frozen=True)
class LinesSection:
    lines: tuple[str, ...]


@dataclass(frozen=True)
class TableSection:
    """A table; the first column and those of `words` read left, numbers read right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: Sequence[str] = ()


Section = LinesSection | TableSection


@dataclass(frozen=True)
class NextCommand:
    """A command to try next: the words after the program's name, and what it is for."""

    words: tuple[str, ...]
    purpose: str = ""


@dataclass(frozen=True)
class CardContent:
    """What is particular in card.md: a sentence, rows of a table, and the doctor's section in Markdown."""

    sentence: str
    rows: Mapping[str, str]
    doctor: str


@dataclass(frozen=True)
class RunReport:
    """The end of a run."""

    sections: tuple[Section, ...]
    commands: tuple[NextCommand, ...]
    card: CardContent
    values: dict[str, Any]
    writes: bool = False  # the model writes text: samples belong to the report


@dataclass(frozen=True)
class EvaluationReport:
    """A model's score on other data."""

    sections: tuple[Section, ...]
    values: dict[str, Any]
    notes: Sequence[str] = ()


def lines(*texts: str) -> LinesSection:
    return LinesSection(texts)


def indented(label: str, texts: list[str]) -> LinesSection:
    """The label before the first line, the others beneath it."""
    return LinesSection(
        tuple(f"{label if not number else '':<{len(label)}}  {line}" for number, line in enumerate(texts))
    )


PAGE = """\
# {name}

{sentence}, trained with qkv {version}.

| | |
| --- | --- |
{rows}

{exactness}

```
{curve}
```

{doctor}{notes}
"""
EXACT = """\
The same recipe on the same kind of machine, with the same torch, gives the same bits. Elsewhere it gives the same model
within rounding."""
ROUNDED = "This device adds in no fixed order: the same recipe gives the same model within rounding."


def write_card(session: Session, content: CardContent) -> Path:
    """Write card.md; every card also says how long the run took, and on which machine."""
    from qkv.training import devices, metrics_log  # which import torch: sections of a report are there without it

    training, folder = session.recipe.training, session.run.folder
    curve = Curve()
    for line in metrics_log.read(folder / "metrics.jsonl"):
        curve.add(line)
    common = {
        "seconds": f"{metrics_log.elapsed(folder / 'timings.jsonl'):.1f}",
        "machine": devices.describe(training.device),
        "exactness": f"{training.device}, {training.dtype}, {training.threads} threads, compile {training.compile}",
    }
    text = PAGE.format(
        name=visible(folder.name),
        sentence=content.sentence,
        version=__version__,
        rows="\n".join(f"| {cell(name)} | {cell(value)} |" for name, value in {**content.rows, **common}.items()),
        exactness=EXACT if training.device == "cpu" else ROUNDED,
        curve=curve.draw(),
        doctor=content.doctor,
        notes=listed(session.task.notes),
    )
    path = folder / "card.md"
    with storage_remedy(metrics_log.REMEDY):
        write_file(path, text.rstrip() + "\n")
    return path


def cell(text: str) -> str:
    """One cell of a table in Markdown."""
    return visible(text).replace("|", "\\|")


def listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {visible(line)}" for line in lines)


def doctor_section(lines: Iterable[str]) -> str:
    """The doctor's section, where there are lines alone."""
    return f"## Doctor\n\n{listed(lines)}\n\n"


POINTS = 640  # an even number; a few for each column of the curve, more could not be seen
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

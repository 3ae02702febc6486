"""The report of a run as data: sections for the terminal, the content of card.md, and the values of a JSON document.

`write_card` writes card.md: a sentence, a table, the loss curve, the doctor's remarks, and the notes of the run.
`LossCurve` draws the losses of a run with characters, for the card and for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qkv.data.object_names import with_object_names
from qkv.storage import storage_remedy, write_file
from qkv.version import __version__
from qkv.visible import visible

if TYPE_CHECKING:
    from qkv.doctor.baseline_table import BaselineTable
    from qkv.evaluation.labelled_evaluation import LabelledScore
    from qkv.evaluation.masked_tokens import MaskedScore
    from qkv.evaluation.perplexity import Score
    from qkv.tasks.protocol import Session
    from qkv.tasks.translation.evaluate import TranslationEvaluation

    AnyScore: TypeAlias = Score | MaskedScore | LabelledScore | TranslationEvaluation


@dataclass(frozen=True)
class LinesSection:
    lines: tuple[str, ...]


@dataclass(frozen=True)
class TableSection:
    """A table. The first column and the columns named in `words` are aligned left, all others, of numbers, right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: Sequence[str] = ()


ReportSection = LinesSection | TableSection


@dataclass(frozen=True)
class NextCommand:
    """A suggested command: the words after the program's name, and its purpose."""

    words: tuple[str, ...]
    purpose: str = ""


@dataclass(frozen=True)
class CardContent:
    """What differs between the card.md of tasks: a sentence, rows of the table, the doctor's section in Markdown."""

    sentence: str
    rows: Mapping[str, str]
    doctor: str


@dataclass(frozen=True)
class RunReport:
    """What is reported when a run has ended."""

    sections: tuple[ReportSection, ...]
    commands: tuple[NextCommand, ...]
    card: CardContent
    values: dict[str, Any]
    samples_wanted: bool = False  # the model generates text: show samples with the report


@dataclass(frozen=True)
class EvaluationReport:
    """A model's score on other data."""

    sections: tuple[ReportSection, ...]
    values: dict[str, Any]
    score: AnyScore
    notes: Sequence[str] = ()

    def with_own_scores(self, scores: Mapping[str, float]) -> EvaluationReport:
        """The same with metrics of the user's own, of the whole model."""
        score = replace(self.score, own={**self.score.own, **scores})
        return replace(
            self, sections=(*self.sections, *own_section(scores)), values={**self.values, **scores}, score=score
        )


def with_own_scores(report: RunReport, scores: Mapping[str, float]) -> RunReport:
    """A report with metrics of the user's own, of the whole model."""
    if not scores:
        return report
    rows = {name: f"{value:.4f}" for name, value in scores.items()}
    card = replace(report.card, rows={**rows, **report.card.rows})
    sections = (*report.sections, *own_section(scores))
    return replace(report, sections=sections, card=card, values={**report.values, "metrics": {**scores}})


def own_section(scores: Mapping[str, float]) -> list[ReportSection]:
    rows = tuple((name, f"{value:.4f}") for name, value in scores.items())
    return [lines(""), TableSection("", ("your metric", "value"), rows)] if rows else []


def baseline_sections(table: BaselineTable) -> list[ReportSection]:
    """The table of a model and its baselines, and which of them are left out."""
    sections: list[ReportSection] = [
        lines(""),
        TableSection(table.title, table.columns, table.cells(), table.columns[3:]),
    ]
    return sections + [lines(f"left out: {name}, which {reason}") for name, reason in table.left_out.items()]


def baseline_markdown(table: BaselineTable) -> str:
    """The same for card.md."""
    rows = [table.columns, ("---", "---:", "---:", "---"), *table.cells()]
    left_out = "".join(f"\nLeft out: {name}, which {reason}.\n" for name, reason in table.left_out.items())
    cells = "\n".join(f"| {' | '.join(map(markdown_cell, row))} |" for row in rows)
    return f"{table.title.capitalize()}:\n\n{cells}\n{left_out}\n"


def lines(*texts: str) -> LinesSection:
    """A section with these lines."""
    return LinesSection(texts)


def indented(label: str, texts: list[str]) -> LinesSection:
    """A section with the label before the first text, and the others aligned with it."""
    labels = [label, *[""] * (len(texts) - 1)]
    return LinesSection(tuple(f"{prefix:<{len(label)}}  {text}" for prefix, text in zip(labels, texts, strict=False)))


CARD_TEMPLATE = """\
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
EXACTLY_REPEATABLE = """\
The same recipe on the same kind of machine, with the same torch, gives the same bits. Elsewhere it gives the same model
within rounding."""
NEARLY_REPEATABLE = "This device adds in no fixed order: the same recipe gives the same model within rounding."


def write_card(session: Session, content: CardContent) -> Path:
    """Write card.md. Rows about the time and the machine are added to those of the content."""
    from qkv.training import devices, metrics_log  # they import torch, which most users of this module do not need

    training, folder = session.recipe.training, session.run.folder
    curve = LossCurve()
    for line in metrics_log.read(folder / "metrics.jsonl"):
        curve.add(line)
    common = {
        "seconds": f"{metrics_log.elapsed_seconds(folder / 'timings.jsonl'):.1f}",
        "machine": devices.describe(training.device),
        "exactness": f"{training.device}, {training.dtype}, {training.threads} threads, compile {training.compile}",
    }
    text = CARD_TEMPLATE.format(
        name=visible(folder.name),
        sentence=content.sentence,
        version=__version__,
        rows="\n".join(
            f"| {markdown_cell(name)} | {markdown_cell(value)} |" for name, value in {**content.rows, **common}.items()
        ),
        exactness=EXACTLY_REPEATABLE if training.device == "cpu" else NEARLY_REPEATABLE,
        curve=curve.draw(),
        doctor=content.doctor,
        notes=markdown_list(map(with_object_names, session.task.notes)),
    )
    path = folder / "card.md"
    with storage_remedy(metrics_log.REMEDY):
        write_file(path, text.rstrip() + "\n")
    return path


def markdown_cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


def markdown_list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {visible(line)}" for line in lines)


def doctor_section(lines: Iterable[str], table: BaselineTable | None = None) -> str:
    """The doctor's section of a card: these remarks, and the comparison with baselines."""
    return f"## Doctor\n\n{markdown_list(lines)}\n\n{'' if table is None else baseline_markdown(table)}"


MAX_POINTS = 640  # an even number; the columns of a terminal cannot show more
SMOOTHING = 0.9  # weight of the earlier losses in the running mean

Point = tuple[int, float]


class LossCurve:
    """Collects the losses of a run line by line, and draws them; its memory does not grow with the run."""

    def __init__(self) -> None:
        self.training, self.validation = ThinnedPoints(), ThinnedPoints()
        self.mean = self.weight = 0.0

    def add(self, line: Mapping[str, Any]) -> None:
        """Take a line of metrics.jsonl; training losses are smoothed by a running mean without bias at the start."""
        if (loss := line.get("loss")) is not None:
            self.mean = SMOOTHING * self.mean + (1 - SMOOTHING) * loss
            self.weight = SMOOTHING * self.weight + (1 - SMOOTHING)
            self.training.add((line["step"], self.mean / self.weight))
        if (loss := line.get("validation_loss")) is not None:
            self.validation.add((line["step"], loss))

    def draw(self, width: int = 76, height: int = 16) -> str:
        import plotext

        training, validation = self.training.points(), self.validation.points()
        figure = plotext.figure
        figure.clear()
        figure.theme("colorless")
        figure.plot_size(width, height)
        for points, marker in ((training, "braille"), (validation, "x")):
            if points:
                signal = figure.signal(*(list(axis) for axis in zip(*points, strict=True)), marker=marker)
                figure.draw(signal.lines(marker == "braille"))
        if last := max((step for step, _ in [*training, *validation]), default=0):
            figure.ruler("x").ticks(sorted({round(last * fifth / 5) for fifth in range(6)} - {0} | {1}))
        figure.label("step (line: loss on training windows, smoothed; x: validation)", "x")
        return str(plotext.uncolorize(str(figure.build()))).rstrip()


class ThinnedPoints:
    """Evenly spaced points and the newest one. When there are too many, every second point is dropped."""

    def __init__(self) -> None:
        self.kept: list[Point] = []
        self.newest: list[Point] = []
        self.added, self.distance = 0, 1

    def add(self, point: Point) -> None:
        self.newest = [point]
        if self.added % self.distance == 0:
            self.kept.append(point)
            self.newest = []
            if len(self.kept) > MAX_POINTS:  # the number of points is odd now, so the last one stays
                self.kept, self.distance = self.kept[::2], 2 * self.distance
        self.added += 1

    def points(self) -> list[Point]:
        return self.kept + self.newest

"""Compare every architecture that fits the data under one time budget with baselines without a network.

Networks are trained as `qkv train` does, each for the same minutes. The best step of a run and the best system are
chosen on examples held out of the training set; the reported examples are evaluated only once, at the end.

runs/compare-NAME/   compare.json  compare.md  compare.svg  runs/SYSTEM/ (one run folder for each network)
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qkv.evaluation.intervals import interval_text
from qkv.evaluation.significance import METRIC_TITLES, difference
from qkv.safe_json import without_nonfinite
from qkv.storage import write_file
from qkv.studies import picture
from qkv.studies.compared_system import ComparedSystem, SystemDifference
from qkv.studies.study import ComparisonPlan
from qkv.tasks.registry import task_to_study
from qkv.tasks.report import LinesSection, ReportSection, TableSection, markdown_cell
from qkv.training.run_folder import create_run_folder
from qkv.version import __version__
from qkv.visible import ShownResult, visible

FLOPS = (
    "FLOPs of a run: three times those of its forward passes (a backward pass costs two), counted on batches of "
    "the run; a multiplication and an addition are two; lookups are not counted."
)
PICTURE = "compare.svg"


@dataclass(frozen=True, repr=False)
class SystemComparison(ShownResult):
    """A finished comparison. Systems are sorted by their score on the reported rows, the best first; but `best` is
    chosen on rows held out of the training set."""

    data: tuple[str, ...]
    task: str
    systems: tuple[ComparedSystem, ...]
    failed: dict[str, str]  # the error messages of systems that failed
    reported_count: int
    held_out_count: int
    unit: str  # of both counts
    minutes_each: float
    notes: tuple[str, ...]
    baseline: str | None  # the system without a network that the best one is compared with
    lower_is_better: bool = False

    @property
    def metric(self) -> str:
        return self.systems[0].statistics[0].name

    @property
    def ranked(self) -> list[ComparedSystem]:
        """The systems by their score on held-out rows, the best first."""
        scored = [system for system in self.systems if system.held_out_score is not None]
        return sorted(scored, key=lambda system: system.held_out_score or 0.0, reverse=not self.lower_is_better)

    @property
    def best(self) -> ComparedSystem:
        return self.ranked[0] if self.ranked else self.systems[0]

    def differences(self) -> list[SystemDifference]:
        """The best system compared with the second, and with the baseline."""
        best, *others = self.ranked or self.systems[:1]
        names = dict.fromkeys([*[system.name for system in others[:1]], self.baseline])
        compared = [system for name in names for system in others if system.name == name]
        return [
            SystemDifference(best.name, system.name, difference(best.statistics, system.statistics))
            for system in compared
            if best.score.value is not None and system.score.value is not None
        ]

    def sentences(self) -> list[str]:
        name, best = METRIC_TITLES[self.metric], self.best
        first = (
            f"Best on {self.held_out_count:,} {self.unit} held out of the training set: {best.name} "
            f"({name} {best.held_out_score:.4f}); on the {self.reported_count:,} {self.unit} reported here: "
            f"{'undefined' if best.score.value is None else f'{best.score.value:.4f}'}."
        )
        sentences = [first, *(difference.sentence(name) for difference in self.differences())]
        learning = [system.name for system in self.systems if system.still_learning]
        short = [system.name for system in self.systems if system.epochs is not None and system.epochs < 1]
        if learning:
            sentences.append(
                f"Still learning when the time was over, so this table does not judge them: {', '.join(learning)}. "
                "Their loss on rows that were new to them fell in the second half of the run, by more than chance."
            )
        if short:
            sentences.append(f"Trained on a part of the data only, for less than one epoch: {', '.join(short)}.")
        return sentences

    def remarks(self) -> list[str]:
        return self.sentences()

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": "qkv-compare/1",
            "version": __version__,
            "data": list(self.data),
            "task": self.task,
            "metric": self.metric,
            "lower_is_better": self.lower_is_better,
            "best": self.best.name,
            "reported": self.reported_count,
            "held_out": self.held_out_count,
            "unit": self.unit,
            "minutes_each": self.minutes_each,
            "systems": [system.values() for system in self.systems],
            "failed": self.failed,
            "differences": [
                {"first": difference.first, "second": difference.second, **difference.estimate.values()}
                for difference in self.differences()
            ],
            "sentences": self.sentences(),
            "notes": list(self.notes),
        }

    def table(self) -> TableSection:
        """The scores and costs of all systems; the macro-F1 is left out if no system has one."""
        metric = METRIC_TITLES[self.metric] + (", lower is better" if self.lower_is_better else "")
        costs = ["weights", "steps", "epochs", "FLOPs", "seconds", "answers/s"]
        columns = ["system", metric, "95 %", "macro-F1", *costs]
        rows = [self._cells(system) for system in self.systems]
        if all(system.macro_f1 is None for system in self.systems):
            for row in (columns, *rows):
                del row[3]
        return TableSection("", columns, rows)

    def _cells(self, system: ComparedSystem) -> list[str]:
        score, speed = system.score, system.predictions_per_second
        return [
            system.name + (" *" if system.name == self.best.name else ""),
            "undefined" if score.value is None else f"{score.value:.4f}",
            interval_text(score.low, score.high, 3),
            "-" if system.macro_f1 is None else f"{system.macro_f1:.4f}",
            "-" if system.parameters is None else with_unit(float(system.parameters)),
            "-" if system.steps is None else f"{system.steps:,.0f}",
            "-" if system.epochs is None else f"{system.epochs:.2f}",
            "-" if system.flops is None else f"{system.flops:.1e}" if system.flops else "0",
            f"{system.train_seconds:.1f}",
            "-" if speed is None else with_unit(speed),
        ]

    def sections(self) -> list[ReportSection]:
        """For a terminal: the table, a plot in characters, and the conclusions."""
        scores = [(system.name, system.score) for system in self.systems]
        failed = [f"{name} is left out: {reason}" for name, reason in self.failed.items()]
        lines = ["", *picture.text_plot(scores), "", *self.sentences(), *failed, FLOPS]
        return [self.table(), LinesSection(tuple(lines))]

    def markdown(self) -> str:
        table = self.table()
        rows = [table.columns, ["---"] + ["---:"] * (len(table.columns) - 1), *table.rows]
        seeds = max(len(system.statistics) for system in self.systems)
        mean = f" Scores of networks are means of {seeds} seeds." if seeds > 1 else ""
        failed = "".join(f"- {name} is left out: {visible(reason)}\n" for name, reason in self.failed.items())
        return f"""\
# {visible(", ".join(self.data))}: {self.task}

{chr(10).join(f"| {' | '.join(markdown_cell(str(value)) for value in row)} |" for row in rows)}

\\* is best on {self.held_out_count:,} {self.unit} held out of the training set; the table shows
{self.reported_count:,} others, on which nothing was chosen. Each network was trained for
{duration_text(self.minutes_each)}.{mean} {FLOPS}

{chr(10).join(f"- {visible(sentence)}" for sentence in self.sentences())}
{failed}
![scores with intervals]({PICTURE})
"""

    def draw(self, path: Path) -> None:
        best = self.best.name
        rows = [
            picture.IntervalRow(system.name, system.score, system.is_network, system.name == best)
            for system in self.systems
        ]
        better = "lower is better" if self.lower_is_better else "higher is better"
        metric = f"{METRIC_TITLES[self.metric]} on {self.reported_count:,} {self.unit}"
        name = Path(self.data[0]).name or self.data[0]
        title = f"{name}: {duration_text(self.minutes_each)} of training for each network (blue)"
        picture.draw_intervals(path, rows, title, f"{metric}, 95 % intervals; {better}; * best on held-out data")


def compare(plan: ComparisonPlan) -> tuple[SystemComparison, Path]:
    """Train and score all systems; return the comparison and its folder."""
    from qkv.studies import compare_labelled, compare_text

    labelled = task_to_study(plan.corpus, plan.task, "compare").labelled
    folder = create_run_folder(plan.folder, numbered=True)
    plan = replace(plan, folder=folder)
    try:
        comparison = compare_labelled.compare(plan) if labelled else compare_text.compare(plan)
    except BaseException:
        with suppress(OSError):  # the folder stays if there are runs in it
            folder.rmdir()
        raise
    values = without_nonfinite(comparison.values())
    write_file(folder / "compare.json", json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    write_file(folder / "compare.md", comparison.markdown())
    comparison.draw(folder / PICTURE)
    return comparison, folder


def duration_text(minutes: float) -> str:
    return f"{minutes:.1f} minutes" if minutes >= 1 else f"{60 * minutes:.0f} seconds"


def with_unit(value: float) -> str:
    """Three digits: 532, 46.4 k, 9.45 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}" if value < 999.5 * size else f"{value / size:,.0f}{letter}"
    return f"{value:.0f}"

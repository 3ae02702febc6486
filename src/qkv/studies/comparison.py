"""Every architecture that fits the data, under one time budget, compared with systems that need no network: one table.

Networks are trained as `qkv train` does it, each for the same minutes. Which step and which system is best is decided
on examples held out of the training set; what is reported was never evaluated before.

runs/compare-NAME/   compare.json  compare.md  compare.svg  runs/SYSTEM/ (a run each)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qkv.evaluation.intervals import Difference, Estimate
from qkv.safe_json import without_nonfinite
from qkv.session import claim
from qkv.storage import write_file
from qkv.studies import picture
from qkv.studies.significance import NAMES, Measure, difference, estimate
from qkv.studies.study import ComparisonPlan, TrainedRun
from qkv.tasks.registry import task_to_study
from qkv.tasks.report import LinesSection, ReportSection, TableSection, markdown_cell
from qkv.version import __version__
from qkv.visible import visible

FLOPS = (
    "FLOPs of a training: three times a forward pass (the backward pass is two more), counted on batches of the run; "
    "a product and its sum are two; lookups cost nothing."
)
PICTURE = "compare.svg"


@dataclass(frozen=True)
class Entry:
    """A system and its results: a row of the table."""

    name: str
    learned: bool
    measures: tuple[Measure, ...] = field(repr=False)  # on the reported rows, one for each seed
    held_out: float | None  # the score on rows held out of the training set, the mean over seeds
    train_seconds: float  # of a training
    macro_f1: float | None = None
    parameters: int | None = None
    flops: float | None = None  # of a training
    predictions_per_second: float | None = None
    more: dict[str, Any] = field(default_factory=dict)  # all other scores, and where the runs are

    @cached_property
    def score(self) -> Estimate:
        return estimate(self.measures)

    def values(self) -> dict[str, Any]:
        """For JSON."""
        by_seed = [measure.value for measure in self.measures]
        return {
            "system": self.name,
            "learned": self.learned,
            **self.score.values(self.measures[0].name),
            "by_seed": by_seed if len(by_seed) > 1 else None,
            "held_out": self.held_out,
            "macro_f1": self.macro_f1,
            "parameters": self.parameters,
            "training_flops": self.flops,
            "training_seconds": self.train_seconds,
            "predictions_per_second": self.predictions_per_second,
            **self.more,
        }


@dataclass(frozen=True)
class ScoredRun:
    """A trained run with its scores: on the reported rows, and on those held out of the training set."""

    run: TrainedRun
    measure: Measure
    held_out: float
    predictions_per_second: float
    macro_f1: float | None = None
    more: dict[str, Any] = field(default_factory=dict)


def network_entry(name: str, runs: Sequence[ScoredRun]) -> Entry:
    """A network's row: means over its seeds."""
    held_out = float(np.mean([run.held_out for run in runs]))
    macro_f1 = [run.macro_f1 for run in runs if run.macro_f1 is not None]
    return Entry(
        name=name,
        learned=True,
        measures=tuple(run.measure for run in runs),
        held_out=held_out if math.isfinite(held_out) else None,
        train_seconds=float(np.mean([run.run.seconds for run in runs])),
        macro_f1=float(np.mean(macro_f1)) if macro_f1 else None,
        parameters=runs[-1].run.parameters,
        flops=float(np.mean([run.run.flops for run in runs])),
        predictions_per_second=float(np.mean([run.predictions_per_second for run in runs])),
        more={"runs": [{**run.run.values, **run.more} for run in runs]},
    )


@dataclass(frozen=True)
class Verdict:
    """Two systems on the reported rows."""

    first: str
    second: str
    gap: Difference

    def sentence(self, metric: str) -> str:
        gap = self.gap
        end = "noise, other rows of this kind may turn it around" if gap.noise else "more than noise"
        interval = f"95 % interval {gap.low:+.4f} to {gap.high:+.4f}"
        return f"{self.first} compared with {self.second}: {gap.difference:+.4f} {metric} ({interval}), {end}."


@dataclass(frozen=True)
class SystemComparison:
    """Entries are sorted by the reported score, the best first; what is called best was chosen on other rows."""

    data: tuple[str, ...]
    task: str
    entries: tuple[Entry, ...]
    failed: dict[str, str]
    reported: int
    chosen_on: int
    unit: str  # of what is reported and chosen on
    minutes_each: float
    notes: tuple[str, ...]
    baseline: str | None  # the system without a network that the best is compared with
    lower: bool = False  # whether a lower score is better

    @property
    def metric(self) -> str:
        return self.entries[0].measures[0].name

    @property
    def ranked(self) -> list[Entry]:
        """By the rows that nothing is reported of."""
        known = [entry for entry in self.entries if entry.held_out is not None]
        return sorted(known, key=lambda entry: entry.held_out or 0.0, reverse=not self.lower)

    @property
    def best(self) -> Entry:
        return self.ranked[0] if self.ranked else self.entries[0]

    def verdicts(self) -> list[Verdict]:
        """The best compared with the second, and with the baseline."""
        best, *others = self.ranked or self.entries[:1]
        wanted = dict.fromkeys([*[entry.name for entry in others[:1]], self.baseline])
        compared = [entry for name in wanted for entry in others if entry.name == name]
        return [
            Verdict(best.name, entry.name, difference(best.measures, entry.measures))
            for entry in compared
            if best.score.value is not None and entry.score.value is not None
        ]

    def sentences(self) -> list[str]:
        name, best = NAMES[self.metric], self.best
        first = (
            f"Best on {self.chosen_on:,} {self.unit} held out of the training set: {best.name} "
            f"({name} {best.held_out:.4f}); on the {self.reported:,} {self.unit} reported here: "
            f"{'undefined' if best.score.value is None else f'{best.score.value:.4f}'}."
        )
        return [first, *(verdict.sentence(name) for verdict in self.verdicts())]

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": "qkv-compare/1",
            "version": __version__,
            "data": list(self.data),
            "task": self.task,
            "metric": self.metric,
            "lower_is_better": self.lower,
            "best": self.best.name,
            "reported": self.reported,
            "held_out": self.chosen_on,
            "unit": self.unit,
            "minutes_each": self.minutes_each,
            "systems": [entry.values() for entry in self.entries],
            "failed": self.failed,
            "differences": [
                {"first": verdict.first, "second": verdict.second, **verdict.gap.values()}
                for verdict in self.verdicts()
            ],
            "sentences": self.sentences(),
            "notes": list(self.notes),
        }

    def table(self) -> TableSection:
        """The scores and costs of all systems; the macro-F1 is left out where no system has one."""
        columns = ["system", NAMES[self.metric], "95 %", "macro-F1", "weights", "FLOPs", "seconds", "answers/s"]
        rows = [self._cells(entry) for entry in self.entries]
        if all(entry.macro_f1 is None for entry in self.entries):
            for row in (columns, *rows):
                del row[3]
        return TableSection("", columns, rows)

    def _cells(self, entry: Entry) -> list[str]:
        score = entry.score
        return [
            entry.name + (" *" if entry.name == self.best.name else ""),
            "undefined" if score.value is None else f"{score.value:.4f}",
            "" if score.low is None or score.high is None else f"{score.low:.3f}-{score.high:.3f}",
            "-" if entry.macro_f1 is None else f"{entry.macro_f1:.4f}",
            "-" if entry.parameters is None else short(float(entry.parameters)),
            "-" if entry.flops is None else f"{entry.flops:.1e}" if entry.flops else "0",
            f"{entry.train_seconds:.1f}",
            "-" if entry.predictions_per_second is None else short(entry.predictions_per_second),
        ]

    def sections(self) -> list[ReportSection]:
        """For a terminal: the table, the plot in characters, and what follows from them."""
        scores = [(entry.name, entry.score) for entry in self.entries]
        failed = [f"{name} is left out: {reason}" for name, reason in self.failed.items()]
        texts = ["", *picture.characters(scores), "", *self.sentences(), *failed, FLOPS]
        return [self.table(), LinesSection(tuple(texts))]

    def markdown(self) -> str:
        table = self.table()
        rows = [table.columns, ["---"] + ["---:"] * (len(table.columns) - 1), *table.rows]
        seeds = max(len(entry.measures) for entry in self.entries)
        mean = f" Scores of networks are means of {seeds} seeds." if seeds > 1 else ""
        failed = "".join(f"- {name} is left out: {visible(reason)}\n" for name, reason in self.failed.items())
        return f"""\
# {visible(", ".join(self.data))}: {self.task}

{chr(10).join(f"| {' | '.join(markdown_cell(str(value)) for value in row)} |" for row in rows)}

\\* is best on {self.chosen_on:,} {self.unit} held out of the training set; the table shows {self.reported:,}
others, on which nothing was chosen. Each network had {minutes(self.minutes_each)}.{mean} {FLOPS}

{chr(10).join(f"- {visible(sentence)}" for sentence in self.sentences())}
{failed}
![scores with intervals]({PICTURE})
"""

    def draw(self, path: Path) -> None:
        best = self.best.name
        lines = [picture.Line(each.name, each.score, each.learned, each.name == best) for each in self.entries]
        better = "lower is better" if self.lower else "higher is better"
        axis = (
            f"{NAMES[self.metric]} on {self.reported:,} {self.unit}, 95 % intervals; {better}; * best on held-out data"
        )
        name = Path(self.data[0]).name or self.data[0]
        title = f"{name}: {minutes(self.minutes_each)} of training for each network (blue)"
        picture.draw_intervals(path, lines, title, axis)


def compare(plan: ComparisonPlan) -> tuple[SystemComparison, Path]:
    """Train and score all systems; gives the comparison, and the folder that holds it."""
    from qkv.studies import compare_labelled, compare_text

    labelled = task_to_study(plan.corpus, plan.task, "compare").labelled
    folder = claim(plan.folder, numbered=True)
    plan = replace(plan, folder=folder)
    try:
        comparison = compare_labelled.compare(plan) if labelled else compare_text.compare(plan)
    except BaseException:
        with suppress(OSError):  # runs were made in it
            folder.rmdir()
        raise
    values = without_nonfinite(comparison.values())
    write_file(folder / "compare.json", json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    write_file(folder / "compare.md", comparison.markdown())
    comparison.draw(folder / PICTURE)
    return comparison, folder


def in_order(entries: Iterable[Entry], *, lower: bool) -> tuple[Entry, ...]:
    """The best reported score first; what has none comes last."""

    def key(entry: Entry) -> tuple[bool, float]:
        value = entry.score.value
        return value is None, 0.0 if value is None else value if lower else -value

    return tuple(sorted(entries, key=key))


def minutes(value: float) -> str:
    return f"{value:.1f} minutes" if value >= 1 else f"{60 * value:.0f} seconds"


def short(value: float) -> str:
    """Three digits: 532, 46.4 k, 9.45 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}" if value < 999.5 * size else f"{value / size:,.0f}{letter}"
    return f"{value:.0f}"

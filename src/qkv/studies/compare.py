"""Every architecture that fits the data, under one time budget, beside systems that need no network: one table.

Trained as `qkv train` does it, each for the same minutes. Which step and which system is best is decided on examples
held out of the training side; what is reported was never looked at before.

runs/compare-NAME/   compare.json  compare.md  compare.svg  runs/SYSTEM/ (a run each)
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.session import claim
from qkv.storage import write_file
from qkv.studies import compare_labelled, compare_text, picture
from qkv.studies.comparison import NAMES, Comparison, Entry, Plan
from qkv.tasks.registry import task_to_study
from qkv.tasks.report import cell
from qkv.visible import visible

COLUMNS = ("system", "95 %", "macro-F1", "weights", "FLOPs", "seconds", "answers/s")
FLOPS = (
    "FLOPs of a training: three times a forward pass (the backward pass is two more), counted on batches of the run; "
    "a product and its sum are two; lookups cost nothing."
)
PICTURE = "compare.svg"


def compare(plan: Plan) -> tuple[Comparison, Path]:
    """Do it all; gives what was found, and the folder that tells of it."""
    labelled = task_to_study(plan.corpus, "compare").labelled
    folder = claim(plan.folder, numbered=True)
    plan = replace(plan, folder=folder)
    try:
        found = compare_labelled.compare(plan) if labelled else compare_text.compare(plan)
    except BaseException:
        with suppress(OSError):  # runs were made in it
            folder.rmdir()
        raise
    write_file(folder / "compare.json", json.dumps(finite(found.values()), indent=2, ensure_ascii=False) + "\n")
    write_file(folder / "compare.md", markdown(found))
    draw(found, folder / PICTURE)
    return found, folder


def finite(value: Any) -> Any:
    """Without what JSON has no word for."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def draw(found: Comparison, path: Path) -> None:
    best = found.best.name
    lines = [picture.Line(each.name, each.figure, each.learned, each.name == best) for each in found.entries]
    better = "lower is better" if found.lower else "higher is better"
    axis = (
        f"{NAMES[found.metric]} on {found.reported:,} {found.unit}, 95 % intervals; {better}; * best on held-out data"
    )
    name = Path(found.data[0]).name or found.data[0]
    title = f"{name}: {minutes(found.minutes_each)} of training for each network (blue)"
    picture.draw(path, lines, title, axis)


def minutes(value: float) -> str:
    return f"{value:.1f} minutes" if value >= 1 else f"{60 * value:.0f} seconds"


def short(value: float) -> str:
    """Three digits: 532, 46.4 k, 9.45 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}" if value < 999.5 * size else f"{value / size:,.0f}{letter}"
    return f"{value:.0f}"


def columns(found: Comparison) -> list[str]:
    """The table's head; what no system has is left out."""
    named = [COLUMNS[0], NAMES[found.metric], *COLUMNS[1:]]
    return [name for name in named if name != "macro-F1" or any(each.macro_f1 is not None for each in found.entries)]


def cells(entry: Entry, found: Comparison) -> list[str]:
    """A line of the table, under `columns`."""
    figure = entry.figure
    interval = f"{figure.low:.3f}-{figure.high:.3f}" if figure.low is not None and figure.high is not None else ""
    texts = {
        "system": entry.name + (" *" if entry.name == found.best.name else ""),
        NAMES[found.metric]: "undefined" if figure.value is None else f"{figure.value:.4f}",
        "95 %": interval,
        "weights": "-" if entry.parameters is None else short(float(entry.parameters)),
        "FLOPs": "-" if entry.flops is None else f"{entry.flops:.1e}" if entry.flops else "0",
        "seconds": f"{entry.train_seconds:.1f}",
        "answers/s": "-" if entry.predictions_per_second is None else short(entry.predictions_per_second),
    }
    f1 = "-" if entry.macro_f1 is None else f"{entry.macro_f1:.4f}"
    return [texts.get(name, f1) for name in columns(found)]


def markdown(found: Comparison) -> str:
    head = columns(found)
    rows = [head, ["---"] + ["---:"] * (len(head) - 1), *(cells(entry, found) for entry in found.entries)]
    table = "\n".join(f"| {' | '.join(map(cell, row))} |" for row in rows)
    seeds = max(len(entry.measures) for entry in found.entries)
    mean = f" Figures of networks are means of {seeds} seeds." if seeds > 1 else ""
    failed = "".join(f"- {name} is left out: {visible(reason)}\n" for name, reason in found.failed.items())
    return f"""\
# {visible(", ".join(found.data))}: {found.task}

{table}

\\* is best on {found.chosen_on:,} {found.unit} held out of the training side; the table shows {found.reported:,}
others, on which nothing was chosen. Each network had {minutes(found.minutes_each)}.{mean} {FLOPS}

{chr(10).join(f"- {visible(sentence)}" for sentence in found.sentences())}
{failed}
![figures with intervals]({PICTURE})
"""

"""card.md of a classifier or a tagger: data, figures, curve, machine, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from qkv.evaluation.judging import Judgement
from qkv.recipe import page
from qkv.recipe.labelled_words import about
from qkv.recipe.starting import Session

MOST_LABELS = 30


def write(session: Session, found: Mapping[str, Judgement], said: Sequence[str]) -> Path:
    recipe, lesson = session.recipe, session.lesson
    data, names = lesson.prepared.labelled, lesson.labels.names
    more = f" and {len(names) - MOST_LABELS:,} more" if len(names) > MOST_LABELS else ""
    figures = {name: value for side, each in found.items() for name, value in _figures(side, each).items()}
    steps = f"{session.state.step} of {recipe.training.batch} examples"
    rows = figures | {
        "labels": ", ".join(names[:MOST_LABELS]) + more,
        "data": ", ".join(recipe.corpus.files),
        "examples": ", ".join(f"{len(examples):,} {side}" for side, examples in data.sides),
        **{
            f"{side} examples scored": f"{len(lesson.scored(side)):,} of {len(getattr(data, side)):,}" for side in found
        },
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "steps": f"{steps}, {page.epochs(session):.2f} epochs",
    }
    sentence = f"A {about(recipe.model)} of {session.parameters:,} parameters for {data.task}"
    return page.write(session, sentence, rows, page.remarked(said))


def _figures(side: str, found: Judgement) -> dict[str, str]:
    values = found.values()
    rows = {}
    for name, value in values.items():
        if not isinstance(value, float) or name.endswith(("_low", "_high")):
            continue
        low, high = values.get(f"{name}_low"), values.get(f"{name}_high")
        interval = f" (95 % interval {low:.4f} to {high:.4f})" if low is not None and high is not None else ""
        rows[f"{side} {name.replace('_', ' ')}"] = f"{value:.4f}{interval}"
    return rows

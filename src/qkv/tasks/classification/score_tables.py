"""Tables of the scores on labelled examples: metrics, the confusion matrix, the most confident mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qkv.data.examples import Examples, ImageExamples, NumberExamples, TagExamples
from qkv.evaluation.classification_metrics import ClassScore
from qkv.evaluation.intervals import interval_text
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.regression import NumberScore
from qkv.evaluation.spans import SpanScore
from qkv.tasks.report import (
    ReportSection,
    TableSection,
    lines,
)
from qkv.visible import counted, shortened

MAX_CLASSES = 12  # that a confusion table shows
MISTAKES = 5


def score_sections(
    result: LabelledScore, examples: Examples, name: str, total: int | None = None
) -> list[ReportSection]:
    """The metrics, a table by class or type of span, and the worst mistakes.

    `total` is the number of examples in the split that `examples` were chosen from.
    """
    score = result.score
    amount = counted(len(examples), "example")
    if total is not None and len(examples) < total:
        amount = f"{len(examples):,} of {total:,} examples, evenly spread: there was no time for more"
    rows = tuple(metric_rows(result))
    sections: list[ReportSection] = [TableSection(f"{name}: {amount}", ("score", "value", "95 % interval"), rows)]
    if isinstance(score, SpanScore):
        by_type = tuple(
            (kind, f"{span.precision:.3f}", f"{span.recall:.3f}", f"{span.f1:.3f}", f"{span.support:,}")
            for kind, span in score.by_type.items()
        )
        sections += [lines(""), TableSection("", ("span", "precision", "recall", "F1", "support"), by_type)]
    elif isinstance(score, ClassScore):
        sections += [lines(""), _confusion_table(score)]
    if isinstance(score, ClassScore | NumberScore) and (wrong := mistakes(result, examples)):
        sections.append(lines("", "the most confident mistakes:" if isinstance(score, ClassScore) else "farthest off:"))
        sections += [lines(f"  {row['said']} instead of {row['true']}: {row['text']}") for row in wrong]
    return sections


def metric_rows(result: LabelledScore) -> list[tuple[str, str, str]]:
    """The metrics of the score and the loss: title, value, interval."""
    values = {**result.score.values(), "loss": result.loss}
    titles = {**result.score.titles, "loss": "loss"}
    rows = [(title, *value_and_interval(values, name)) for name, title in titles.items()]
    return rows + [(name, f"{value:.4f}", "") for name, value in result.own.items()]


def value_and_interval(values: Mapping[str, Any], name: str) -> tuple[str, str]:
    """A metric and its 95 % interval as text; an interval that is unknown is empty."""
    value, low, high = (values.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return "undefined", ""
    return f"{value:.4f}", interval_text(low, high)


def _confusion_table(score: ClassScore) -> TableSection:
    """Rows are the true classes, columns the predicted ones; for many classes, a list of the most frequent mistakes."""
    if len(score.names) <= MAX_CLASSES:
        rows = tuple(
            (shortened(name, 20), *(f"{count:,}" for count in counts), f"{class_.f1:.3f}")
            for name, counts, class_ in zip(score.names, score.confusion.tolist(), score.by_class, strict=True)
        )
        columns = ("", *(shortened(name, 12) for name in score.names), "F1")
        return TableSection("rows: the true class, columns: the predicted class", columns, rows)
    often = tuple((true, predicted, f"{times:,}") for true, predicted, times in score.confused(MAX_CLASSES))
    return TableSection("the most frequent mistakes", ("true", "predicted", "times"), often, words=("predicted",))


def mistakes(result: LabelledScore, examples: Examples, limit: int = MISTAKES) -> list[dict[str, Any]]:
    """The most confident errors of a classifier, or the largest ones of a regression, for JSON; tags have none."""
    score = result.score
    rows: list[dict[str, Any]] = []
    if isinstance(examples, TagExamples):
        return []
    if isinstance(score, ClassScore):
        for row in score.worst(limit):
            answer = f"{score.names[int(score.predictions[row])]} ({score.confidence[row]:.0%})"
            rows.append({"row": row, "said": answer, "true": score.names[int(score.targets[row])]})
    elif isinstance(score, NumberScore):
        targets = examples.targets
        for row in score.worst(limit):
            rows.append({"row": row, "said": f"{float(result.predictions[row, 0]):.2f}", "true": f"{targets[row]:.2f}"})
    for mistake in rows:
        row = mistake["row"]
        if isinstance(examples, ImageExamples):
            mistake["text"] = f"image {row + 1}"
        elif isinstance(examples, NumberExamples):
            cells = zip(examples.columns, examples[row].values.tolist(), strict=True)
            mistake["text"] = shortened(", ".join(f"{name}={value:.4g}" for name, value in cells))
        else:
            example = examples[row]
            mistake["text"] = shortened(
                example.text if example.second is None else f"{example.text} | {example.second}"
            )
    return rows

"""The baseline of classification and tagging that gives the same answer to every example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.examples import Examples, TagExamples
from qkv.evaluation.class_metrics import f1
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.regression import NumberScore
from qkv.evaluation.spans import OUTSIDE, is_spans, span_score


@dataclass(frozen=True)
class ConstantAnswer:
    """The baseline that gives the same answer to every example: its score, and a description.

    The score is by the metric of the task. For regression it is the squared error, because the correlation of a
    constant is undefined.
    """

    value: float
    description: str


def constant_answer(train: Examples, scored: Examples) -> ConstantAnswer | None:
    """The constant answer that is best on the training examples, scored on others; None if there are no others."""
    if not len(scored):
        return None
    targets, names = train.targets, train.labels.names
    if targets.dtype.kind == "f":
        error = float(np.mean((scored.targets - targets.mean()) ** 2))
        return ConstantAnswer(
            error, f"squared error {error:.3f} by always saying the mean, {float(targets.mean()):.3f}"
        )
    if targets.ndim == 2:
        labels = _best_constant_labels(targets)
        right = float(scored.targets[:, labels].sum())
        value = 2 * right / max(1.0, float(len(scored.targets) * len(labels) + scored.targets.sum()))
        listed = " and ".join(repr(names[label]) for label in labels[:3]) + (" ..." if len(labels) > 3 else "")
        return ConstantAnswer(value, f"micro-F1 {value:.4f} by always giving {listed}")
    most_frequent = int(np.bincount(targets).argmax())
    name = names[most_frequent]
    accuracy = float((scored.targets == most_frequent).mean())
    if isinstance(scored, TagExamples) and is_spans(names):
        value = 0.0
        if name != OUTSIDE:
            predicted = [[name] * int(length) for length in scored.lengths]
            true = np.split(scored.targets, np.cumsum(scored.lengths)[:-1])
            value = span_score([[names[tag] for tag in tags] for tags in true], predicted).f1.value or 0.0
        return ConstantAnswer(value, f"F1 of spans {value:.4f}, {accuracy:.1%} of tags right by always saying {name!r}")
    return ConstantAnswer(accuracy, f"{accuracy:.1%} right by always saying {name!r}")


def _best_constant_labels(targets: NDArray[Any]) -> list[int]:
    """The set of labels that has the best micro-F1 when it is given to every example."""
    counts = targets.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    right, labels = np.cumsum(counts[order]), np.arange(1, len(order) + 1)
    best = int(np.argmax(f1(right, labels * len(targets), np.array(counts.sum()))))
    return [int(label) for label in order[: best + 1]]


def not_significantly_better(result: LabelledScore, constant: ConstantAnswer) -> bool:
    """Whether the score of the constant answer is within the score's interval, or better."""
    if isinstance(result.score, NumberScore):
        high = result.score.squared_error.high
        return constant.value <= (result.loss if high is None else high)
    low = result.figure.low
    return (result.value if low is None else low) <= constant.value

"""Classifiers, taggers and models of tables in words: what they are, and what is reached without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.examples import Examples, TagExamples
from qkv.evaluation.classification_metrics import f1
from qkv.evaluation.labelled_evaluation import NAMES, LabelledScore
from qkv.evaluation.regression import NumberScore
from qkv.evaluation.spans import OUTSIDE, SpanScore, is_spans, span_score


def about(model: Any) -> str:
    """A model in a few words: what it is built around, and its sizes."""
    encoder = getattr(model, "encoder", model)
    shape = "/".join(str(getattr(encoder, name)) for name in ("layers", "heads", "width") if hasattr(encoder, name))
    kind = getattr(encoder, "cell", encoder.kind)
    pooled = f", {model.pooling} pooling" if hasattr(model, "pooling") else ""
    context = f", texts of {model.context} tokens" if model.vocabulary else ""
    if encoder is model:
        return f"{'linear' if kind == 'linear-table' else f'mlp {shape}'} on {len(model.columns):,} columns of numbers"
    if kind == "linear":  # it is the scores, and has no shape of its own
        return f"linear {model.kind} on words and their {encoder.ngrams}-grams{context}"
    head = {"two-layer": ", two-layer head", "no-bias": ", no bias"}.get(getattr(model, "head", "linear"), "")
    return f"{kind} {shape} {model.kind}{pooled}{head}{context}"


@dataclass(frozen=True)
class Constant:
    """The same answer to every example, chosen by the training examples: its figure on others, and in words.

    The figure is the one the task is judged by, but for regression, where the correlation of a constant is not defined
    and the squared error is taken.
    """

    value: float
    words: str


def untaught(train: Examples, scored: Examples) -> Constant | None:
    """What is reached without learning anything, on the examples that are scored; None where there are none."""
    if not len(scored):
        return None
    targets, names = train.targets, train.labels.names
    if targets.dtype.kind == "f":
        error = float(np.mean((scored.targets - targets.mean()) ** 2))
        return Constant(error, f"squared error {error:.3f} by always saying the mean, {float(targets.mean()):.3f}")
    if targets.ndim == 2:
        given = _likely(targets)
        right = float(scored.targets[:, given].sum())
        value = 2 * right / max(1.0, float(len(scored.targets) * len(given) + scored.targets.sum()))
        said = " and ".join(repr(names[label]) for label in given[:3]) + (" ..." if len(given) > 3 else "")
        return Constant(value, f"micro-F1 {value:.4f} by always giving {said}")
    often = int(np.bincount(targets).argmax())
    share = float((scored.targets == often).mean())
    if isinstance(scored, TagExamples) and is_spans(names):
        value = 0.0
        if names[often] != OUTSIDE:
            said_tags = [[names[often]] * int(length) for length in scored.lengths]
            true = np.split(scored.targets, np.cumsum(scored.lengths)[:-1])
            value = span_score([[names[tag] for tag in tags] for tags in true], said_tags).f1.value or 0.0
        return Constant(value, f"F1 of spans {value:.4f}, {share:.1%} of tags right by always saying {names[often]!r}")
    return Constant(share, f"{share:.1%} right by always saying {names[often]!r}")


def _likely(targets: NDArray[Any]) -> list[int]:
    """The labels to give to every example for the best micro-F1 on these."""
    counts = targets.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    right, number = np.cumsum(counts[order]), np.arange(1, len(order) + 1)
    best = int(np.argmax(f1(right, number * len(targets), np.array(counts.sum()))))
    return [int(label) for label in order[: best + 1]]


def in_words(judged: LabelledScore) -> str:
    """The score with every figure that `untaught` has."""
    match judged.score:
        case NumberScore():
            return f"squared error {judged.loss:.3f}, {NAMES[judged.name]} {judged.value:.4f}"
        case SpanScore(accuracy=tags):
            return f"{NAMES[judged.name]} {judged.value:.4f}, {tags:.1%} of tags right"
    return f"{NAMES[judged.name]} {judged.value:.4f}"


def no_better(judged: LabelledScore, constant: Constant) -> bool:
    """Whether the interval of the score reaches what one answer for all has."""
    if isinstance(judged.score, NumberScore):
        high = judged.score.squared_error.high
        return constant.value <= (judged.loss if high is None else high)
    low = judged.figure.low
    return (judged.value if low is None else low) <= constant.value

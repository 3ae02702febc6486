"""Evaluates a model on labelled examples: its predictions, and the metrics of its task, the main one first.

one class      accuracy (and macro-F1, Matthews)        several labels   micro-F1
a number       Pearson's correlation                    tags of words    accuracy, or the F1 of spans (BIO)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.data.examples import Examples, TagExamples
from qkv.evaluation import decisions
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore, class_score, log_losses, multilabel_score
from qkv.evaluation.decisions import Autocast
from qkv.evaluation.intervals import Array, Estimate, bootstrap_rows, ratio_of_totals
from qkv.evaluation.perplexity import part_losses
from qkv.evaluation.regression import NumberScore, number_score
from qkv.evaluation.spans import SpanScore, is_spans, span_score
from qkv.objectives.classification import Problem
from qkv.objectives.objective import Source
from qkv.visible import ShownResult

Score = ClassScore | MultilabelScore | NumberScore | SpanScore

LABELLED_TITLES: dict[str, str] = {
    **ClassScore.titles,
    **MultilabelScore.titles,
    **NumberScore.titles,
    "f1": "F1",
    "span_f1": SpanScore.titles["f1"],
}
"""The titles of metrics in tables and messages."""


@dataclass(frozen=True, repr=False)
class LabelledScore(ShownResult):
    """The predictions for some examples, and their scores; `main_score` is that of the metric `name`."""

    name: str
    main_score: Estimate
    loss: float
    score: Score
    predictions: NDArray[np.float32]  # probabilities of the labels, or numbers; for tags, of each word
    examples: Examples | None = None  # those that were scored, where a report needs them
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of the user's own
    chosen: NDArray[np.int64] | None = None  # tags that were chosen together; None: the likeliest are predicted

    @property
    def value(self) -> float:
        """The main score for choosing between models: higher is better, and undefined is worst."""
        return -1.0 if self.main_score.value is None else self.main_score.value

    def values(self) -> dict[str, object]:
        return {"metric": self.name, **self.score.values(), "loss": self.loss, **self.own}

    def tables(self) -> Mapping[str, object]:
        return {} if isinstance(self.score, NumberScore) else self.score.tables()


def evaluate_labelled(
    model: nn.Module,
    rows: Source,
    examples: Examples,
    problem: Problem,
    autocast: Autocast = nullcontext,
    on_progress: Callable[[int], None] | None = None,
) -> LabelledScore:
    """Score the model on examples; `on_progress` is called with the number of rows that are done."""
    predictions = decisions.predict(model, rows, problem, autocast, on_progress=on_progress)
    return score_examples(predictions.values, examples, problem, predictions.chosen)


def main_metric(examples: Examples, problem: Problem) -> str:
    """The metric by which predictions for these examples are compared."""
    if isinstance(examples, TagExamples):
        return "span_f1" if is_spans(examples.labels.names) else "accuracy"
    return {"single": "accuracy", "multi": "micro_f1", "regression": "pearson"}[problem]


def score_examples(
    predictions: NDArray[np.float32], examples: Examples, problem: Problem, chosen: NDArray[np.int64] | None = None
) -> LabelledScore:
    if isinstance(examples, TagExamples):
        return score_tags(predictions, examples, chosen)
    return score_predictions(predictions, examples.targets, examples.labels.names, problem)


def score_predictions(
    predictions: NDArray[np.float32], targets: Array, names: tuple[str, ...], problem: Problem
) -> LabelledScore:
    """Score the predictions of any system: probabilities, (N, L), or numbers, (N, 1)."""
    match problem:
        case "single":
            classes = class_score(predictions, targets, names)
            return LabelledScore("accuracy", classes.accuracy, classes.loss, classes, predictions)
        case "multi":
            labels = multilabel_score(predictions, targets, names)
            return LabelledScore("micro_f1", labels.micro_f1, labels.loss, labels, predictions)
        case "regression":
            numbers = number_score(predictions[:, 0], targets)
            error = numbers.squared_error.value
            loss = float("nan") if error is None else error
            return LabelledScore("pearson", numbers.pearson, loss, numbers, predictions)


def row_losses(predictions: NDArray[np.float32], targets: Array, problem: Problem) -> NDArray[np.float64]:
    """The loss of each prediction; their mean is the loss of the score."""
    if problem == "regression":
        return (predictions[:, 0].astype(np.float64) - targets) ** 2
    if problem == "multi":
        return log_losses(np.where(targets, predictions, 1 - predictions)).mean(1)
    return log_losses(predictions[np.arange(len(targets)), targets])


def logged_scores(result: LabelledScore, targets: Array, problem: Problem) -> dict[str, Any]:
    """The scores of an evaluation in the log of a run. Of two models with equal scores, the one with the lower loss is
    better. `parts` are the losses of consecutive parts: evaluations are compared part by part."""
    criterion = 1 - result.value + 1e-4 * min(result.loss, 100.0)
    macro = {"macro_f1": result.score.macro_f1.value} if isinstance(result.score, ClassScore) else {}
    losses = [float(f"{part:.6g}") for part in part_losses(row_losses(result.predictions, targets, problem))]
    scores = {"loss": result.loss, result.name: result.value, **macro, "criterion": criterion}
    return {**scores, "parts": losses, **result.own}


def score_tags(
    predictions: NDArray[np.float32], examples: TagExamples, chosen: NDArray[np.int64] | None = None
) -> LabelledScore:
    """Score tags: those in `chosen`, by default the likeliest of each word."""
    names = examples.labels.names
    words = class_score(predictions, examples.targets, names, chosen)
    boundaries = [0, *np.cumsum(examples.lengths).tolist()]
    if not is_spans(names):
        # the tags of a sentence depend on each other: the interval draws sentences
        correct = np.add.reduceat(words.correct.astype(np.int64), boundaries[:-1])
        counts = np.stack([correct, examples.lengths], axis=1)
        (accuracy,) = bootstrap_rows(counts, lambda n, distinct: ratio_of_totals(n @ distinct, len(counts))[:, None])
        words = replace(words, accuracy=accuracy)
        return LabelledScore("accuracy", accuracy, words.loss, words, predictions, chosen=chosen)
    true, predicted = (
        [[names[number] for number in tags[begin:end].tolist()] for begin, end in pairwise(boundaries)]
        for tags in (words.targets, words.predictions)
    )
    spans = span_score(true, predicted)
    return LabelledScore("span_f1", spans.f1, words.loss, spans, predictions, chosen=chosen)

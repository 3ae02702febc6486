"""A model on labelled examples: its answers, and the score that its task is measured by.

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
from qkv.evaluation.classification_metrics import LEAST, ClassScore, MultilabelScore, class_score, multilabel_score
from qkv.evaluation.decisions import Autocast
from qkv.evaluation.intervals import Array, Estimate, bootstrap_rows, share_of_totals
from qkv.evaluation.perplexity import parts
from qkv.evaluation.regression import NumberScore, number_score
from qkv.evaluation.spans import SpanScore, is_spans, span_score
from qkv.objectives.classification import Problem
from qkv.objectives.objective import Source
from qkv.visible import ShownResult

Score = ClassScore | MultilabelScore | NumberScore | SpanScore

NAMES: dict[str, str] = {
    **ClassScore.titles,
    **MultilabelScore.titles,
    **NumberScore.titles,
    "f1": "F1",
    "span_f1": SpanScore.titles["f1"],
}
"""Metrics as people write them."""


@dataclass(frozen=True, repr=False)
class LabelledScore(ShownResult):
    """The answers to some examples, their score, and the one figure that is reported first."""

    name: str
    figure: Estimate
    loss: float
    score: Score
    answers: NDArray[np.float32]  # shares of the labels, or numbers; of tags, word by word
    examples: Examples | None = None  # those that were scored, where somebody will look at them
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of one's own
    chosen: NDArray[np.int64] | None = None  # tags that were chosen together; None: the likeliest are given

    @property
    def value(self) -> float:
        """For choosing between models: higher is better; what is not defined is worst."""
        return -1.0 if self.figure.value is None else self.figure.value

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
    watch: Callable[[int], None] | None = None,
) -> LabelledScore:
    """`watch` is called with the number of rows that are done."""
    found = decisions.answers(model, rows, problem, autocast, watch=watch)
    return score_examples(found.shares, examples, problem, found.chosen)


def main_metric(examples: Examples, problem: Problem) -> str:
    """The metric that is reported first of answers to these examples."""
    if isinstance(examples, TagExamples):
        return "span_f1" if is_spans(examples.labels.names) else "accuracy"
    return {"single": "accuracy", "multi": "micro_f1", "regression": "pearson"}[problem]


def score_examples(
    answers: NDArray[np.float32], examples: Examples, problem: Problem, chosen: NDArray[np.int64] | None = None
) -> LabelledScore:
    if isinstance(examples, TagExamples):
        return score_tags(answers, examples, chosen)
    return score_answers(answers, examples.targets, examples.labels.names, problem)


def score_answers(
    answers: NDArray[np.float32], targets: Array, names: tuple[str, ...], problem: Problem
) -> LabelledScore:
    """Score the answers of any system: rows of shares, or of numbers."""
    match problem:
        case "single":
            classes = class_score(answers, targets, names)
            return LabelledScore("accuracy", classes.accuracy, classes.loss, classes, answers)
        case "multi":
            labels = multilabel_score(answers, targets, names)
            return LabelledScore("micro_f1", labels.micro_f1, labels.loss, labels, answers)
        case "regression":
            numbers = number_score(answers[:, 0], targets)
            error = numbers.squared_error.value
            return LabelledScore("pearson", numbers.pearson, float("nan") if error is None else error, numbers, answers)


def row_losses(answers: NDArray[np.float32], targets: Array, problem: Problem) -> NDArray[np.float64]:
    """The loss of each answer, whose mean is the loss of the score."""
    if problem == "regression":
        return (answers[:, 0].astype(np.float64) - targets) ** 2
    if problem == "multi":
        return -np.log(np.maximum(np.where(targets, answers, 1 - answers).astype(np.float64), LEAST)).mean(1)
    return -np.log(np.maximum(answers[np.arange(len(targets)), targets].astype(np.float64), LEAST))


def logged_scores(result: LabelledScore, targets: Array, problem: Problem) -> dict[str, Any]:
    """What the log of a run holds of an evaluation. Of two models with equal scores, the one with the lower loss is
    better. `parts` are the losses of some stretches of the rows: evaluations are compared part by part."""
    criterion = 1 - result.value + 1e-4 * min(result.loss, 100.0)
    macro = {"macro_f1": result.score.macro_f1.value} if isinstance(result.score, ClassScore) else {}
    stretches = [float(f"{part:.6g}") for part in parts(row_losses(result.answers, targets, problem))]
    scores = {"loss": result.loss, result.name: result.value, **macro, "criterion": criterion}
    return {**scores, "parts": stretches, **result.own}


def score_tags(
    answers: NDArray[np.float32], examples: TagExamples, chosen: NDArray[np.int64] | None = None
) -> LabelledScore:
    """Score tags: those that were chosen, by default the likeliest of each word."""
    names = examples.labels.names
    words = class_score(answers, examples.targets, names, chosen)
    borders = [0, *np.cumsum(examples.lengths).tolist()]
    if not is_spans(names):
        # the tags of a sentence depend on each other: the interval draws sentences
        correct = np.add.reduceat(words.correct.astype(np.int64), borders[:-1])
        counts = np.stack([correct, examples.lengths], axis=1)
        (accuracy,) = bootstrap_rows(counts, lambda drawn, kinds: share_of_totals(drawn @ kinds, len(counts))[:, None])
        words = replace(words, accuracy=accuracy)
        return LabelledScore("accuracy", accuracy, words.loss, words, answers, chosen=chosen)
    true, predicted = (
        [[names[number] for number in tags[begin:end].tolist()] for begin, end in pairwise(borders)]
        for tags in (words.targets, words.predictions)
    )
    spans = span_score(true, predicted)
    return LabelledScore("span_f1", spans.f1, words.loss, spans, answers, chosen=chosen)

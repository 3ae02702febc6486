"""A model on labelled examples: its answers, scored by what its task is judged by.

one class      accuracy (and macro-F1, Matthews)        several labels   micro-F1
a number       Pearson's correlation                    tags of words    accuracy, or the F1 of spans (BIO)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.data.labelled.encoding import Rows
from qkv.data.labelled.examples import Examples, TagExamples
from qkv.evaluation import decisions
from qkv.evaluation.classes import ClassScore, class_score
from qkv.evaluation.decisions import Autocast
from qkv.evaluation.intervals import Estimate
from qkv.evaluation.multilabel import SeveralScore, several_score
from qkv.evaluation.regression import NumberScore, number_score
from qkv.evaluation.spans import SpanScore, is_spans, span_score
from qkv.objectives.classification import Problem
from qkv.objectives.reading import Source

Score = ClassScore | SeveralScore | NumberScore | SpanScore

NAMES = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro-F1",
    "matthews": "Matthews",
    "micro_f1": "micro-F1",
    "pearson": "Pearson",
    "span_f1": "F1 of spans",
}
"""Figures as people write them."""


@dataclass(frozen=True)
class Judgement:
    """The answers to some examples, their score, and the one figure that is looked at first."""

    name: str
    figure: Estimate
    loss: float
    score: Score
    answers: NDArray[np.float32]  # shares of the labels, or numbers; of tags, word by word

    @property
    def value(self) -> float:
        """For choosing between models: higher is better; what is not defined is worst."""
        return -1.0 if self.figure.value is None else self.figure.value

    def values(self) -> dict[str, Any]:
        return {"metric": self.name, **self.score.values(), "loss": self.loss}

    def tables(self) -> dict[str, Any]:
        return {} if isinstance(self.score, NumberScore) else self.score.tables()


def judge(
    model: nn.Module,
    rows: Source,
    examples: Examples,
    problem: Problem,
    autocast: Autocast = nullcontext,
    watch: Callable[[int], None] | None = None,
) -> Judgement:
    return score_of(answered(model, rows, examples, problem, autocast, watch), examples, problem)


def answered(
    model: nn.Module,
    rows: Source,
    examples: Examples,
    problem: Problem,
    autocast: Autocast = nullcontext,
    watch: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """What the model says; `watch` is told how many rows are done."""
    if isinstance(examples, TagExamples):
        assert isinstance(rows, Rows)
        return decisions.tags(model, rows, autocast, watch)
    return decisions.answers(model, rows, problem, autocast, watch=watch)


def score_of(answers: NDArray[np.float32], examples: Examples, problem: Problem) -> Judgement:
    if isinstance(examples, TagExamples):
        return judged_tags(answers, examples)
    return judged(answers, examples.targets, examples.labels.names, problem)


def judged(answers: NDArray[np.float32], targets: NDArray[Any], names: tuple[str, ...], problem: Problem) -> Judgement:
    """Score the answers of any system: rows of shares, or of numbers."""
    match problem:
        case "single":
            classes = class_score(answers, targets, names)
            return Judgement("accuracy", classes.accuracy, classes.loss, classes, answers)
        case "multi":
            several = several_score(answers, targets, names)
            return Judgement("micro_f1", several.micro_f1, several.loss, several, answers)
        case "regression":
            numbers = number_score(answers[:, 0], targets)
            error = numbers.squared_error.value
            return Judgement("pearson", numbers.pearson, float("nan") if error is None else error, numbers, answers)


def judged_tags(answers: NDArray[np.float32], examples: TagExamples) -> Judgement:
    names = examples.labels.names
    words = class_score(answers, examples.targets, names)
    if not is_spans(names):
        return Judgement("accuracy", words.accuracy, words.loss, words, answers)
    borders = np.concatenate([[0], np.cumsum(examples.lengths)])
    said = [names[number] for number in words.predictions.tolist()]
    true = [names[number] for number in words.targets.tolist()]
    parts = [slice(int(a), int(b)) for a, b in pairwise(borders)]
    spans = span_score([true[part] for part in parts], [said[part] for part in parts])
    return Judgement("span_f1", spans.f1, words.loss, spans, answers)

"""Classifiers and taggers on as many examples as there is time for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.data.labelled.examples import Examples, TagExamples
from qkv.evaluation.decisions import Autocast
from qkv.evaluation.labelled_evaluation import Judgement, answered, score_of
from qkv.evaluation.timed_scoring import Pace
from qkv.objectives.classification import Problem
from qkv.objectives.reading import Source

PORTION = 16  # examples that are scored together where time is short

EVALUATED = 4096  # examples looked at while a run goes on
EVALUATIONS, FEWEST_LOOKS = 12, 3
FEWEST = 256  # examples of an evaluation, unless these would take too long


def evaluations(valid: int, share: float) -> tuple[int, int]:
    """How many evaluations a run has, and of how many examples, where there is time for a `share` of them in all."""
    number = int(max(FEWEST_LOOKS, min(EVALUATIONS, share / min(valid, EVALUATED))))
    size = int(min(valid, max(FEWEST, min(EVALUATED, share / number))))
    if number * size > share:  # no time to look often: fewer evaluations, and in the end fewer examples
        number = int(max(1, min(number, share / size)))
        size = int(min(size, max(PORTION, share)))
    return number, size


def some(examples: Any, numbers: NDArray[np.int64]) -> Any:
    """These examples of a side."""
    return replace(examples, rows=examples.rows[numbers])


def judged_in_time(
    model: nn.Module,
    examples: Examples,
    rows_of: Callable[[Examples], Source],
    problem: Problem,
    autocast: Autocast,
    pace: Pace,
) -> tuple[Judgement, Examples]:
    """The score, and the examples that it is of, in their own order."""
    order, done = pace.order(len(examples)), 0
    parts: dict[int, NDArray[np.float32]] = {}  # what is said to each example
    for begin, end in pace.portions(len(examples), PORTION):
        numbers = np.sort(order[begin:end])
        part: Examples = some(examples, numbers)
        said = answered(model, rows_of(part), part, problem, autocast, pace.watch(begin, len(examples)))
        lengths = part.lengths if isinstance(part, TagExamples) else np.ones(len(part), dtype=np.int64)
        parts |= zip(numbers.tolist(), np.split(said, np.cumsum(lengths)[:-1]), strict=True)
        done = end
    scored: Examples = some(examples, np.sort(order[:done]))
    return score_of(np.concatenate([parts[number] for number in sorted(parts)]), scored, problem), scored

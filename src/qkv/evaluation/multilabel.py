"""Scores of a classifier that gives each row any number of labels: each label is a yes or no of its own.

A label is given when it is more likely than not. Exact: all labels of the row are right, none is missing and none too
many. F1 (agreement.py) over all decisions (micro), as a mean over labels (macro) and as a mean over rows (samples);
a row without a label that is given none counts 0 there, as scikit-learn's `zero_division=0` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.evaluation import agreement
from qkv.evaluation.agreement import Agreement
from qkv.evaluation.classes import LEAST, check
from qkv.evaluation.intervals import Estimate, bootstrap

Array = NDArray[Any]

GIVEN = 0.5


@dataclass(frozen=True)
class SeveralScore:
    """What a multi-label classifier did on some rows."""

    names: tuple[str, ...]
    exact: Estimate  # scikit-learn's "subset accuracy"
    micro_f1: Estimate
    samples_f1: Estimate
    macro_f1: float
    loss: float  # the mean over all decisions of -log p(what is true), nats
    by_class: tuple[Agreement, ...]
    counts: NDArray[np.int64] = field(repr=False)  # of each row: labels right, labels given, labels true
    correct: NDArray[np.bool_] = field(repr=False)  # row by row, all labels

    @property
    def count(self) -> int:
        return len(self.counts)

    def values(self) -> dict[str, Any]:
        """For JSON: the numbers."""
        return {
            "count": self.count,
            **self.exact.values("exact"),
            **self.micro_f1.values("micro_f1"),
            **self.samples_f1.values("samples_f1"),
            "macro_f1": self.macro_f1,
            "loss": self.loss,
        }

    def tables(self) -> dict[str, Any]:
        """For JSON: label by label."""
        return {"classes": {name: each.values() for name, each in zip(self.names, self.by_class, strict=True)}}


def several_score(probabilities: Array, targets: Array, names: Sequence[str]) -> SeveralScore:
    """Score answers: a probability for each row and label, against a table of true and false."""
    probabilities = check(probabilities, (len(targets), len(names)))
    if targets.shape != probabilities.shape:
        raise InputError(f"labels of shape {targets.shape}: expected {probabilities.shape}, true or false for each.")
    there, found = np.asarray(targets, bool), probabilities > GIVEN
    both = there & found
    by_class = agreement.by_class(both.sum(0), found.sum(0), there.sum(0))
    counts = np.stack([both.sum(1), found.sum(1), there.sum(1)], axis=1)
    exact, micro_f1, samples_f1 = _estimates(counts)
    true = np.where(there, probabilities, 1 - probabilities).astype(np.float64)
    return SeveralScore(
        names=tuple(names),
        exact=exact,
        micro_f1=micro_f1,
        samples_f1=samples_f1,
        macro_f1=agreement.macro(by_class).f1,
        loss=float(-np.log(np.maximum(true, LEAST)).mean()),
        by_class=by_class,
        counts=counts,
        correct=(there == found).all(1),
    )


def _estimates(counts: Array) -> tuple[Estimate, ...]:
    """Exact, micro-F1 and samples-F1. Rows with the same counts are of one kind."""
    kinds, often = np.unique(counts, axis=0, return_counts=True)
    exact, single = np.ptp(kinds, axis=1) == 0, agreement.f1(*kinds.T)

    def scores(drawn: Array) -> Array:
        means = drawn @ np.stack([exact, single], axis=1) / len(counts)
        return np.stack([means[:, 0], agreement.f1(*(drawn @ kinds).T), means[:, 1]], axis=1)

    return bootstrap(often, scores)

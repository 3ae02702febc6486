"""Baselines of a training run on labelled examples: fitted before the run in a share of its time, and compared with the
model on the rows that the model is scored on."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from qkv.data.examples import Examples, Labelled, TagExamples
from qkv.data.split import even_order
from qkv.doctor.baseline_table import BaselineTable, compared
from qkv.errors import installation_hint
from qkv.evaluation.classical_baselines import DEFAULT_C, Baseline, FittedBaseline, baselines_for, constant_in_words
from qkv.evaluation.intervals import Array
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.significance import METRIC_TITLES, RowStatistics, compared_statistics, estimate
from qkv.objectives.classification import Problem
from qkv.training.clock import Clock

BASELINE_SHARE = 0.06  # of a run's time, for fitting baselines and for their predictions
DEFAULT_SECONDS = 10.0  # in a run without a time budget
FIRST_ROWS = 500  # that are fitted first, to measure the speed
MIN_PREDICTED = 200  # held-out rows that are predicted even if there is little time


@dataclass(frozen=True)
class BaselinePredictions:
    """A fitted baseline, and its predictions for some rows of a held-out split."""

    fitted: FittedBaseline
    name: str
    part: str  # on how many of the training rows it was fitted, if not on all
    predictions: Array


class LabelledBaselines:
    """Baselines that are fitted on the training split, and their predictions for the split that is reported.

    This is the test split, if there is one: nothing was chosen by it.
    """

    def __init__(self, data: Labelled, problem: Problem, clock: Clock | None = None) -> None:
        seconds = DEFAULT_SECONDS if clock is None else BASELINE_SHARE * (clock.ends_at - clock.began)
        self.data, self.problem = data, problem
        self.split = "valid" if data.test is None else "test"
        self.left_out: dict[str, str] = {}
        held_out: Examples = getattr(data, self.split)
        baselines = [baseline for baseline in baselines_for(data, problem, (DEFAULT_C,)) if baseline.quick]
        self.left_out = {
            baseline.name: f"needs scikit-learn: {installation_hint('sklearn')}"
            for baseline in baselines
            if not baseline.available
        }
        fitted = [_fit_in_time(baseline, data, 0.7 * seconds) for baseline in baselines if baseline.available]
        rate = min((model.rows / max(model.seconds, 1e-6) for model in fitted), default=0.0)  # prediction is faster
        limit = max(MIN_PREDICTED, int(0.3 * seconds * rate))
        chosen = held_out.select(np.sort(even_order(len(held_out), min(limit, len(held_out)))))
        self.rows = chosen.rows
        self.fitted = [
            BaselinePredictions(model, self._name(model), self._part(model), model.predict(chosen)) for model in fitted
        ]

    def _name(self, model: FittedBaseline) -> str:
        constant = model.name in ("majority", "mean")
        return f"{model.name}, {constant_in_words(self.data, self.problem)}" if constant else model.name

    def _part(self, model: FittedBaseline) -> str:
        whole = len(self.data.train)
        return f"{model.rows:,} of {whole:,} training {self.unit}" if model.rows < whole else ""

    @property
    def unit(self) -> str:
        return "sentences" if isinstance(self.data.train, TagExamples) else "examples"

    @property
    def split_name(self) -> str:
        return {"valid": "validation", "test": "test"}[self.split]

    def line(self) -> str:
        """The scores of the baselines in one line, to compare the rising score with."""
        scored = getattr(self.data, self.split)
        examples = scored.select(np.isin(scored.rows, self.rows))
        statistics = [(own.name, self._statistics(own.predictions, examples)) for own in self.fitted]
        scores = ", ".join(f"{row.value:.4f} {name}" for name, row in statistics)
        return f"{METRIC_TITLES[statistics[0][1].name]} without a network: {scores}"

    def _statistics(self, predictions: Array, examples: Examples, chosen: Array | None = None) -> RowStatistics:
        return compared_statistics(predictions, examples, self.problem, chosen)

    def table(self, result: LabelledScore, scored: Examples) -> BaselineTable:
        """The model compared with the baselines on the rows that both have predicted."""
        mine, theirs = np.isin(scored.rows, self.rows), np.isin(self.rows, scored.rows)
        common, whole = scored.select(mine), getattr(self.data, self.split)
        same = _predictions_of(scored, mine)
        chosen = None if result.chosen is None else result.chosen[same]
        own = self._statistics(result.predictions[same], common, chosen)
        predicted = whole.select(np.isin(whole.rows, self.rows))
        lower = own.name == "squared_error"
        kept = _predictions_of(predicted, theirs)
        amount = f"{len(common):,}" + (f" of {len(whole):,}" if len(common) < len(whole) else "")
        return BaselineTable(
            metric=METRIC_TITLES[own.name],
            rows=f"{amount} {self.split_name} {self.unit}",
            count=len(common),
            model=estimate([own]),
            baselines=tuple(
                compared(
                    baseline.name, own, self._statistics(baseline.predictions[kept], common),
                    lower_is_better=lower, part=baseline.part,
                )
                for baseline in self.fitted
            ),
            lower_is_better=lower,
            left_out=self.left_out,
        )  # fmt: skip


def _predictions_of(examples: Examples, chosen: Array) -> Array:
    """Which predictions belong to the chosen examples: one each or, for sentences, one for each word."""
    return np.repeat(chosen, examples.lengths) if isinstance(examples, TagExamples) else chosen


def _fit_in_time(baseline: Baseline, data: Labelled, seconds: float) -> FittedBaseline:
    """The baseline fitted on all training rows or, if these would take too long, on some, evenly spread."""
    whole = len(data.train)
    if not baseline.needs_sklearn or whole <= FIRST_ROWS:
        return baseline.fit(data)
    began = time.perf_counter()
    order = even_order(whole, whole)

    def fit(rows: int) -> FittedBaseline:
        return baseline.fit(replace(data, train=data.train.select(np.sort(order[:rows]))))

    import sklearn.linear_model  # noqa: F401  # not a part of the fit

    first = fit(FIRST_ROWS)
    left = seconds - (time.perf_counter() - began)
    affordable = int(FIRST_ROWS * left / max(first.seconds, 1e-3))
    return fit(min(whole, affordable)) if affordable > FIRST_ROWS else first

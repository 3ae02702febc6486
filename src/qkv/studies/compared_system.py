"""A system of a comparison: its scores, its costs, and how it differs from another one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from qkv.evaluation.intervals import Difference, Estimate, interval_text
from qkv.evaluation.significance import RowStatistics, estimate
from qkv.studies.study import TrainedRun


@dataclass(frozen=True)
class ComparedSystem:
    """A system with its scores and costs, which are a row of the table."""

    name: str
    is_network: bool
    statistics: tuple[RowStatistics, ...] = field(repr=False)  # of the reported rows, for each seed
    held_out_score: float | None  # on rows held out of the training set, the mean over seeds
    train_seconds: float  # the mean over seeds
    macro_f1: float | None = None
    parameters: int | None = None
    steps: float | None = None  # the mean over seeds
    epochs: float | None = None
    still_learning: bool = False  # whether the validation loss of a run was still falling when its time was over
    flops: float | None = None  # of a run
    predictions_per_second: float | None = None
    more_values: dict[str, Any] = field(default_factory=dict)  # for JSON: all other scores, and the run folders

    @cached_property
    def score(self) -> Estimate:
        return estimate(self.statistics)

    def values(self) -> dict[str, Any]:
        """For JSON."""
        by_seed = [statistics.value for statistics in self.statistics]
        return {
            "system": self.name,
            "learned": self.is_network,
            **self.score.values(self.statistics[0].name),
            "by_seed": by_seed if len(by_seed) > 1 else None,
            "held_out": self.held_out_score,
            "macro_f1": self.macro_f1,
            "parameters": self.parameters,
            "steps": self.steps,
            "epochs": self.epochs,
            "still_learning": self.still_learning,
            "training_flops": self.flops,
            "training_seconds": self.train_seconds,
            "predictions_per_second": self.predictions_per_second,
            **self.more_values,
        }


@dataclass(frozen=True)
class ScoredRun:
    """A trained run with its scores on the reported rows and on those held out of the training set."""

    run: TrainedRun
    statistics: RowStatistics
    held_out_score: float
    predictions_per_second: float
    macro_f1: float | None = None
    more_values: dict[str, Any] = field(default_factory=dict)


def network_system(name: str, runs: Sequence[ScoredRun]) -> ComparedSystem:
    """A network with the means over its runs, one per seed."""
    held_out_score = float(np.mean([run.held_out_score for run in runs]))
    macro_f1 = [run.macro_f1 for run in runs if run.macro_f1 is not None]
    return ComparedSystem(
        name=name,
        is_network=True,
        statistics=tuple(run.statistics for run in runs),
        held_out_score=held_out_score if math.isfinite(held_out_score) else None,
        train_seconds=float(np.mean([run.run.seconds for run in runs])),
        macro_f1=float(np.mean(macro_f1)) if macro_f1 else None,
        parameters=runs[-1].run.parameters,
        steps=float(np.mean([run.run.steps for run in runs])),
        epochs=float(np.mean([run.run.epochs for run in runs])),
        still_learning=any(run.run.diagnosis.kind == "learning" for run in runs),
        flops=float(np.mean([run.run.flops for run in runs])),
        predictions_per_second=float(np.mean([run.predictions_per_second for run in runs])),
        more_values={"runs": [{**run.run.values, **run.more_values} for run in runs]},
    )


@dataclass(frozen=True)
class SystemDifference:
    """The difference between the scores of two systems on the reported rows."""

    first: str
    second: str
    estimate: Difference

    def sentence(self, metric: str) -> str:
        end = "more than noise"
        if self.estimate.includes_zero:
            end = (
                "noise, other rows of this kind may reverse it" if self.estimate.differing else "equal, no row differs"
            )
        interval = f"95 % interval {interval_text(self.estimate.low, self.estimate.high, sign='+')}"
        pair = f"{self.first} compared with {self.second}"
        return f"{pair}: {self.estimate.difference:+.4f} {metric} ({interval}), {end}."


def sorted_systems(systems: Iterable[ComparedSystem], *, lower_is_better: bool) -> tuple[ComparedSystem, ...]:
    """Sort by the reported score, the best first; systems without a score come last."""

    def key(system: ComparedSystem) -> tuple[bool, float]:
        value = system.score.value
        return value is None, 0.0 if value is None else value if lower_is_better else -value

    return tuple(sorted(systems, key=key))

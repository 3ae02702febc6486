"""A model compared with baselines on identical rows: a table, and sentences on what a paired test tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qkv.evaluation.intervals import Difference, Estimate, Verdict, distinguishing_digits, interval_text
from qkv.evaluation.significance import RowStatistics, difference, estimate


@dataclass(frozen=True)
class ComparedBaseline:
    """A baseline, and whether the model is better. `part` says on how much of the training data it was fitted, if not
    on all; `difference` is the model's score minus its own, None if its rows are not scored one by one."""

    name: str
    score: Estimate
    verdict: Verdict
    difference: Difference | None = None
    part: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} (fitted on {self.part})" if self.part else self.name

    def values(self) -> dict[str, Any]:
        """For JSON."""
        compared = None if self.difference is None else self.difference.values()
        return {
            "name": self.name,
            **self.score.values("score"),
            "fitted_on": self.part or None,
            "the_model_is": self.verdict,
            "difference": compared,
        }


@dataclass(frozen=True)
class BaselineTable:
    """The scores of a model and of baselines on the same `count` rows, which are described by `rows`."""

    metric: str
    rows: str
    count: int
    model: Estimate
    baselines: tuple[ComparedBaseline, ...]
    lower_is_better: bool = False
    digits: int = 4
    left_out: Mapping[str, str] = field(default_factory=dict)  # baselines that were not fitted, and why

    @property
    def strongest(self) -> ComparedBaseline | None:
        scored = [baseline for baseline in self.baselines if baseline.score.value is not None]
        sign = -1 if self.lower_is_better else 1
        return max(scored, key=lambda baseline: sign * (baseline.score.value or 0.0), default=None)

    def number(self, value: float | None) -> str:
        return "undefined" if value is None else f"{value:.{self.digits}f}"

    @property
    def title(self) -> str:
        return f"compared with baselines on {self.rows}"

    @property
    def columns(self) -> tuple[str, ...]:
        return "system", self.metric + (", lower is better" if self.lower_is_better else ""), "95 %", "the model is"

    def cells(self) -> tuple[tuple[str, ...], ...]:
        systems: list[tuple[str, Estimate, str]] = [("this model", self.model, "")]
        systems += [(baseline.title, baseline.score, baseline.verdict) for baseline in self.baselines]
        return tuple(
            (name, self.number(score.value), interval_text(score.low, score.high, self.digits), verdict)
            for name, score, verdict in systems
        )

    def sentences(self) -> list[str]:
        """The model compared with the strongest baseline, and with the best one that it beats, if that is another."""
        own, strongest = self.model, self.strongest
        interval = interval_text(own.low, own.high, self.digits)
        score = f"{self.metric} {self.number(own.value)}{f' ({interval})' if interval else ''} on {self.rows}"
        if strongest is None:
            return [f"{score}."]
        sentences = [f"{score}: {self._compared_with(strongest)}."]
        beaten = [baseline for baseline in self.baselines if baseline.verdict == "better"]
        if strongest.verdict != "better":
            if beaten:
                sign = -1 if self.lower_is_better else 1
                best = max(beaten, key=lambda baseline: sign * (baseline.score.value or 0.0))
                sentences.append(f"It is {self._compared_with(best)}.")
            elif len(self.baselines) > 1:
                sentences.append("It is better than none of the baselines.")
        return sentences

    def _compared_with(self, baseline: ComparedBaseline) -> str:
        name = f"{baseline.title}, {self.number(baseline.score.value)}"
        compared = baseline.difference
        if baseline.verdict == "equal":
            return f"equal to {name}; no row differs"
        if compared is None:
            return f"{_preposition(baseline.verdict)} {name}"
        digits = distinguishing_digits(compared.low, compared.high, self.digits)
        interval = interval_text(compared.low, compared.high, digits, "+")
        apart = f"the difference is {compared.difference:+.{digits}f} ({interval})"
        partial = " and fitted on all of it the baseline may be better" if baseline.part else ""
        return f"{_preposition(baseline.verdict)} {name}; {apart}{partial and ',' + partial}"

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "metric": self.metric,
            "lower_is_better": self.lower_is_better,
            "rows": self.rows,
            "count": self.count,
            **self.model.values("model"),
            "systems": [baseline.values() for baseline in self.baselines],
            "left_out": {**self.left_out},
        }


def _preposition(verdict: Verdict) -> str:
    return "not distinguishable from" if verdict == "not distinguishable" else f"{verdict} than"


def compared(
    name: str,
    model: RowStatistics,
    baseline: RowStatistics,
    *,
    lower_is_better: bool,
    part: str = "",
    exact: bool = False,
) -> ComparedBaseline:
    """A baseline compared with the model by the paired test, on the same rows. An `exact` score has no sampling
    error and no interval."""
    result = difference([model], [baseline])
    if exact:
        verdict = result.verdict(lower_is_better=lower_is_better)
        return ComparedBaseline(name, Estimate(baseline.value), verdict, result, part)
    return ComparedBaseline(name, estimate([baseline]), result.verdict(lower_is_better=lower_is_better), result, part)


def compared_with_number(
    name: str, value: float, model: Estimate, *, lower_is_better: bool, part: str = ""
) -> ComparedBaseline:
    """A baseline that has one number for all rows together: whether it lies outside the model's interval."""
    low = model.low if model.low is not None else float("-inf")
    high = model.high if model.high is not None else float("inf")
    verdict: Verdict = "not distinguishable"
    if not low <= value <= high:
        verdict = "better" if (value > high) == lower_is_better else "worse"
    return ComparedBaseline(name, Estimate(value), verdict, None, part)

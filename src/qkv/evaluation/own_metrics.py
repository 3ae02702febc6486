"""Metrics of the user's own: functions, given in Python or in a file, that return a number.

    def wordiness(model): ...         takes the model, of any task
    def kappa(true, predicted): ...   takes lists of labels, of tags by sentence, of numbers or of translations

They are logged and reported; the best model is chosen by the task's own score.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

import torch

from qkv import own_files
from qkv.blocks.fast_paths import evaluating
from qkv.data.examples import Examples, TagExamples
from qkv.errors import InputError, RefusedError
from qkv.evaluation.classification_metrics import LABEL_THRESHOLD, MultilabelScore
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.regression import NumberScore
from qkv.evaluation.translation_metrics import Outputs
from qkv.own_files import OwnFile

GROUP = "qkv.metrics"
Metric = Callable[..., float]
SEPARATOR = " sha256:"  # between name and hash, as a recipe has them


@dataclass(frozen=True)
class OwnMetrics:
    """Metrics by name. Metrics of models take what `open_model` makes of a bundle."""

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    source: OwnFile | None = None
    open_model: Callable[[Any], Any] = lambda bundle: bundle

    def __post_init__(self) -> None:
        for name, metric in self.metrics.items():
            if argument_count(metric) not in (1, 2):
                raise InputError(f"metric {name!r}: expected a function of the model, or of (true, predicted).")

    @property
    def record(self) -> str:
        """The file and its hash, as a recipe stores them; empty for metrics given in Python."""
        return "" if self.source is None else f"{self.source.name}{SEPARATOR}{self.source.sha256}"

    def of_model(self, bundle: Any) -> dict[str, float]:
        chosen = {name: metric for name, metric in self.metrics.items() if argument_count(metric) == 1}
        if not chosen:
            return {}
        model = self.open_model(bundle)
        with torch.random.fork_rng(), evaluating(bundle.model):  # their random numbers do not change those of the run
            return {name: _number(name, metric(model)) for name, metric in chosen.items()}

    def of_predictions(self, true: list[Any], predicted: list[Any]) -> dict[str, float]:
        chosen = {name: metric for name, metric in self.metrics.items() if argument_count(metric) == 2}
        with torch.random.fork_rng(enabled=bool(chosen)):
            return {name: _number(name, metric(true, predicted)) for name, metric in chosen.items()}

    def added_to(self, score: LabelledScore, examples: Examples) -> LabelledScore:
        """The score of these examples with the metrics of predictions."""
        return replace(score, own=self.of_predictions(*true_and_predicted(score, examples))) if self.metrics else score

    def of_outputs(self, outputs: Outputs) -> dict[str, float]:
        """The metrics of translations, compared with the first reference of each source."""
        return self.of_predictions([references[0] for references in outputs.references], list(outputs.translations))

    def refuse_prediction_metrics(self, kind: str) -> None:
        """Refuse metrics that take (true, predicted), for a task that does not have them."""
        for name, metric in self.metrics.items():
            if argument_count(metric) == 2:
                raise InputError(
                    f"metric {name!r}: takes (true, predicted), which {kind} does not give. Expected a function of "
                    "the model."
                )


def load(name: str | Path) -> OwnMetrics:
    """The functions that the user's file defines, except those that begin with _; or the metric of a package."""
    if not str(name).endswith(".py") and (provided := own_files.load_plugin(GROUP, str(name))) is not None:
        assert callable(provided)
        return OwnMetrics({str(name): provided}, own_files.source_of(provided))
    source = own_files.execute(name, "metrics")
    module = source.module
    assert module is not None
    functions = {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    }
    if not functions:
        raise InputError(f"{source.file}: no metrics. Expected functions of the model, or of (true, predicted).")
    return OwnMetrics(functions, source)


def require(own: OwnMetrics, record: str, where: str) -> None:
    """Refuse to resume a run with metrics other than those it was started with."""
    if not record:
        return
    name, separator, digest = record.partition(SEPARATOR)
    if not separator:
        raise RefusedError(f"{where}: training.metrics = {record!r:.80} does not fit; expected a file and its sha256.")
    own_files.require_same(own.source, {"file": name, "sha256": digest}, where, "metrics", "metric")


def argument_count(metric: Metric) -> int:
    """The number of arguments that a metric requires."""
    try:
        parameters = inspect.signature(metric).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"metric {name!r} returned {value!r:.80}; expected a number.") from None


def true_and_predicted(score: LabelledScore, examples: Examples) -> tuple[list[Any], list[Any]]:
    """The true and predicted values: for each example a label, several labels, a number, or the tags of a sentence."""
    names, targets, predictions = examples.labels.names, examples.targets, score.predictions
    if isinstance(score.score, NumberScore):
        return targets.astype(float).tolist(), predictions[:, 0].astype(float).tolist()
    if isinstance(score.score, MultilabelScore):
        tables = targets > 0, predictions > LABEL_THRESHOLD
        several = [[tuple(compress(names, row)) for row in table] for table in tables]
        return several[0], several[1]
    predicted = predictions.argmax(-1) if score.chosen is None else score.chosen
    labels = [[names[number] for number in numbers.tolist()] for numbers in (targets, predicted)]
    if not isinstance(examples, TagExamples):
        return labels[0], labels[1]
    boundaries = [0, *examples.lengths.cumsum().tolist()]
    sentences = [[tags[begin:end] for begin, end in pairwise(boundaries)] for tags in labels]
    return sentences[0], sentences[1]

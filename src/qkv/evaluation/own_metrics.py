"""Metrics of one's own: functions, given in Python or in a file, which report a number.

    def wordiness(model): ...         of the model, whatever it does
    def kappa(true, predicted): ...   of the answers to examples: labels, tags by sentence, numbers; of
    translations

They are logged and reported; what is best is decided by the task's own score.
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
from qkv.evaluation.classification_metrics import MultilabelScore
from qkv.evaluation.decisions import SURE
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.regression import NumberScore
from qkv.evaluation.translation_metrics import Outputs
from qkv.own_files import OwnFile

GROUP = "qkv.metrics"
Metric = Callable[..., float]
SEPARATOR = " sha256:"  # between name and hash, as a recipe has them


@dataclass(frozen=True)
class OwnMetrics:
    """Metrics by name. Those of models are given a loaded model by `opened`, which whoever starts a run supplies."""

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    source: OwnFile | None = None
    opened: Callable[[Any], Any] = lambda bundle: bundle

    def __post_init__(self) -> None:
        for name, metric in self.metrics.items():
            if takes(metric) not in (1, 2):
                raise InputError(f"metric {name!r}: expected a function of the model, or of (true, predicted).")

    @property
    def record(self) -> str:
        """As a recipe keeps the file; nothing where they were made in Python."""
        return "" if self.source is None else f"{self.source.name}{SEPARATOR}{self.source.sha256}"

    def of_model(self, bundle: Any) -> dict[str, float]:
        chosen = {name: metric for name, metric in self.metrics.items() if takes(metric) == 1}
        if not chosen:
            return {}
        model = self.opened(bundle)
        with torch.random.fork_rng(), evaluating(bundle.model):  # what they draw does not move the run
            return {name: _number(name, metric(model)) for name, metric in chosen.items()}

    def of_answers(self, true: list[Any], predicted: list[Any]) -> dict[str, float]:
        chosen = {name: metric for name, metric in self.metrics.items() if takes(metric) == 2}
        with torch.random.fork_rng(enabled=bool(chosen)):
            return {name: _number(name, metric(true, predicted)) for name, metric in chosen.items()}

    def added_to(self, score: LabelledScore, examples: Examples) -> LabelledScore:
        """The score with the metrics of answers to these examples."""
        return replace(score, own=self.of_answers(*true_and_said(score, examples))) if self.metrics else score

    def of_outputs(self, outputs: Outputs) -> dict[str, float]:
        """Of translations, and of the first reference of each source."""
        return self.of_answers([references[0] for references in outputs.references], list(outputs.translations))

    def refuse_answers(self, kind: str) -> None:
        """Refuse metrics of answers, where the task has none."""
        for name, metric in self.metrics.items():
            if takes(metric) == 2:
                raise InputError(
                    f"metric {name!r}: takes (true, predicted), and {kind} gives no such answers. Expected a function "
                    "of the model."
                )


def load(name: str | Path) -> OwnMetrics:
    """All functions that a file of the user's defines, except those that begin with _; or the metric of a package."""
    if not str(name).endswith(".py") and (announced := own_files.load_plugin(GROUP, str(name))) is not None:
        assert callable(announced)
        return OwnMetrics({str(name): announced}, own_files.source_of(announced))
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
    """See that a run goes on with the metrics that it was started with."""
    if not record:
        return
    name, separator, digest = record.partition(SEPARATOR)
    if not separator:
        raise RefusedError(f"{where}: training.metrics = {record!r:.80} does not fit; expected a file and its sha256.")
    own_files.require_same(own.source, {"file": name, "sha256": digest}, where, "metrics", "metric")


def takes(metric: Metric) -> int:
    """How many values a metric asks for."""
    try:
        parameters = inspect.signature(metric).parameters.values()
    except (TypeError, ValueError):
        return 0
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in places and parameter.default is inspect.Parameter.empty for parameter in parameters)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"metric {name!r} returned {value!r:.80}; expected a number.") from None


def true_and_said(score: LabelledScore, examples: Examples) -> tuple[list[Any], list[Any]]:
    """What is right and what was answered: for each example a label, several, a number, or the tags of a sentence."""
    names, targets, answers = examples.labels.names, examples.targets, score.answers
    if isinstance(score.score, NumberScore):
        return targets.astype(float).tolist(), answers[:, 0].astype(float).tolist()
    if isinstance(score.score, MultilabelScore):
        several = [[tuple(compress(names, row)) for row in table] for table in (targets > 0, answers > SURE)]
        return several[0], several[1]
    said = answers.argmax(-1) if score.chosen is None else score.chosen
    labels = [[names[number] for number in numbers.tolist()] for numbers in (targets, said)]
    if not isinstance(examples, TagExamples):
        return labels[0], labels[1]
    borders = [0, *examples.lengths.cumsum().tolist()]
    sentences = [[tags[begin:end] for begin, end in pairwise(borders)] for tags in labels]
    return sentences[0], sentences[1]

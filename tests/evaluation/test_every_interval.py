"""Every interval of every metric, on the smallest and the most uniform data: wide enough to be believed.

The cases come from the tables of metrics, so that a new metric is tested as soon as it has its line there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from qkv.data.tokens import TokenStream
from qkv.evaluation import perplexity
from qkv.evaluation.class_metrics import METRICS
from qkv.evaluation.classification_metrics import class_score, multilabel_score
from qkv.evaluation.intervals import interval_text
from qkv.evaluation.regression import number_score
from qkv.evaluation.spans import span_score
from qkv.evaluation.translation_metrics import OUTPUTS

ROWS = (1, 2, 3, 10, 500)


def classes(right: bool, rows: int) -> Mapping[str, Any]:
    targets = np.arange(rows) % 2
    answers = np.eye(2)[targets if right else 1 - targets]
    return class_score(answers, targets, ["a", "b"]).values()


def labels(right: bool, rows: int) -> Mapping[str, Any]:
    targets = np.eye(3, dtype=bool)[np.arange(rows) % 3]
    return multilabel_score((targets if right else ~targets).astype(float), targets, ["a", "b", "c"]).values()


def numbers(right: bool, rows: int) -> Mapping[str, Any]:
    y = np.arange(rows, dtype=float) % 7
    return number_score(y if right else -y, y).values()


def same_numbers(right: bool, rows: int) -> Mapping[str, Any]:
    return number_score(np.full(rows, 2.0 if right else 3.0), np.full(rows, 2.0)).values()


def tags(right: bool, rows: int) -> Mapping[str, Any]:
    true = [["B-X", "I-X", "O"]] * rows
    return span_score(true, true if right else [["O", "O", "B-X"]] * rows).values()


def outputs(metric: Any) -> Callable[[bool, int], Mapping[str, Any]]:
    def score(right: bool, rows: int) -> Mapping[str, Any]:
        texts = ["a cat sat on the mat today"] * rows
        wrong = ["nothing of it is here"] * rows
        return OUTPUTS[metric](texts, texts if right else wrong, [(text,) for text in texts]).score().values()

    return score


def text(right: bool, rows: int) -> Mapping[str, Any]:
    counts = np.full(rows, 8)
    stream = TokenStream(np.zeros(8 * rows + 1, np.uint16), bytes=8 * rows, characters=8 * rows, documents=1, unknown=0)
    return perplexity.summary(counts * (0.0 if right else math.log(5)), counts, stream, 5).values()


FAMILIES = {
    "classes": classes, "labels": labels, "numbers": numbers, "same numbers": same_numbers, "tags": tags,
    "text": text, **{name: outputs(name) for name in OUTPUTS},
}  # fmt: skip


def intervals(values: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    for name, value in values.items():
        if f"{name}_low" in values:
            yield name, value, values[f"{name}_low"], values[f"{name}_high"]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_interval_promises_certainty(family: str, right: bool, rows: int) -> None:
    found = list(intervals(FAMILIES[family](right, rows)))
    assert found
    for name, value, low, high in found:
        if value is None or low is None or not math.isfinite(low):
            assert interval_text(low, high) == "", name
            continue
        assert low <= value <= high, name
        for digits in (2, 3, 4):
            ends = interval_text(low, high, digits).split(" to ")
            assert len(set(ends)) == 2, (name, ends)


@pytest.mark.parametrize("rows", [10, 40])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("text", "same numbers")])
def test_a_perfect_score_of_more_rows_is_surer(family: str, rows: int) -> None:
    few, many = (
        {name: high - low for name, _, low, high in intervals(FAMILIES[family](True, each)) if low is not None}
        for each in (rows, 10 * rows)
    )
    assert few
    assert all(many[name] < few[name] for name in few)


def test_every_metric_of_classes_has_an_interval() -> None:
    values = classes(True, 10)
    assert {name for name, _, _, _ in intervals(values)} == {name for name in METRICS if METRICS[name].classes is None}

"""What a classification or tagging run does with its data, and some training examples as the model gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qkv.data.descriptions import PLANNED_EXAMPLES, TrainingPlan
from qkv.data.encode import EncodedRows, decoded
from qkv.data.examples import Examples, ImageExamples, Label, NumberExamples, TagExamples
from qkv.data.prepare_examples import PreparedExamples
from qkv.evaluation.labelled_evaluation import LABELLED_TITLES, main_metric

if TYPE_CHECKING:
    from qkv.tasks.classification.task import ClassificationTask


def training_plan(task: ClassificationTask, model: str) -> TrainingPlan:
    data = task.prepared.labelled
    spread = np.linspace(0, len(data.train) - 1, min(PLANNED_EXAMPLES, len(data.train))).astype(np.int64)
    first = data.train.select(spread)  # the first rows are often of one class
    return TrainingPlan(
        task=data.task,
        model=model,
        unit="examples",
        train=len(data.train),
        valid=len(data.valid),
        test=len(data.test or ()),
        held_out=data.held_out,
        metric=LABELLED_TITLES[main_metric(data.valid, task.problem)],
        max_tokens=task.context,
        examples=tuple(_as_read(task.prepared, first, row, task.context) for row in range(len(first))),
    )


def _as_read(prepared: PreparedExamples, examples: Examples, row: int, context: int) -> dict[str, str]:
    tokenizer = prepared.tokenizer
    match examples:
        case ImageExamples():
            image = examples[row]
            return {"image": " x ".join(map(str, image.values.shape)), "label": label_in_words(image.label)}
        case NumberExamples(columns=columns):
            numbers = zip(columns, examples[row].values.tolist(), strict=True)
            cells = {name: "missing" if value != value else f"{value:g}" for name, value in numbers}
            return {**cells, prepared.labelled.columns["label"]: label_in_words(examples[row].label)}
        case TagExamples():
            sentence = examples[row]
            rows = prepared.rows(examples.select(slice(row, row + 1)), context)
            assert isinstance(rows, EncodedRows)
            assert tokenizer is not None
            read = " | ".join(decoded(tokenizer, rows.row(part)) for part in range(len(rows)))
            tagged = zip(sentence.words, sentence.tags, strict=True)
            return {"text": read, "tags": " ".join(f"{word}/{tag}" for word, tag in tagged if tag != "O") or "all O"}
    rows = prepared.rows(examples.select(slice(row, row + 1)), context)
    assert isinstance(rows, EncodedRows)
    assert tokenizer is not None
    ids, label = rows.row(0), {"label": label_in_words(examples[row].label)}
    if rows.second_starts is None:
        return {"text": decoded(tokenizer, ids), **label}
    begin = int(rows.second_starts[0])
    texts = {"text": ids[:begin], "second text": ids[begin:]}
    return {name: decoded(tokenizer, part) for name, part in texts.items()} | label


def label_in_words(label: Label) -> str:
    if isinstance(label, tuple):
        return ", ".join(label) or "none"
    return f"{label:g}" if isinstance(label, float) else label

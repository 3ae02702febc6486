"""Runs classifiers and taggers on held-out examples within a time limit, on new files, and on the rows of a table.

The columns and labels of new files are matched to those of the training data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.data.columns import guess_texts, without_level
from qkv.data.corpus import ExamplesConfig, refuse_unused
from qkv.data.detect_pairs import is_parallel
from qkv.data.example_files import find_examples
from qkv.data.examples import Examples, ImageExamples, Labelled, NumberExamples, TagExamples, TextExamples
from qkv.data.files.unpack import Source as FileSource
from qkv.data.findings import Caution, Findings, Leak, Progress, TaskNote, no_progress
from qkv.data.formats.kinds import FilePreviews, kind_by_name
from qkv.data.formats.tabular import Table, open_table
from qkv.data.hold_out import require_scorable
from qkv.data.label_names import numbers_in
from qkv.data.labels import format_names
from qkv.data.number_tables import parse_cell, read_number_rows
from qkv.data.prepare_examples import rows_of
from qkv.data.read_examples import read_examples
from qkv.data.unusable_labels import most_left_out
from qkv.errors import DataError, InputError, QkvError
from qkv.evaluation.decisions import Autocast, predict
from qkv.evaluation.labelled_evaluation import LabelledScore, evaluate_labelled, score_examples
from qkv.evaluation.timed_scoring import Pace
from qkv.models.registry import LABELLED_MODELS, input_of
from qkv.objectives.classification import Problem
from qkv.objectives.objective import Source
from qkv.recipe.bundle import Bundle
from qkv.tasks.leaks import training_rows_among
from qkv.tasks.registry import training_recipe
from qkv.tasks.text_column import require_no_bad_row, rows_of_texts

FIRST_PORTION = 16  # examples that are scored first, to measure the speed where time is limited

MAX_EVALUATED, MIN_EVALUATED = 4096, 256  # examples of an evaluation during a run
MAX_EVALUATIONS, MIN_EVALUATIONS = 12, 3  # during a run


def plan_evaluations(valid: int, affordable: float) -> tuple[int, int]:
    """The number of evaluations in a run and the examples in each, where all together there is time for `affordable`
    examples."""
    number = int(max(MIN_EVALUATIONS, min(MAX_EVALUATIONS, affordable / min(valid, MAX_EVALUATED))))
    size = int(min(valid, max(MIN_EVALUATED, min(MAX_EVALUATED, affordable / number))))
    if number * size > affordable:  # too little time: first fewer evaluations, then fewer examples in each
        number = int(max(1, min(number, affordable / size)))
        size = int(min(size, max(FIRST_PORTION, affordable)))
    return number, size


def score_in_time(
    model: nn.Module,
    examples: Examples,
    rows_of: Callable[[Examples], Source],
    problem: Problem,
    autocast: Autocast,
    pace: Pace,
) -> tuple[LabelledScore, Examples]:
    """The score on as many examples as `pace` has time for, and these examples in their original order."""
    count, done = len(examples), 0
    order = pace.order(count)
    predictions_by_index: dict[int, NDArray[np.float32]] = {}
    chosen_by_index: dict[int, NDArray[np.int64]] = {}
    for begin, end in pace.portions(count, FIRST_PORTION):
        indices = np.sort(order[begin:end])
        portion = examples.select(indices)
        predictions = predict(model, rows_of(portion), problem, autocast, on_progress=pace.row_counter(begin, count))
        lengths = portion.lengths if isinstance(portion, TagExamples) else np.ones(len(portion), dtype=np.int64)
        boundaries = np.cumsum(lengths)[:-1]
        predictions_by_index |= zip(indices.tolist(), np.split(predictions.values, boundaries), strict=True)
        if predictions.chosen is not None:
            chosen_by_index |= zip(indices.tolist(), np.split(predictions.chosen, boundaries), strict=True)
        done = end
    scored = examples.select(np.sort(order[:done]))
    in_order = np.concatenate([predictions_by_index[index] for index in sorted(predictions_by_index)])
    chosen = np.concatenate([chosen_by_index[index] for index in sorted(chosen_by_index)]) if chosen_by_index else None
    return score_examples(in_order, scored, problem, chosen), scored


COLUMN_ROLES = ("text", "text2", "label")
TASK_BY_PROBLEM = {"single": "classification", "multi": "multi-label", "regression": "regression"}


def evaluate_files(
    bundle: Bundle, config: ExamplesConfig, progress: Progress = no_progress
) -> tuple[LabelledScore, Examples, list[str]]:
    """The score on the examples of files, the examples, and notes."""
    examples, notes = read_for_model(bundle, config, progress)
    notes = [*training_rows_among(bundle, examples), *notes]
    model = bundle.model
    problem: Problem = getattr(bundle.config, "problem", "single")
    assert isinstance(model, nn.Module)
    if isinstance(examples, ImageExamples | NumberExamples):
        on_progress = Pace(progress=progress, stage="scoring rows").row_counter(0, len(examples))
        return evaluate_labelled(model, examples.values, examples, problem, on_progress=on_progress), examples, notes
    rows = rows_of(bundle.tokenizer, examples, bundle.config.context)
    on_progress = Pace(progress=progress, stage="scoring rows").row_counter(0, len(rows))
    score = evaluate_labelled(model, rows, examples, problem, on_progress=on_progress)
    return score, examples, [*notes, *rows.notes("texts", bundle.config.context)]


def read_for_model(bundle: Bundle, config: ExamplesConfig, progress: Progress) -> tuple[Examples, list[str]]:
    """All examples of the files, with the model's class numbers for their labels; and notes.

    Examples with labels that the model does not know are left out; more than `most_left_out` are refused.
    """
    model: Any = bundle.config
    if model.kind not in LABELLED_MODELS:
        raise InputError(f"this model is of kind {model.kind}; labelled examples are for a classifier or a tagger.")
    previews = FilePreviews(config.encoding)
    _refuse_parallel_text(model.kind, config, previews)
    model_input = input_of(model)
    if model_input == "numbers":
        refuse_unused(config, ("text", "text2", "id"), "the model reads rows of numbers")
        config = replace(
            config, columns=model.columns, label=config.label or model.target or None, text=None, text2=None
        )
    elif model.kind == "classifier" and model_input == "text":
        config = replace(config, **_training_columns_of_files(bundle, config, previews))
    if model.kind == "tagger":
        task = "tagging"
    else:
        task = "images" if model_input == "images" else TASK_BY_PROBLEM[model.problem]
    if config.task not in (None, task):
        refuse_unused(config, ("task",), f"this model was trained for {task}")
    if model.kind != "tagger":
        config = replace(config, task=task)  # type: ignore[arg-type]
    data = read_examples(config, progress, purpose="evaluate", previews=previews)
    require_scorable(data.train, config.files[0])
    if (data.task == "tagging") != (model.kind == "tagger"):
        wanted = "words with tags, as CoNLL" if model.kind == "tagger" else "a label for each example"
        raise InputError(f"these files are for {data.task}; the model is a {model.kind}: give it {wanted}.")
    if data.numeric != (model_input == "numbers"):
        content, remedy = "no table of numbers", "Give rows of the columns it learned from."
        if data.numeric:
            content, remedy = "rows of numbers", "Name the column of the text with --text."
        raise InputError(f"{config.files[0]}: holds {content}; the model is a {model.kind}. {remedy}")
    if data.pairs != (getattr(model, "texts", 1) == 2):
        wanted = "one text: name it by --text" if data.pairs else "pairs of texts: name both with --text and --text2"
        raise InputError(f"{config.files[0]}: the model classifies {wanted}.")
    notes = [note for note in data.notes if not isinstance(note, Leak | TaskNote)]
    if data.task == "regression":
        return data.train, notes
    return _match_labels(data, model.labels, notes)


def _refuse_parallel_text(kind: str, config: ExamplesConfig, previews: FilePreviews) -> None:
    if len(config.files) > 1 and config.label is None and is_parallel(config.files, previews):
        wanted = "words with tags, as CoNLL" if kind == "tagger" else "a table with a label in each row"
        raise InputError(
            f"{config.files[0]} and {config.files[1]}: look like a text and its translation, without labels; the model "
            f"is a {kind}. Give it {wanted}; pairs of texts are for a translator."
        )


def _training_columns_of_files(bundle: Bundle, config: ExamplesConfig, previews: FilePreviews) -> dict[str, Any]:
    """The columns that the model was trained on, if no others are given and the files have them."""
    try:
        first = find_examples(config, Findings(), previews=previews).train[0]
        columns = previews.table(first.source).columns if first.kind == "table" else []
    except QkvError:  # reported when the files are read
        return {}
    if any(getattr(config, role) is not None for role in COLUMN_ROLES):
        return {}
    trained = training_columns(bundle, columns)
    return trained if trained.get("label") is not None else {}


def training_columns(bundle: Bundle, columns: Sequence[str]) -> dict[str, Any]:
    """The columns of text, second text and label in the model's recipe that are among `columns`; empty if a text
    column is not."""
    recipe = training_recipe(bundle)
    if recipe is None or not isinstance(recipe.corpus, ExamplesConfig):
        return {}
    trained = {role: getattr(recipe.corpus, role) for role in COLUMN_ROLES}
    missing = [name for role, name in trained.items() if name is not None and role != "label" and name not in columns]
    if missing or not trained["text"]:
        return {}
    return {role: name for role, name in trained.items() if {name, without_level(name or "")} & set(columns)}


def training_text(bundle: Bundle) -> list[str]:
    """The column of text that a classifier or tagger was trained on, if it was trained on a table."""
    recipe = training_recipe(bundle)
    text = recipe.corpus.text if recipe is not None and isinstance(recipe.corpus, ExamplesConfig) else None
    return [text] if text else []


def _match_labels(data: Labelled, labels: tuple[str, ...], notes: list[str]) -> tuple[Examples, list[str]]:
    """The examples with the class numbers of `labels`; those with other labels are left out, and noted."""
    numbers = np.array(numbers_in(data.labels.names, labels), dtype=np.int32)
    unknown = [name for name, number in zip(data.labels.names, numbers, strict=True) if number < 0]
    if len(unknown) == len(data.labels):
        named = ",".join(f"{here}={own}" for here, own in zip(unknown[:3], labels, strict=False))
        raise InputError(
            f"none of the labels here ({', '.join(unknown[:5])}) is the model's ({', '.join(labels[:5])}). If they mean"
            f" the same, say which is which, as in --labels {named}."
        )
    label_map = replace(data.labels, names=labels)
    examples: Any = data.train
    if isinstance(examples, TagExamples):
        tags = numbers[examples.all_targets]
        good = np.array([(tags[examples.starts[row] : examples.starts[row + 1]] >= 0).all() for row in examples.rows])
        matched = replace(examples, labels=label_map, all_targets=tags)
    elif examples.all_targets.ndim == 2:
        table = np.zeros((len(examples.all_targets), len(labels)), dtype=bool)
        table[:, numbers[numbers >= 0]] = examples.all_targets[:, numbers >= 0]
        good = ~examples.targets[:, numbers < 0].any(axis=1)
        matched = replace(examples, labels=label_map, all_targets=table)
    else:
        targets = numbers[examples.all_targets]
        good = targets[examples.rows] >= 0
        matched = replace(examples, labels=label_map, all_targets=targets)
    if left_out := int((~good).sum()):
        tagged = isinstance(examples, TagExamples)
        what = "sentences have tags" if tagged else "examples have labels"
        problem = f"{left_out:,} of {len(examples):,} {what} that the model does not know"
        if left_out > most_left_out(tagged) * len(examples):
            raise InputError(
                f"{problem} ({format_names(unknown, 5)}); it knows {format_names(labels)}. A score on the rest would "
                "mislead: give examples with its labels, or name another column with --label."
            )
        notes = [*notes, Caution(f"{problem} ({format_names(unknown, 5)}) and are left out.")]
        matched = replace(matched, rows=examples.rows[good])
    assert isinstance(matched, TextExamples | TagExamples | ImageExamples | NumberExamples)
    return matched, notes


Row = str | tuple[str, str] | list[float]


def table_rows(bundle: Bundle, file: str, findings: Findings, **columns: str | None) -> Iterator[Row] | None:
    """The rows of a table as the model reads them; None for a file with a text, or a pair, in each line.

    `columns` may name the columns `text` and `text2`.
    """
    source = FileSource(Path(file))
    if kind_by_name(source) != "table":
        return None
    config = ExamplesConfig(files=(file,), **columns)  # type: ignore[arg-type]
    data_file = find_examples(config, findings).train[0].source
    number_columns: tuple[str, ...] = getattr(bundle.config, "columns", ())
    known = set(number_columns or columns.values())
    table = open_table(data_file, config.encoding, findings)
    if not known & set(table.columns):  # with few rows a header may not be recognised as one
        with_header = open_table(data_file, config.encoding, findings, header=True)
        if known & set(with_header.columns) or training_columns(bundle, with_header.columns):
            table = with_header
    if input_of(bundle.config) == "numbers":
        return _number_rows(table, number_columns)
    trained: dict[str, Any] = training_columns(bundle, table.columns) if config.text is None else {}
    if source.suffix == ".tsv" and not trained and config.text is None:
        return None
    text, second = guess_texts(table, replace(config, **trained))
    pairs = getattr(bundle.config, "texts", 1) == 2
    if pairs and second is None:
        raise DataError(
            f"{table.where}:1", "this model classifies pairs of texts", "Name both: --text NAME --text2 NAME."
        )
    columns_read = [text, second] if pairs and second else [text]
    return ((row[0], row[1]) if len(row) == 2 else row[0] for row in rows_of_texts(table, columns_read))


def _number_rows(table: Table, columns: Sequence[str]) -> Iterator[list[float]]:
    for line, row in read_number_rows(table, columns):
        require_no_bad_row(table)
        if isinstance(row, str):
            raise DataError(f"{table.where}:{line}", row, "Every row is answered: repair it, or leave the cell empty.")
        yield row
    require_no_bad_row(table)


def parse_numbers(bundle: Bundle, line: str) -> list[float]:
    """A row of numbers that is typed as text: separated by commas, in the order of the model's columns."""
    columns: tuple[str, ...] = getattr(bundle.config, "columns", ())
    numbers = [parse_cell(cell) for cell in line.split(",")]
    if len(numbers) != len(columns) or None in numbers:
        expected = (
            f"{len(columns)} numbers separated by commas: {', '.join(columns[:8])}{' ...' if columns[8:] else ''}"
        )
        raise InputError(f"{line[:60]!r}: this model reads rows of numbers; expected {expected}.")
    return [number for number in numbers if number is not None]

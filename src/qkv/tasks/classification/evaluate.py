"""Classifiers and taggers on examples: on as many as there is time for, on files that they were not trained with
(columns and labels are matched to their own), and on rows of a table, each of which gets an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.data.columns import guess_texts
from qkv.data.corpus import ExamplesConfig, refuse_unused
from qkv.data.detect import is_parallel
from qkv.data.examples import (
    Examples,
    ImageExamples,
    Labelled,
    NumberExamples,
    TagExamples,
    TextExamples,
)
from qkv.data.files.unpack import Source as FileSource
from qkv.data.findings import Caution, Findings, Leak, Progress, TaskNote, no_progress
from qkv.data.formats.kinds import FilePreviews, kind_by_name
from qkv.data.formats.rows import MAX_BAD_SHARE
from qkv.data.formats.tabular import Table, open_table
from qkv.data.labels import format_names
from qkv.data.number_tables import parse_cell, read_number_rows
from qkv.data.prepare_examples import rows_of
from qkv.data.read_examples import read_examples
from qkv.data.split_files import find_examples
from qkv.errors import DataError, InputError, QkvError
from qkv.evaluation.decisions import Autocast, answers
from qkv.evaluation.labelled_evaluation import LabelledScore, evaluate_labelled, score_examples
from qkv.evaluation.timed_scoring import Pace
from qkv.models.registry import LABELLED_MODELS, input_of
from qkv.objectives.classification import Problem
from qkv.objectives.objective import Source
from qkv.recipe.bundle import Bundle
from qkv.tasks.registry import recipe_of

PORTION = 16  # examples that are scored together where time is short

EVALUATED = 4096  # examples of an evaluation during a run
EVALUATIONS, FEWEST_EVALUATIONS = 12, 3
FEWEST = 256  # examples of an evaluation, unless these would take too long


def evaluations(valid: int, share: float) -> tuple[int, int]:
    """How many evaluations a run has, and of how many examples, where there is time for a `share` of them in all."""
    number = int(max(FEWEST_EVALUATIONS, min(EVALUATIONS, share / min(valid, EVALUATED))))
    size = int(min(valid, max(FEWEST, min(EVALUATED, share / number))))
    if number * size > share:  # no time to evaluate often: fewer evaluations, and in the end fewer examples
        number = int(max(1, min(number, share / size)))
        size = int(min(size, max(PORTION, share)))
    return number, size


def some(examples: Examples, numbers: NDArray[np.int64]) -> Examples:
    """These examples of a side."""
    return replace(examples, rows=examples.rows[numbers])


def judged_in_time(
    model: nn.Module,
    examples: Examples,
    rows_of: Callable[[Examples], Source],
    problem: Problem,
    autocast: Autocast,
    pace: Pace,
) -> tuple[LabelledScore, Examples]:
    """The score, and the examples that it is of, in their own order."""
    order, done = pace.order(len(examples)), 0
    parts: dict[int, NDArray[np.float32]] = {}  # answers to each example
    for begin, end in pace.portions(len(examples), PORTION):
        numbers = np.sort(order[begin:end])
        part = some(examples, numbers)
        own = answers(model, rows_of(part), problem, autocast, watch=pace.watch(begin, len(examples)))
        lengths = part.lengths if isinstance(part, TagExamples) else np.ones(len(part), dtype=np.int64)
        parts |= zip(numbers.tolist(), np.split(own, np.cumsum(lengths)[:-1]), strict=True)
        done = end
    scored = some(examples, np.sort(order[:done]))
    return score_examples(np.concatenate([parts[number] for number in sorted(parts)]), scored, problem), scored


ROLES = ("text", "text2", "label")
TASKS = {"single": "classification", "multi": "multi-label", "regression": "regression"}


def judged_examples(
    bundle: Bundle, config: ExamplesConfig, progress: Progress = no_progress
) -> tuple[LabelledScore, Examples, list[str]]:
    examples, notes = examples_for(bundle, config)
    model = bundle.model
    assert isinstance(model, nn.Module)
    if isinstance(examples, ImageExamples):
        watch = Pace(progress=progress).watch(0, len(examples))
        return evaluate_labelled(model, examples.values, examples, "single", watch=watch), examples, notes
    if isinstance(examples, NumberExamples):
        return evaluate_labelled(model, examples.values, examples, model_problem(bundle)), examples, notes
    rows = rows_of(bundle.tokenizer, examples, bundle.config.context)
    watch = Pace(progress=progress, stage="scoring rows").watch(0, len(rows))
    judgement = evaluate_labelled(model, rows, examples, model_problem(bundle), watch=watch)
    return judgement, examples, [*notes, *rows.notes("texts", bundle.config.context)]


def model_problem(bundle: Bundle) -> Problem:
    return getattr(bundle.config, "problem", "single")


def examples_for(bundle: Bundle, config: ExamplesConfig) -> tuple[Examples, list[str]]:
    """All examples of the files, with the model's own numbers for their labels. Up to one in a hundred may have
    labels that it does not know and is left out; more are refused."""
    model: Any = bundle.config
    if model.kind not in LABELLED_MODELS:
        raise InputError(
            f"this model is of kind {model.kind}; labelled examples are for a classifier or a tagger. "
            "Train one: qkv train FILE."
        )
    previews = FilePreviews(config.encoding)
    _require_labels(model.kind, config, previews)
    reads = input_of(model)
    if reads == "numbers":
        refuse_unused(config, ("text", "text2"), "the model reads rows of numbers")
        config = replace(
            config, columns=model.columns, label=config.label or model.target or None, text=None, text2=None
        )
    elif model.kind == "classifier" and reads == "text":
        config = replace(config, **as_learned(bundle, config, previews))
    if config.task is None and model.kind != "tagger":
        config = replace(config, task="images" if reads == "images" else TASKS[model.problem])  # type: ignore[arg-type]
    found = read_examples(config, purpose="evaluate", previews=previews)
    if (found.task == "tagging") != (model.kind == "tagger"):
        wanted = "words with tags, as CoNLL" if model.kind == "tagger" else "a label for each example"
        raise InputError(f"these files are for {found.task}; the model is a {model.kind}: give it {wanted}.")
    if found.numeric != (reads == "numbers"):
        remedy = (
            "Give rows of the columns it learned from."
            if reads == "numbers"
            else "Name the column of the text with --text."
        )
        holds = "rows of numbers" if found.numeric else "no table of numbers"
        raise InputError(f"{config.files[0]}: holds {holds}; the model is a {model.kind}. {remedy}")
    if found.pairs != (getattr(model, "texts", 1) == 2):
        wanted = (
            "pairs of texts: name both with --text and --text2" if not found.pairs else "one text: name it by --text"
        )
        raise InputError(f"{config.files[0]}: the model classifies {wanted}.")
    notes = [note for note in found.notes if not isinstance(note, Leak | TaskNote)]
    if found.task == "regression":
        return found.train, notes
    return _matched(found, model.labels, notes)


def _require_labels(kind: str, config: ExamplesConfig, previews: FilePreviews) -> None:
    """Refuse parallel text, which is for translators."""
    if len(config.files) > 1 and config.label is None and is_parallel(config.files, previews):
        wanted = "words with tags, as CoNLL" if kind == "tagger" else "a table with a label in each row"
        raise InputError(
            f"{config.files[0]} and {config.files[1]}: look like a text and its translation, without labels; the model "
            f"is a {kind}. Give it {wanted}; pairs of texts are for a translator."
        )


def as_learned(bundle: Bundle, config: ExamplesConfig, previews: FilePreviews) -> dict[str, Any]:
    """The columns that the model's run learned from, where no others are given and the files have them."""
    try:
        first = find_examples(config, Findings(), previews=previews).train[0]
        there = previews.table(first.source).columns if first.kind == "table" else []
    except QkvError:  # it is reported where it is read
        return {}
    if any(getattr(config, role) is not None for role in ROLES):
        return {}
    learned = learned_columns(bundle, there)
    return learned if learned.get("label") in there else {}


def learned_columns(bundle: Bundle, there: Sequence[str]) -> dict[str, Any]:
    """Text, second text and label as the run's recipe has them; nothing where a text is not among those there."""
    recipe = recipe_of(bundle)
    if recipe is None or not isinstance(recipe.corpus, ExamplesConfig):
        return {}
    found = {role: getattr(recipe.corpus, role) for role in ROLES}
    missing = [name for role, name in found.items() if name is not None and role != "label" and name not in there]
    return {} if missing or not found["text"] else {role: name for role, name in found.items() if name in there}


def _matched(found: Labelled, labels: tuple[str, ...], notes: list[str]) -> tuple[Examples, list[str]]:
    known = {name: number for number, name in enumerate(labels)}
    unknown = [name for name in found.labels.names if name not in known]
    if len(unknown) == len(found.labels):
        raise InputError(
            f"none of the labels here ({', '.join(unknown[:5])}) is the model's ({', '.join(labels[:5])})."
        )
    numbers = np.array([known.get(name, -1) for name in found.labels.names], dtype=np.int32)
    own = replace(found.labels, names=labels)
    examples: Any = found.train
    if isinstance(examples, TagExamples):
        tags = numbers[examples.all_targets]
        good = np.array([(tags[examples.starts[row] : examples.starts[row + 1]] >= 0).all() for row in examples.rows])
        matched = replace(examples, labels=own, all_targets=tags)
    elif examples.all_targets.ndim == 2:
        table = np.zeros((len(examples.all_targets), len(labels)), dtype=bool)
        table[:, numbers[numbers >= 0]] = examples.all_targets[:, numbers >= 0]
        good = ~examples.targets[:, numbers < 0].any(axis=1)
        matched = replace(examples, labels=own, all_targets=table)
    else:
        targets = numbers[examples.all_targets]
        good = targets[examples.rows] >= 0
        matched = replace(examples, labels=own, all_targets=targets)
    if left := int((~good).sum()):
        what = f"{left:,} of {len(examples):,} examples have labels that the model does not know"
        if left > MAX_BAD_SHARE * len(examples):
            raise InputError(
                f"{what} ({format_names(unknown, 5)}); it knows {format_names(labels)}. A score on the rest would "
                "mislead: give examples with its labels, or name another column with --label."
            )
        notes = [*notes, Caution(f"{what} ({format_names(unknown, 5)}) and are left out.")]
        matched = replace(matched, rows=examples.rows[good])
    assert isinstance(matched, TextExamples | TagExamples | ImageExamples | NumberExamples)
    return matched, notes


Row = str | tuple[str, str] | list[float]


def rows_in(bundle: Bundle, file: str, findings: Findings, **columns: str | None) -> Iterator[Row] | None:
    """The rows of a table; None for a file whose lines are the texts. `columns`: text, text2, where they are given."""
    source = FileSource(Path(file))
    if kind_by_name(source) != "table":
        return None
    config = ExamplesConfig(files=(file,), **columns)  # type: ignore[arg-type]
    found, known = (
        find_examples(config, findings).train[0].source,
        getattr(bundle.config, "columns", ()) or columns.values(),
    )
    table = open_table(found, config.encoding, findings)
    if not set(known) & set(table.columns):  # a header above few rows cannot be recognised
        named = open_table(found, config.encoding, findings, header=True)
        table = named if set(known) & set(named.columns) or learned_columns(bundle, named.columns) else table
    if input_of(bundle.config) == "numbers":
        return _numbers(table, getattr(bundle.config, "columns", ()))
    learned: dict[str, Any] = learned_columns(bundle, table.columns) if config.text is None else {}
    if source.suffix == ".tsv" and not learned and config.text is None:
        return None  # texts, or pairs of texts, with a tab between
    text, second = guess_texts(table, replace(config, **learned))
    pairs = getattr(bundle.config, "texts", 1) == 2
    if pairs and second is None:
        raise DataError(
            f"{table.where}:1", "this model classifies pairs of texts", "Name both: --text NAME --text2 NAME."
        )
    return _texts(table, [text, second] if pairs and second else [text])


def _numbers(table: Table, columns: Sequence[str]) -> Iterator[list[float]]:
    for line, row in read_number_rows(table, columns):
        _require_sound(table)
        if isinstance(row, str):
            raise DataError(f"{table.where}:{line}", row, "Every row is answered: repair it, or leave the cell empty.")
        yield row
    _require_sound(table)


def _texts(table: Table, columns: list[str]) -> Iterator[Row]:
    places = [table.columns.index(name) for name in columns]
    for _, row in table.rows:
        _require_sound(table)
        cells = ["" if row[place] is None else str(row[place]) for place in places]
        yield (cells[0], cells[1]) if len(cells) == 2 else cells[0]
    _require_sound(table)


def _require_sound(table: Table) -> None:
    """A row that is left out would shift the answers of all rows behind it."""
    if table.bad_rows.first_bad is not None:
        line, problem = table.bad_rows.first_bad
        raise DataError(f"{table.where}:{line}", problem, "Every row is answered: repair it.")


def typed(bundle: Bundle, line: str) -> list[float]:
    """A row of numbers as people type it: separated by commas, in the order of the columns."""
    columns: tuple[str, ...] = getattr(bundle.config, "columns", ())
    found = [parse_cell(cell) for cell in line.split(",")]
    if len(found) != len(columns) or None in found:
        expected = (
            f"{len(columns)} numbers separated by commas: {', '.join(columns[:8])}{' ...' if columns[8:] else ''}"
        )
        raise InputError(f"{line[:60]!r}: this model reads rows of numbers; expected {expected}.")
    return [each for each in found if each is not None]

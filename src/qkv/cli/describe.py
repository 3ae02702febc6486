"""`qkv data describe`: what text, labelled examples or parallel text contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import get_args

from qkv.cli.options import DEFAULT_SPLIT, Data, SplitOptions, data_config, data_files
from qkv.cli.output import Json, print_json, print_notes, print_sections
from qkv.cli.progress import progress_in_bytes
from qkv.data.descriptions import AnyDescription, Description, ExamplesDescription, PairsDescription, TrainingPlan
from qkv.data.findings import TaskNote, ranked
from qkv.data.pair_columns import directions_in_words
from qkv.errors import InputError
from qkv.ranges import ExampleTask
from qkv.tasks.report import ReportSection, TableSection, lines
from qkv.visible import counted, percent, shortened

CONTENTS = {"text": "plain text", "examples": "labelled examples", "pairs": "parallel text"}
MAX_TABLE_ROWS = 30
RANGE_KEYS = ("lowest", "mean", "highest")
TASK_DESCRIPTIONS = {
    "classification": "one class for each text",
    "regression": "a number for each text",
    "multi-label": "any number of labels for each text",
    "tagging": "a tag for each word",
    "images": "one class for each image",
}


def describe(*data: Data, reading: SplitOptions = DEFAULT_SPLIT, json: Json = False) -> None:
    """Describe what files contain, and what `qkv train` would do with them: the model, what is held out, the metric,
    and the first examples as the model gets them. For text: the counts, and the tokenizer that `auto` would choose.
    For tables, tagged words and images: the task, the columns, the labels with their counts, lengths and copies. For
    parallel text: the languages, the pairs, their lengths and copies."""
    from qkv.data import own_reader
    from qkv.data.detect import CONFIGS, report_deciding_options
    from qkv.tasks import described, detected_as

    verb, given = "data describe", reading.given()
    for_examples = {name: bool(given.get(name)) for name in ("text2", "label", "labels", "id")}
    for_examples["task"] = given.get("task") in get_args(ExampleTask)
    if option := next((name for name, value in for_examples.items() if value and reading.documents), None):
        raise InputError(
            f"--documents {reading.documents} is for plain text, --{option} for labelled examples. Give one."
        )
    corpus = own_reader.through({"files": data_files(data, verb), **given})
    detected = detected_as(corpus)
    reason = f"qkv {verb} reads these files as {CONTENTS[detected.content]}"
    data_config(CONFIGS[detected.content], data, verb, reading, reason)
    with progress_in_bytes() as progress, report_deciding_options({"files": data, **given}):
        description = described.describe(corpus, progress, detected)
    if json:
        return print_json({"data": list(data), **description.values()})
    print_notes(*(note for note in ranked(description.notes) if not isinstance(note, TaskNote)))
    return print_sections(*_sections(description, ", ".join(data)), *plan_sections(description))


def _sections(description: AnyDescription, title: str) -> list[ReportSection]:
    if isinstance(description, PairsDescription):
        return _pairs_sections(description, title)
    if isinstance(description, ExamplesDescription):
        return _examples_sections(description, title)
    return _text_sections(description, title)


def plan_sections(description: AnyDescription) -> list[ReportSection]:
    """What a run would do with the data, and the first examples as the model gets them; or why it is refused."""
    if description.plan is None:
        return [lines("", f"qkv train refuses these data: {description.refusal}")]
    return plan_lines(description.plan)


def plan_lines(plan: TrainingPlan) -> list[ReportSection]:
    cut = f", at most {plan.max_tokens:,} tokens of a text" if plan.max_tokens else ""
    shown = [f"  {'  |  '.join(_cells(example))}" for example in plan.examples]
    return [
        lines("", plan.sentence),
        lines("", f"{counted(len(shown), 'example')} as the model gets them{cut}:", *shown),
    ]


def _raw(description: AnyDescription, title: str, beginning: list[str]) -> list[ReportSection]:
    """The beginning of the data as it is in the files, if no model can be trained on it."""
    return [lines("", title, *beginning)] if description.plan is None else []


def _cells(example: Mapping[str, str]) -> list[str]:
    named = len(example) > 3 or "image" in example  # columns of numbers need their names
    return [f"{key} {value}" if named and key != "label" else shortened(value) for key, value in example.items()]


def _facts_table(title: str, rows: list[tuple[str, str]]) -> TableSection:
    return TableSection(title, ("what", "value"), rows, words=("value",))


def _text_sections(description: Description, title: str) -> list[ReportSection]:
    values = description.values()
    counts = [(name.replace("_", " "), f"{value:,}") for name, value in values.items() if isinstance(value, int)]
    tokenizer = description.tokenizer
    size = f", {tokenizer['size']:,} tokens" if "size" in tokenizer else ""
    rows = [("kind", description.kind), *counts, ("tokenizer (auto)", f"{tokenizer['kind']}{size}")]
    return [
        TableSection(title, ("what", "value"), rows),
        *_raw(description, "begins:", description.beginning.split("\n")),
    ]


def _pairs_sections(description: PairsDescription, title: str) -> list[ReportSection]:
    directions = directions_in_words(description.directions, description.columns)
    rows = [("task", f"translation: {directions}")]
    rows += [(role, f"column {column!r}") for role, column in description.columns.items()]
    rows += [(f"{split} pairs", f"{count:,}") for split, count in description.splits.items()]
    of_train = " (train)" if len(description.splits) > 1 else ""
    for side, lengths in description.lengths.items():
        rows.append(
            (f"characters, {side}{of_train}", ", ".join(f"{name} {value:,}" for name, value in lengths.items()))
        )
    rows.append(("copies", _copies_in_words(description)))
    pairs = [f"  {pair['source']}  |  {pair['target']}" for pair in description.beginning]
    return [_facts_table(title, rows), *_raw(description, "for example:", pairs)]


def _examples_sections(description: ExamplesDescription, title: str) -> list[ReportSection]:
    sections: list[ReportSection] = [_facts_table(title, _examples_facts(description))]
    if description.ranges:
        sections += [lines(""), *_range_table(description)]
    if description.labels:
        sections += [lines(""), *_label_table(description)]
    examples = [
        "  " + "  |  ".join(_one_line(value) for key, value in example.items() if key != "shape")
        for example in description.beginning
    ]
    return [*sections, *_raw(description, "for example:", examples)]


def _examples_facts(description: ExamplesDescription) -> list[tuple[str, str]]:
    unit = "each pair of texts" if description.pairs else "each row of numbers" if description.ranges else "each text"
    rows = [("task", f"{description.task}: {TASK_DESCRIPTIONS[description.task].replace('each text', unit)}")]
    rows += [(role, f"column {column!r}") for role, column in description.columns.items()]
    splits = description.splits
    rows += [(f"{split} examples" if len(splits) > 1 else "examples", f"{count:,}") for split, count in splits.items()]
    of_train = " (train)" if len(splits) > 1 else ""
    if description.labels:
        rows.append(("labels", f"{len(description.labels):,}"))
    if description.numbers is not None:
        rows.append(
            (f"numbers{of_train}", ", ".join(f"{name} {value:.4g}" for name, value in description.numbers.items()))
        )
    lengths = ", ".join(f"{name} {value:,}" for name, value in description.lengths.items())
    if shape := description.beginning[0].get("shape"):
        lengths = " x ".join(map(str, shape))
    if description.ranges:
        lengths = _kinds_of_columns(description.ranges)
    of_train = of_train if description.unit in ("characters", "words") else ""
    rows.append((f"{description.unit}{of_train}", lengths))
    rows.append(("copies", _copies_in_words(description)))
    return rows


def _copies_in_words(description: ExamplesDescription | PairsDescription) -> str:
    """How many examples of each split repeat others of it."""
    parts = [
        f"{name} {copies:,} ({percent(copies / description.splits[name])})" if copies else f"{name} none"
        for name, copies in description.copies_in_splits.items()
    ]
    return ", ".join(parts) if len(parts) > 1 else parts[0].removeprefix("train ")


def _kinds_of_columns(names: Iterable[str]) -> str:
    """How many columns hold numbers, and how many words: NAME=WORD is a column of 0 and 1 for one word."""
    words = Counter(name.partition("=")[0] for name in names if "=" in name)
    numbers = f"{sum('=' not in name for name in names):,} of numbers"
    return f"{numbers}, {len(words):,} of words ({words.total():,} columns of 0 and 1)" if words else numbers


def _range_table(description: ExamplesDescription) -> list[ReportSection]:
    rows: list[tuple[str, ...]] = []
    for name, values in description.ranges.items():
        limits = (f"{values[key]:.4g}" if key in values else "" for key in RANGE_KEYS)
        rows.append((name, *limits, f"{int(values['missing']):,}"))
    return _shortened_table(("column", *RANGE_KEYS, "missing"), rows, "columns")


def _label_table(description: ExamplesDescription) -> list[ReportSection]:
    total = sum(counts.get("train", 0) for counts in description.labels.values()) or 1
    ordered = sorted(description.labels.items(), key=lambda item: -item[1].get("train", 0))
    splits = tuple(description.splits)
    rows = [
        (label, *(f"{counts.get(split, 0):,}" for split in splits), percent(counts.get("train", 0) / total))
        for label, counts in ordered
    ]
    count_columns = ("examples",) if len(splits) == 1 and description.unit != "words" else splits
    share = "share" if len(splits) == 1 else "share of train"
    return _shortened_table(("label", *count_columns, share), rows, "labels")


def _shortened_table(columns: tuple[str, ...], rows: list[tuple[str, ...]], plural: str) -> list[ReportSection]:
    """The table with at most MAX_TABLE_ROWS rows, and a line that counts the others."""
    table = TableSection("", columns, rows[:MAX_TABLE_ROWS])
    hidden = len(rows) - MAX_TABLE_ROWS
    return [table, lines(f"and {hidden:,} more {plural}")] if hidden > 0 else [table]


def _one_line(value: object) -> str:
    return ", ".join(map(_one_line, value)) if isinstance(value, list) else str(value)

"""`qkv data describe` of labelled files and of parallel text: what was guessed, the labels, the lengths, examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qkv.cli.options import examples, named, pairs
from qkv.cli.output import document, notes, print_answer, table

if TYPE_CHECKING:
    from qkv.data.descriptions import ExamplesDescription
    from qkv.data.detect import Detected

MOST_LABELS = 30
RANGES = ("lowest", "mean", "highest")
_TASKS = {
    "classification": "one class for each text",
    "regression": "a number for each text",
    "multi-label": "any number of labels for each text",
    "tagging": "a tag for each word",
    "images": "one class for each picture",
}


def detected_in(
    data: tuple[str, ...], columns: Mapping[str, Any], documents: str | None, filter: str | None, encoding: str | None
) -> Detected:
    """What the files are described as: just what `qkv train` would take them for."""
    from qkv.data.detect import detect
    from qkv.errors import InputError

    if documents and any(columns.values()):
        option = next(f"--{name}" for name, value in columns.items() if value)
        raise InputError(f"--documents {documents} is for plain text, {option} for labelled examples. Give one.")
    files = named(data, "data describe")
    return detect({"files": files, "documents": documents, "filter": filter, "encoding": encoding, **columns})


def describe_pairs(data: tuple[str, ...], options: Mapping[str, Any], detected: Detected, json: bool) -> None:
    from qkv.cli.progress import reading
    from qkv.data.descriptions import describe_pairs as describe
    from qkv.data.findings import TaskNote

    config = pairs(data, "data describe", **options)
    with reading() as watch:
        description = describe(config, watch, detected.beginnings)
    if json:
        return document({"data": list(data), **description.values()})
    notes(note for note in description.notes if not isinstance(note, TaskNote))  # the table says it
    ways = ", ".join(f"{source} to {target}" for source, target in description.directions)
    rows = [("task", f"translation: {ways}")]
    rows += [(role, f"column {column!r}") for role, column in description.columns.items()]
    rows += [(f"{side} pairs", f"{count:,}") for side, count in description.sides.items()]
    for side, lengths in description.lengths.items():
        rows.append((f"characters, {side}", ", ".join(f"{name} {value:,}" for name, value in lengths.items())))
    rows.append(("copies", f"{description.copies:,}" if description.copies else "none"))
    table(", ".join(data), ("what", "value"), rows, words=("value",))
    print_answer("", "for example:")
    for pair in description.beginning:
        print_answer(f"  {pair['source']}  |  {pair['target']}")
    return None


def describe_examples(data: tuple[str, ...], options: Mapping[str, Any], detected: Detected, json: bool) -> None:
    from qkv.cli.progress import reading
    from qkv.data.descriptions import describe_examples as look
    from qkv.data.findings import TaskNote

    config = examples(data, "data describe", **options)
    with reading() as watch:
        found = look(config, watch, detected.beginnings)
    if json:
        return document({"data": list(data), **found.values()})
    notes(note for note in found.notes if not isinstance(note, TaskNote))  # the table says it
    table(", ".join(data), ("what", "value"), _facts(found), words=("value",))
    if found.ranges:
        print_answer()
        _range_table(found)
    if found.labels:
        print_answer()
        _label_table(found)
    print_answer("", "for example:")
    for example in found.beginning:
        print_answer("  " + "  |  ".join(_shown(value) for key, value in example.items() if key != "shape"))
    return None


def _facts(found: ExamplesDescription) -> list[tuple[str, str]]:
    what = "each pair of texts" if found.pairs else "each row of numbers" if found.ranges else "each text"
    meaning = _TASKS[found.task].replace("each text", what)
    rows = [("task", f"{found.task}: {meaning}")]
    rows += [(role, f"column {column!r}") for role, column in found.columns.items()]
    alone = len(found.sides) == 1
    rows += [("examples" if alone else f"{side} examples", f"{count:,}") for side, count in found.sides.items()]
    if found.labels:
        rows.append(("labels", f"{len(found.labels):,}"))
    if found.numbers is not None:
        rows.append(("numbers", ", ".join(f"{name} {value:.4g}" for name, value in found.numbers.items())))
    lengths = ", ".join(f"{name} {value:,}" for name, value in found.lengths.items())
    if found.task == "images":
        lengths = " x ".join(map(str, found.beginning[0]["shape"]))
    if found.ranges:
        lengths = f"{len(found.ranges):,} of numbers"
    rows.append((found.unit, lengths))
    copies = f"{found.copies:,} ({found.copies / found.sides['train']:.1%})" if found.copies else "none"
    rows.append(("copies", copies))
    return rows


def _range_table(found: ExamplesDescription) -> None:
    rows = [
        (_shown(name), *(f"{each[key]:.4g}" if key in each else "" for key in RANGES), f"{int(each['missing']):,}")
        for name, each in list(found.ranges.items())[:MOST_LABELS]
    ]
    table("", ("column", *RANGES, "missing"), rows)
    if len(found.ranges) > MOST_LABELS:
        print_answer(f"and {len(found.ranges) - MOST_LABELS:,} columns more")


def _label_table(found: ExamplesDescription) -> None:
    total = sum(counts.get("train", 0) for counts in found.labels.values()) or 1
    ordered = sorted(found.labels.items(), key=lambda item: -item[1].get("train", 0))
    rows = [
        (_shown(name), *(f"{counts.get(side, 0):,}" for side in found.sides), f"{counts.get('train', 0) / total:.1%}")
        for name, counts in ordered[:MOST_LABELS]
    ]
    sides = ("examples",) if len(found.sides) == 1 and found.task != "tagging" else found.sides
    table("", ("label", *sides, "share"), rows)
    if len(ordered) > MOST_LABELS:
        print_answer(f"and {len(ordered) - MOST_LABELS:,} labels more")


def _shown(value: Any) -> str:
    """A value of an example on one line."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return str(value)

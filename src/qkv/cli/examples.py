"""`qkv data describe` of labelled files: what was guessed, the labels, the lengths, a few examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qkv.cli.options import examples, named
from qkv.cli.output import document, notes, print_answer, table

if TYPE_CHECKING:
    from qkv.data.labelled.describing import ExamplesDescription

MOST_LABELS = 30
RANGES = ("lowest", "mean", "highest")
_TASKS = {
    "classification": "one class for each text",
    "regression": "a number for each text",
    "multi-label": "any number of labels for each text",
    "tagging": "a tag for each word",
    "images": "one class for each picture",
}


def wanted(
    data: tuple[str, ...], columns: Mapping[str, Any], documents: str | None, filter: str | None, encoding: str | None
) -> bool:
    """Whether the files are to be described as examples: their columns were named, or they plainly are."""
    from qkv.data.labelled.describing import labelled
    from qkv.errors import InputError

    if any(columns.values()):
        if documents:
            option = next(f"--{name}" for name, value in columns.items() if value)
            raise InputError(f"--documents {documents} is for plain text, {option} for labelled examples. Give one.")
        return True
    return not documents and labelled(named(data, "data describe"), encoding or "utf-8", filter)


def describe_examples(data: tuple[str, ...], options: Mapping[str, Any], json: bool) -> None:
    from qkv.cli.progress import reading
    from qkv.data.labelled.describing import describe_examples as look

    config = examples(data, "data describe", **options)
    with reading() as watch:
        found = look(config, watch)
    if json:
        return document({"data": list(data), **found.values()})
    notes(note for note in found.notes if not note.startswith("task: "))  # the table says it
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
    pairs = _TASKS[found.task].replace("each text", what)
    rows = [("task", f"{found.task}: {pairs}")]
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

"""`qkv data`: named data sets, what a file holds, what would go wrong in training, a corpus out of a crawl."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import App

from qkv import ranges
from qkv.cli.clean import clean
from qkv.cli.options import (
    DEFAULT_SPLIT,
    MODEL,
    Data,
    SplitOptions,
    TokenizerName,
    data_files,
    read_config,
    within,
)
from qkv.cli.output import Json, document, notes, print_answer, show
from qkv.cli.progress import reading as bar
from qkv.data.findings import TaskNote
from qkv.errors import InputError, QkvError
from qkv.ranges import ExampleTask
from qkv.tasks.report import ReportSection, TableSection, lines
from qkv.visible import counted

if TYPE_CHECKING:
    from qkv.data.descriptions import Description, ExamplesDescription, PairsDescription

MOST_LABELS = 30
RANGES = ("lowest", "mean", "highest")
_TASKS = {
    "classification": "one class for each text",
    "regression": "a number for each text",
    "multi-label": "any number of labels for each text",
    "tagging": "a tag for each word",
    "images": "one class for each image",
}

app = App(
    name="data",
    help="Named data sets; what a file holds; what would go wrong in training; a corpus out of a crawl.",
    version_flags=[],
    help_format="plaintext",
)
app.command(clean)


@app.command(name="list")
def list_sets(*, json: Json = False) -> None:
    """The named data sets: source, size, checksum, terms, task, and whether they are at hand.

    Sets are looked for in the folders of QKV_DATA, then in the cache; `qkv data get NAME` fetches one.
    """
    from qkv.data import catalog

    sets = [(entry, _at_hand(entry)) for entry in catalog.sets().values()]
    if json:
        return document({"sets": [{**asdict(entry), "bytes": entry.bytes, "at_hand": here} for entry, here in sets]})
    rows: list[tuple[str, ...]] = []
    for entry, here in sets:
        sums = ", ".join(f"{file.sha256[:12]}..." for file in (*entry.train, *entry.valid))
        rows.append((entry.name, _size(entry.bytes), here, f"{entry.task}: {entry.what}"))
        rows.append(("", "", "", f"{entry.terms}; {entry.source}" + (f"; sha256 {sums}" if sums else "")))
    return show(
        TableSection("", ("name", "size", "at hand", "task and terms"), rows, words=("at hand", "task and terms"))
    )


def _at_hand(entry: Any) -> str:
    try:
        return "yes" if entry.at_hand() else "no"
    except QkvError:
        return "damaged"


def _size(count: int | None) -> str:
    if count is None:
        return "built in"
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.0f} kB"


@app.command
def get(name: str, *, json: Json = False) -> None:
    """Make a named data set available and say where it is.

    Args:
        name: A name from `qkv data list`.
    """
    from qkv.data import catalog

    entry = catalog.find(name)
    if entry is None:
        near = difflib.get_close_matches(name, catalog.sets(), 1)
        hint = f"Did you mean {near[0]!r}?" if near else "`qkv data list` names them all."
        raise InputError(f"there is no data set named {name!r}. {hint}")
    with bar() as watch:
        paths = [str(file.obtain(watch)) for file in (*entry.train, *entry.valid)]
    if json:
        return document({"name": name, "files": paths, "built_in": entry.builtin, "terms": entry.terms})
    notes([f"terms: {entry.terms}."])
    print_answer(*(paths or [f"{name} is built in: qkv train {name}"]))
    return None


@app.command
def describe(*data: Data, reading: SplitOptions = DEFAULT_SPLIT, json: Json = False) -> None:
    """Describe what files hold: of text the counts, the beginning and the tokenizer that `auto` would choose; of
    tables, tagged words and images the task, the columns, the labels with their counts, lengths and copies; of
    parallel text the languages, the pairs, their lengths and copies."""
    from qkv.data import descriptions
    from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
    from qkv.tasks import detected_as

    verb, given = "data describe", reading.given()
    columns = {name: given.get(name) for name in ("text2", "label", "id", "task")}
    others = {**columns, "task": columns["task"] in get_args(ExampleTask)}
    if option := next((name for name, value in others.items() if value and reading.documents), None):
        raise InputError(
            f"--documents {reading.documents} is for plain text, --{option} for labelled examples. Give one."
        )
    shared = {name: given.get(name) for name in ("documents", "filter", "encoding")}
    detected = detected_as({"files": data_files(data, verb), **shared, **columns})
    reason, title = f"qkv {verb} reads these files as ", ", ".join(data)
    description: Description | ExamplesDescription | PairsDescription
    if detected.content == "pairs":
        sides = ("valid", "test")
        pairs = read_config(ParallelConfig, data, verb, reading, f"{reason}parallel text", without=sides)
        with bar() as watch:
            description = descriptions.describe_pairs(pairs, watch, detected.previews)
        sections = _pairs_sections(description, title)
    elif detected.content == "examples":
        examples = read_config(ExamplesConfig, data, verb, reading, f"{reason}labelled examples")
        with bar() as watch:
            description = descriptions.describe_examples(examples, watch, detected.previews)
        sections = _examples_sections(description, title)
    else:
        corpus = read_config(CorpusConfig, data, verb, reading, f"{reason}plain text")
        with bar() as watch:
            description = descriptions.describe(corpus, watch)
        sections = _text_sections(description, title)
    if json:
        return document({"data": list(data), **description.values()})
    notes(note for note in description.notes if not isinstance(note, TaskNote))  # the table has the task
    return show(*sections)


def _facts(title: str, rows: list[tuple[str, str]]) -> TableSection:
    return TableSection(title, ("what", "value"), rows, words=("value",))


def _text_sections(description: Description, title: str) -> list[ReportSection]:
    values = description.values()
    counts = [(name.replace("_", " "), f"{value:,}") for name, value in values.items() if isinstance(value, int)]
    tokenizer = description.tokenizer
    size = f", {tokenizer['size']:,} tokens" if "size" in tokenizer else ""
    rows = [("kind", description.kind), *counts, ("tokenizer (auto)", f"{tokenizer['kind']}{size}")]
    return [TableSection(title, ("what", "value"), rows), lines("", "begins:", *description.beginning.split("\n"))]


def _pairs_sections(description: PairsDescription, title: str) -> list[ReportSection]:
    directions = ", ".join(f"{source} to {target}" for source, target in description.directions)
    rows = [("task", f"translation: {directions}")]
    rows += [(role, f"column {column!r}") for role, column in description.columns.items()]
    rows += [(f"{side} pairs", f"{count:,}") for side, count in description.splits.items()]
    for side, lengths in description.lengths.items():
        rows.append((f"characters, {side}", ", ".join(f"{name} {value:,}" for name, value in lengths.items())))
    rows.append(("copies", f"{description.copies:,}" if description.copies else "none"))
    pairs = [f"  {pair['source']}  |  {pair['target']}" for pair in description.beginning]
    return [_facts(title, rows), lines("", "for example:", *pairs)]


def _examples_sections(description: ExamplesDescription, title: str) -> list[ReportSection]:
    sections: list[ReportSection] = [_facts(title, _examples_facts(description))]
    if description.ranges:
        sections += [lines(""), *_range_table(description)]
    if description.labels:
        sections += [lines(""), *_label_table(description)]
    examples = [
        "  " + "  |  ".join(_shown(value) for key, value in example.items() if key != "shape")
        for example in description.beginning
    ]
    return [*sections, lines("", "for example:", *examples)]


def _examples_facts(description: ExamplesDescription) -> list[tuple[str, str]]:
    unit = "each pair of texts" if description.pairs else "each row of numbers" if description.ranges else "each text"
    rows = [("task", f"{description.task}: {_TASKS[description.task].replace('each text', unit)}")]
    rows += [(role, f"column {column!r}") for role, column in description.columns.items()]
    alone = len(description.splits) == 1
    rows += [("examples" if alone else f"{side} examples", f"{count:,}") for side, count in description.splits.items()]
    if description.labels:
        rows.append(("labels", f"{len(description.labels):,}"))
    if description.numbers is not None:
        rows.append(("numbers", ", ".join(f"{name} {value:.4g}" for name, value in description.numbers.items())))
    lengths = ", ".join(f"{name} {value:,}" for name, value in description.lengths.items())
    if shape := description.beginning[0].get("shape"):
        lengths = " x ".join(map(str, shape))
    if description.ranges:
        lengths = f"{len(description.ranges):,} of numbers"
    rows.append((description.unit, lengths))
    copies = description.copies
    rows.append(("copies", f"{copies:,} ({copies / description.splits['train']:.1%})" if copies else "none"))
    return rows


def _range_table(description: ExamplesDescription) -> list[ReportSection]:
    rows: list[tuple[str, ...]] = []
    for name, values in description.ranges.items():
        known = (f"{values[key]:.4g}" if key in values else "" for key in RANGES)
        rows.append((_shown(name), *known, f"{int(values['missing']):,}"))
    return _first_rows(("column", *RANGES, "missing"), rows, "columns")


def _label_table(description: ExamplesDescription) -> list[ReportSection]:
    total = sum(counts.get("train", 0) for counts in description.labels.values()) or 1
    ordered = sorted(description.labels.items(), key=lambda item: -item[1].get("train", 0))
    sides = tuple(description.splits)
    rows = [
        (_shown(name), *(f"{counts.get(side, 0):,}" for side in sides), f"{counts.get('train', 0) / total:.1%}")
        for name, counts in ordered
    ]
    alone = len(sides) == 1 and description.unit != "words"
    return _first_rows(("label", *(("examples",) if alone else sides), "share"), rows, "labels")


def _first_rows(columns: tuple[str, ...], rows: list[tuple[str, ...]], what: str) -> list[ReportSection]:
    more = [lines(f"and {len(rows) - MOST_LABELS:,} {what} more")] if len(rows) > MOST_LABELS else []
    return [TableSection("", columns, rows[:MOST_LABELS]), *more]


def _shown(value: object) -> str:
    """A value of an example on one line."""
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)


@app.command
def check(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    context: Annotated[int | None, within(ranges.CONTEXT, group=MODEL)] = None,
    tokenizer: TokenizerName = None,
    json: Json = False,
) -> None:
    """Check plain text before a language model is trained on it. Exit code 2 if training would refuse it.

    Args:
        context: The context, in tokens. Default: by the size of the text.
    """
    from qkv.data.check import check as check_corpus
    from qkv.data.corpus import CorpusConfig
    from qkv.library.new_run import tokenizer_by_name
    from qkv.recipe.resolve import context_for

    corpus = read_config(
        CorpusConfig, data, "data check", reading, "qkv data check reads plain text", example="book.txt"
    )
    config, given = tokenizer_by_name(tokenizer or "auto")
    with bar() as watch:
        report = check_corpus(corpus, config, lambda tokens: context or context_for(tokens), given, watch)
    if json:
        problems = {"problems": [str(error) for error in report.problems], "more_problems": report.more_problems}
        remarks = {"warnings": report.warnings, "notes": report.notes, "context": report.context}
        document({"data": list(data), **problems, **remarks, **_streams(report.prepared)})
    else:
        notes(report.notes)
        for warning in report.warnings:
            print_answer(f"warning: {warning}")
        if report.prepared is not None:
            show(TableSection("", ("part", "tokens", "characters", "documents", "UNK"), _rows(report.prepared)))
    for error in report.problems[1:]:
        notes([f"problem: {error}"])
    if report.more_problems:
        notes([f"and {report.more_problems:,} problems more."])
    if report.problems:
        raise report.problems[0]
    if not json:
        print_answer(f"ready to train with a context of {report.context}; {counted(len(report.warnings), 'warning')}.")


def _rows(prepared: Any) -> list[tuple[object, ...]]:
    parts = (("training", prepared.train), ("validation", prepared.valid))
    return [(n, f"{len(s.tokens):,}", f"{s.characters:,}", f"{s.documents:,}", f"{s.unknown:,}") for n, s in parts]


def _streams(prepared: Any) -> dict[str, Any]:
    if prepared is None:
        return {}
    facts = {}
    for name in ("train", "valid"):
        stream = getattr(prepared, name)
        names = ("bytes", "characters", "documents", "unknown")
        facts[name] = {"tokens": len(stream.tokens), **{key: getattr(stream, key) for key in names}}
    tokenizer = {"kind": prepared.tokenizer.kind, "vocabulary": prepared.tokenizer.vocabulary}
    return {**facts, "tokenizer": tokenizer, "fingerprint": prepared.corpus.fingerprint}

"""Reads files as `Labelled` data: texts, rows of numbers, tagged words or images, with their labels.

The notes say everything that a person should know before training: columns, task, copies, leaks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from qkv.data.columns import header_rule, without_level
from qkv.data.corpus import ExamplesConfig, refuse_idle_filter, refuse_unused
from qkv.data.encode import texts_of
from qkv.data.example_files import find_examples
from qkv.data.examples import (
    ArrayExamples,
    Examples,
    Labelled,
    NumberExamples,
    Numbers,
    TagExamples,
    TextExamples,
)
from qkv.data.files.decode import require_encoding
from qkv.data.findings import Findings, OnRead, Progress, TaskNote, byte_counter, no_progress
from qkv.data.formats import conll, images
from qkv.data.formats.column_names import Split
from qkv.data.formats.kinds import FilePreviews
from qkv.data.formats.tabular import Table, open_table
from qkv.data.hold_out import choose_held_out, example_notes
from qkv.data.identity import MAX_PASSAGE_TEXTS, passage_keys
from qkv.data.label_names import note_levels, rename
from qkv.data.labels import RawSplit, decide_label_scheme, format_names
from qkv.data.number_tables import NumberReader, holds_numbers
from qkv.data.split_files import ExampleFile, SplitFiles, split_tables
from qkv.data.text_examples import TextReader
from qkv.errors import ConfigError, DataError
from qkv.ranges import ExampleTask

EXAMPLES_VERSION = 2
"""Increase it when the same files would be read as different examples or split differently."""

Purpose = Literal["train", "describe", "evaluate"]
Content = Literal["text", "numbers", "tagging", "images"]
_CONTENTS: dict[Content, str] = {
    "tagging": "words with tags",
    "images": "images",
    "text": "texts with labels",
    "numbers": "rows of numbers",
}
_UNUSED: dict[Content, tuple[str, ...]] = {
    "tagging": ("text", "text2", "id"),
    "images": ("text", "text2", "label", "id", "encoding"),
}
"""Keys that have no effect on such files."""
_CONTENT_BY_KIND: dict[str, Content] = {
    **dict.fromkeys(("conll", "conllu", "spans"), "tagging"),
    **dict.fromkeys(("idx", "npz", "image"), "images"),
}


def read_examples(
    config: ExamplesConfig,
    progress: Progress = no_progress,
    purpose: Purpose = "train",
    previews: FilePreviews | None = None,
) -> Labelled:
    """Read, choose the task, and split examples. Only training holds out a part; evaluation data may be of one class.

    `previews` are those of files that have been opened before.
    """
    require_encoding(config.encoding)
    findings, on_read = Findings(), byte_counter(progress, "reading")
    previews = previews or FilePreviews(config.encoding)
    files = images.split_npz_archive(find_examples(config, findings, progress, previews))
    content = _content(files, config, previews)

    def open_rows(file: ExampleFile) -> Table | None:
        preview = previews.table(file.source, header_rule(config)) if file.kind == "table" else None
        has_splits = preview is not None and preview.split_column is not None
        return open_table(file.source, config.encoding, Findings(), header_rule(config)) if has_splits else None

    files = split_tables(files, open_rows, bool(config.valid or config.test), findings)
    if purpose == "evaluate":
        files = files.to_score(findings)
    suitable = (config.task,) if config.task in ("tagging", "images") else ("text", "numbers")
    if config.task is not None and content not in suitable:
        raise ConfigError(f"task {config.task!r} does not fit: the files hold {_CONTENTS[content]}. Leave --task out.")
    refuse_idle_filter(config)
    refuse_unused(config, _UNUSED.get(content, ()), f"{files.train[0].display_name} holds {_CONTENTS[content]}")
    if content == "text" and not any(file.kind == "table" for file in files.all()):
        refuse_unused(config, ("text", "text2", "label", "id"), f"{files.train[0].display_name} has no columns")
    raw_splits, columns = _read_splits(content, files, config, findings, on_read)
    labels = raw_splits["train"].labels
    if not len(labels):
        raise DataError(files.train[0].display_name, "no row can be used", "Give rows with text and label.")
    raw_splits = rename(raw_splits, config.labels, content in ("text", "numbers"), findings)
    labels = raw_splits["train"].labels
    if content == "text" and columns and columns["label"] == without_level(columns["label"]):
        note_levels(labels.names, columns["label"], labels.first_places[0][0], findings)
    given_task = config.task if content in ("text", "numbers") else "classification"
    scheme = decide_label_scheme(
        labels, raw_splits["train"].multi_label, given_task, labels.place(0), findings, learn=purpose != "evaluate"
    )
    parts = {
        name: part.examples.with_targets(
            scheme.labels, *scheme.targets(part.labels, name, findings, _sentence_starts(part.examples))
        )
        for name, part in raw_splits.items()
        if name == "train" or len(part.labels)
    }
    train, valid, test = parts["train"], parts.get("valid"), parts.get("test")
    if purpose != "evaluate":
        _require_distinct(train, files.train[0].display_name)
    if config.report is not None:
        train, valid, test = _three_splits(train, valid, test, config, findings)
    if valid is None:
        valid = train.select(slice(0))
        if purpose == "train":
            train, valid = _split(train, config)
            findings.add_note(f"{len(valid):,} of {len(valid) + len(train):,} examples are held out for validation.")
    task: ExampleTask = content if content == "tagging" or content == "images" else scheme.task
    result = Labelled(train=train, valid=valid, test=test, columns=columns, task=task, labels=scheme.labels)
    findings.add_note(TaskNote(_task_in_words(result)))
    notes = (*findings.notes(), *example_notes(result, "evaluation" if purpose == "evaluate" else "training"))
    return replace(result, notes=notes, fingerprint=_fingerprint(result))


def _sentence_starts(examples: Examples) -> Numbers | None:
    """Where each sentence of tagged words begins; None for other examples."""
    return examples.starts if isinstance(examples, TagExamples) else None


def _content(splits: SplitFiles[ExampleFile], config: ExamplesConfig, previews: FilePreviews) -> Content:
    files = splits.all()
    contents: list[Content] = [_CONTENT_BY_KIND.get(file.kind, "text") for file in files]
    for file, content in zip(files, contents, strict=True):
        if content != contents[0]:
            problem = f"holds {_CONTENTS[content]}, {files[0].display_name} holds {_CONTENTS[contents[0]]}"
            raise DataError(file.display_name, problem, "Give files of one kind.")
    first = splits.train[0]
    in_file = first.label is None and first.labels is None
    if first.kind == "table" and in_file and holds_numbers(previews.table(first.source, header_rule(config)), config):
        return "numbers"
    return contents[0]


def _read_splits(
    content: Content, files: SplitFiles[ExampleFile], config: ExamplesConfig, findings: Findings, on_read: OnRead
) -> tuple[dict[Split, RawSplit], dict[str, str]]:
    """The examples of each split, and the columns by role."""
    texts, numbers = TextReader(config, findings, on_read), NumberReader(config, findings, on_read)
    readers: dict[Content, Callable[[Sequence[ExampleFile]], RawSplit]] = {
        "tagging": lambda part: conll.read_split(part, config, findings, on_read),
        "images": lambda part: images.read_split(part, findings, on_read),
        "numbers": numbers.read,
        "text": texts.read,
    }
    raw_splits = {name: readers[content](part) for name, part in files.items()}
    if content == "tagging":
        conll.note_tag_scheme(raw_splits["train"], files.train[0].display_name, findings)
    columns = texts.columns or numbers.columns
    return raw_splits, columns.by_role() if columns else {}


def _require_distinct(train: Examples, where: str) -> None:
    if len(np.unique(train.keys)) < 2:
        problem = "every example is the same" if len(train) > 1 else f"{len(train)} example is not enough"
        raise DataError(where, problem, "Give at least two that differ.")


def _split(train: Examples, config: ExamplesConfig, seed: int = 0) -> tuple[Examples, Examples]:
    classes = np.zeros(len(train), dtype=np.int32)
    if not isinstance(train, TagExamples) and train.targets.ndim == 1 and train.labels.names:
        classes = train.targets
    keys = train.keys
    if isinstance(train, TextExamples) and len(train) <= MAX_PASSAGE_TEXTS:
        keys = passage_keys((f"{first} {second or ''}" for first, second in texts_of(train)), keys)
    held_out = choose_held_out(keys, classes, config.valid_fraction, config.seed + seed)
    return train.select(~held_out), train.select(held_out)


def _three_splits(
    train: Examples, valid: Examples | None, test: Examples | None, config: ExamplesConfig, findings: Findings
) -> tuple[Examples, Examples, Examples]:
    """Splits to train on, to select models on, and to report: a given validation or test split, or held-out examples.

    Models are selected on held-out training examples or, if the test split is reported, on a given validation split.
    """
    own = valid if config.report == "valid" and valid else test
    if not own:
        if config.report == "test":
            raise ConfigError("report = 'test': these files have no test split with labels. Name one with --test.")
        train, own = _split(train, config)
    if own is not test or not valid:
        train, valid = _split(train, config, seed=1)
    _require_distinct(train, config.files[0])
    findings.add_note(f"{len(own):,} examples are only reported; models are selected on {len(valid):,} others.")
    return train, valid, own


def _task_in_words(data: Labelled) -> str:
    kind = {
        "images": "one class each",
        "tagging": "a tag for each word",
        "regression": "a number to predict",
    }
    kind |= {"classification": "one class each", "multi-label": "any number of labels each"}
    pairs = "pairs of texts, " if data.pairs else "rows of numbers, " if data.numeric else ""
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in data.splits if len(split))
    classes = f"; {len(data.labels)} labels: {format_names(data.labels.names)}" if data.labels.names else ""
    return f"task: {data.task} ({pairs}{kind[data.task]}); {sizes}{classes}."


def _fingerprint(data: Labelled) -> str:
    digest = hashlib.sha256(json.dumps([EXAMPLES_VERSION, data.task, *data.labels.names]).encode())
    for name, split in data.splits:
        digest.update(f"{name} {len(split)}".encode())
        for part in (split.rows, split.targets, split.keys):
            digest.update(np.ascontiguousarray(part).tobytes())
        match split:
            case TextExamples():
                for texts in (split.texts, split.second):
                    if texts is not None:
                        texts.add_to(digest)
            case TagExamples():
                split.words.add_to(digest)
            case ArrayExamples():
                digest.update(json.dumps(split.columns).encode() if isinstance(split, NumberExamples) else b"")
                digest.update(np.ascontiguousarray(split.all_values).data)
    return digest.hexdigest()

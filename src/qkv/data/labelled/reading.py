"""The way in: from the names of files to `Labelled`, with everything said that a person should know before training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from qkv.data.corpus import ExamplesConfig, Task
from qkv.data.files.decode import require_encoding
from qkv.data.findings import Findings, Progress, Watch, silent
from qkv.data.formats import conll, images
from qkv.data.formats.arrays import Pictures, with_own_sides
from qkv.data.formats.kinds import Beginnings
from qkv.data.hold_out import example_notes, held_out
from qkv.data.identity import MOST_TEXTS, as_keys, passage_keys
from qkv.data.labelled.encoding import texts_of
from qkv.data.labelled.examples import (
    Examples,
    ImageExamples,
    Labelled,
    LabelMap,
    NumberExamples,
    Numbers,
    TagExamples,
    TextExamples,
)
from qkv.data.labelled.gathering import Gatherer, Item, Sides, Texts, find, no_labels
from qkv.data.labelled.numbers import NumberGatherer, NumberRows, holds_numbers
from qkv.data.labelled.targets import Meaning, Values, decide, listed
from qkv.errors import ConfigError, DataError

READING_VERSION = 2
"""Raise when the same files would be read as other examples or split otherwise."""


Purpose = Literal["train", "describe", "judge"]


def read_examples(
    config: ExamplesConfig,
    progress: Progress = silent,
    purpose: Purpose = "train",
    beginnings: Beginnings | None = None,
) -> Labelled:
    """Read, decide, split, compare. Only to train a part is held out; examples to judge by may all be of one class.

    `beginnings` are those of the files, where they have been looked at before.
    """
    learn = purpose != "judge"
    require_encoding(config.encoding)
    findings = Findings()
    beginnings = beginnings or Beginnings(config.encoding)
    sides = with_own_sides(find(config, findings, progress, beginnings))
    family = _family(sides, config, beginnings)
    wanted = ("text", "numbers") if config.task not in _FAMILIES else (config.task,)
    if config.task is not None and family not in wanted:
        raise ConfigError(f"task {config.task!r} does not fit: the files hold {_HOLD[family]}. Leave --task out.")
    found, labels, task, columns = _FAMILY[family](sides, config, findings, _watch(progress), learn)
    train, valid, test = found["train"], found.get("valid"), found.get("test")
    if learn:
        _require_enough(train, sides.train[0].source.shown)
    if config.report is not None:
        train, valid, test = _three_sides(train, valid, test, config, findings)
    if valid is None:
        valid = replace(train, rows=train.rows[:0])
        if purpose == "train":
            train, valid = _split(train, config)
            findings.say(f"{len(valid):,} of {len(valid) + len(train):,} examples are held out for validation.")
    result = Labelled(task, labels, train, valid, test, (), "", columns)
    findings.say(_what(result))
    said = (*findings.notes(), *example_notes(result))
    return replace(result, notes=said, fingerprint=_fingerprint(result))


def _watch(progress: Progress) -> Watch:
    done = 0

    def watch(count: int) -> None:
        nonlocal done
        done += count
        progress("reading", done, None)

    return watch


_FAMILIES = ("tagging", "images")
_HOLD = {"tagging": "words with tags", "images": "pictures", "text": "texts with labels", "numbers": "rows of numbers"}
_OF_KIND = {"conll": "tagging", "conllu": "tagging", "idx": "images", "npz": "images", "picture": "images"}


def _family(sides: Sides, config: ExamplesConfig, beginnings: Beginnings) -> str:
    items = sides.all()
    families = [_OF_KIND.get(item.kind, "text") for item in items]
    for item, family in zip(items, families, strict=True):
        if family != families[0]:
            problem = f"holds {_HOLD[family]}, {items[0].source.shown} holds {_HOLD[families[0]]}"
            raise DataError(item.source.shown, problem, "Give files of one kind.")
    first = sides.train[0]
    if first.kind == "table" and holds_numbers(beginnings.table(first.source, config.header), config):
        return "numbers"
    return families[0]


Found = tuple[dict[str, Any], LabelMap, Task, Mapping[str, str]]


def _texts(sides: Sides, config: ExamplesConfig, findings: Findings, watch: Watch, learn: bool) -> Found:
    gatherer = Gatherer(config, findings, watch)
    gathered = {name: gatherer.side(items) for name, items in _each(sides)}
    gathered = {name: texts for name, texts in gathered.items() if name == "train" or len(texts.texts)}
    train: Texts = gathered["train"]
    _require_some(train.values, sides)
    meaning = decide(train.values, train.several, config.task, train.values.place(0), findings, learn)

    def made(name: str, texts: Texts) -> TextExamples:
        targets, good = meaning.targets(texts.values, name, findings)
        rows = np.flatnonzero(good)
        return TextExamples(texts.texts, texts.second, texts.ids, meaning.labels, targets, as_keys(texts.keys), rows)

    found = {name: made(name, texts) for name, texts in gathered.items()}
    return found, meaning.labels, meaning.task, gatherer.columns.named() if gatherer.columns else {}


def _numbers(sides: Sides, config: ExamplesConfig, findings: Findings, watch: Watch, learn: bool) -> Found:
    gatherer = NumberGatherer(config, findings, watch)
    gathered = {name: gatherer.side(items) for name, items in _each(sides)}
    gathered = {name: rows for name, rows in gathered.items() if name == "train" or len(rows.values)}
    train = gathered["train"]
    _require_some(train.values, sides)
    meaning = decide(train.values, False, config.task, train.values.place(0), findings, learn)
    assert gatherer.columns is not None
    columns = gatherer.columns.columns

    def made(name: str, found: NumberRows) -> NumberExamples:
        targets, good = meaning.targets(found.values, name, findings)
        keys = as_keys(found.keys)
        return NumberExamples(found.matrix(len(columns)), columns, meaning.labels, targets, keys, np.flatnonzero(good))

    found = {name: made(name, rows) for name, rows in gathered.items()}
    return found, meaning.labels, meaning.task, {"label": gatherer.columns.label}


def _tags(sides: Sides, config: ExamplesConfig, findings: Findings, watch: Watch, learn: bool) -> Found:
    gathered = {name: conll.gather(items, config, findings, watch) for name, items in _each(sides)}
    train = gathered["train"]
    conll.remark(train, sides.train[0].source.shown, findings)
    meaning = _classes(train.values, findings, learn)

    def made(name: str, tagged: conll.Tagged) -> TagExamples:
        tags, good = meaning.targets(tagged.values, name, findings)
        starts = np.array(tagged.starts, dtype=np.int64)
        rows = np.flatnonzero(np.logical_and.reduceat(good, starts[:-1]))
        return TagExamples(tagged.words, starts, meaning.labels, tags, as_keys(tagged.keys), rows)

    return {name: made(name, tagged) for name, tagged in gathered.items()}, meaning.labels, "tagging", {}


def _images(sides: Sides, config: ExamplesConfig, findings: Findings, watch: Watch, learn: bool) -> Found:
    gathered = {name: images.gather(items, findings, watch) for name, items in _each(sides)}
    meaning = _classes(gathered["train"].values, findings, learn)

    def made(name: str, pictures: Pictures) -> ImageExamples:
        targets, good = meaning.targets(pictures.values, name, findings)
        return ImageExamples(pictures.pixels, meaning.labels, targets, as_keys(pictures.keys), np.flatnonzero(good))

    return {name: made(name, pictures) for name, pictures in gathered.items()}, meaning.labels, "images", {}


_FAMILY: dict[str, Callable[[Sides, ExamplesConfig, Findings, Watch, bool], Found]] = {
    "text": _texts,
    "numbers": _numbers,
    "tagging": _tags,
    "images": _images,
}


def _classes(values: Values, findings: Findings, learn: bool) -> Meaning:
    return decide(values, False, "classification", values.place(0), findings, learn)


def _each(sides: Sides) -> Iterator[tuple[str, Sequence[Item]]]:
    for name in ("train", "valid", "test"):
        if items := getattr(sides, name):
            yield name, items


def _require_some(values: Values, sides: Sides) -> None:
    if not len(values):
        item = sides.train[0]
        if item.kind == "text" and item.label is None:
            raise no_labels(item)
        raise DataError(item.source.shown, "no row can be used", "Give rows with text and label.")


def _require_enough(train: Examples, where: str) -> None:
    if len(np.unique(train.keys)) < 2:
        problem = "every example is the same" if len(train) > 1 else f"{len(train)} example is too little"
        raise DataError(where, problem, "Give at least two that differ.")


def _split(train: Any, config: ExamplesConfig) -> tuple[Any, Any]:
    classes = np.zeros(len(train), dtype=np.int32)
    if not isinstance(train, TagExamples) and train.targets.ndim == 1 and train.labels.names:
        classes = train.targets
    keys = train.keys
    if isinstance(train, TextExamples) and len(train) <= MOST_TEXTS:
        keys = passage_keys((f"{first} {second or ''}" for first, second in texts_of(train)), keys)
    out = held_out(keys, classes, config.valid_fraction, config.seed)
    return replace(train, rows=train.rows[~out]), replace(train, rows=train.rows[out])


def _three_sides(train: Any, valid: Any, test: Any, config: ExamplesConfig, findings: Findings) -> tuple[Any, Any, Any]:
    """To learn from, to choose on, to report: the files' own validation or test side, or another part of the only one.

    To choose on there are rows of the training side; where the test side is reported, the files' own validation side.
    """
    own = {"valid": valid if valid is not None and len(valid) else test, "test": test}[config.report or "valid"]
    if own is None or not len(own):
        if config.report == "test":
            raise ConfigError("report = 'test': these files have no test side with labels. Name one with --test.")
        train, own = _split(train, config)
    if own is not test or valid is None or not len(valid):
        train, valid = _split(train, replace(config, seed=config.seed + 1))
    _require_enough(train, config.files[0])
    findings.say(f"{len(own):,} examples are reported, and nothing is chosen on them; {len(valid):,} are chosen on.")
    return train, valid, own


def _what(found: Labelled) -> str:
    """The task in words."""
    kind = {"images": "pictures, one class each", "tagging": "a tag for each word", "regression": "a number to predict"}
    kind |= {"classification": "one class each", "multi-label": "any number of labels each"}
    pairs = "pairs of texts, " if found.pairs else "rows of numbers, " if found.numeric else ""
    sizes = ", ".join(f"{len(side):,} {name}" for name, side in found.sides if len(side))
    classes = f"; {len(found.labels)} labels: {listed(found.labels.names)}" if found.labels.names else ""
    return f"task: {found.task} ({pairs}{kind[found.task]}); {sizes}{classes}."


def _fingerprint(found: Labelled) -> str:
    digest = hashlib.sha256(json.dumps([READING_VERSION, found.task, *found.labels.names]).encode())
    for name, side in found.sides:
        digest.update(f"{name} {len(side)}".encode())
        parts: list[Numbers | Any] = [side.rows, side.targets, side.keys]
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        match side:
            case TextExamples():
                for texts in (side.texts, side.second):
                    if texts is not None:
                        texts.add_to(digest)
            case TagExamples():
                side.words.add_to(digest)
            case NumberExamples():
                digest.update(json.dumps(side.columns).encode())
                digest.update(np.ascontiguousarray(side.all_numbers).data)
            case ImageExamples():
                digest.update(np.ascontiguousarray(side.all_pixels).data)
    return digest.hexdigest()

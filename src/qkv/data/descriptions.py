"""Descriptions of data, as `qkv data describe` shows them: of text, of labelled examples and of parallel text."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qkv.config import toml_values
from qkv.data.corpus import CorpusConfig
from qkv.data.document_files import excerpt
from qkv.data.examples import (
    ArrayExample,
    Label,
    Labelled,
    NumberExamples,
    Pairs,
    Parallel,
    TagExample,
    Targets,
    TextExample,
)
from qkv.data.files.unpack import Builtin, Source
from qkv.data.findings import Findings, Progress, display_name
from qkv.data.hold_out import count_copies
from qkv.data.survey import CorpusFiles, WordCounter, survey
from qkv.data.text_files import find_text_files
from qkv.text.vocabulary import choose
from qkv.visible import ShownResult

PLANNED_EXAMPLES = 5
SHOWN_EXAMPLES = 3
BEGINNING_CHARACTERS, EXCERPT_CHARACTERS = 400, 100


@dataclass(frozen=True)
class TrainingPlan:
    """What `qkv train` does with the data by default."""

    task: str
    model: str
    """The name of the model, as for --model."""
    unit: str
    """The unit of the sizes of the splits."""
    train: int
    valid: int
    test: int
    """0 without a test set."""
    held_out: bool
    """Whether the validation data are held out of the training data."""
    metric: str
    max_tokens: int
    """The largest number of tokens in a text or window; 0 for images and rows of numbers."""
    examples: tuple[dict[str, str], ...]
    """Some training examples, exactly as the model gets them."""

    def values(self) -> dict[str, Any]:
        return {"sentence": self.sentence, **asdict(self)}

    @property
    def sentence(self) -> str:
        held_out = f"{self.valid:,} {'held out for' if self.held_out else 'for'} validation"
        test = f" and {self.test:,} for testing" if self.test else ""
        task = "image classification" if self.task == "images" else self.task.replace("-", " ")
        what = f"the model {self.model} for {task}, on {self.train:,} {self.unit}"
        return f"Training uses {what}, with {held_out}{test}, and reports {self.metric}."


@dataclass(frozen=True, repr=False, kw_only=True)
class PlannedDescription(ShownResult):
    """The common part of all descriptions: what a run would do with the data, or why it would refuse them."""

    notes: tuple[str, ...]
    plan: TrainingPlan | None = None
    refusal: str = ""

    def values(self) -> dict[str, Any]:
        return {**asdict(self), "plan": None if self.plan is None else self.plan.values()}

    def table_values(self) -> dict[str, Any]:
        return {name: value for name, value in self.values().items() if name not in ("notes", "plan", "refusal")}

    def remarks(self) -> tuple[str, ...]:
        """What training would do with the data, and the notes."""
        verdict = self.refusal if self.plan is None else self.plan.sentence
        return (*([verdict] if verdict else ()), *(f"note: {note}" for note in self.notes))


@dataclass(frozen=True, repr=False)
class Description(PlannedDescription):
    kind: str
    """The formats of the files, and how many files have each."""
    files: int
    documents: int
    distinct_documents: int
    lines: int
    characters: int
    words: int
    bytes: int
    distinct_characters: int
    distinct_words: int
    """The number of distinct words; of a long text, only in its first part."""
    longest_line: int
    tokenizer: dict[str, Any]
    """The tokenizer that `auto` would choose."""
    beginning: str
    validation_characters: int | None = None
    """The number of characters of the validation text, if one was given."""

    def values(self) -> dict[str, Any]:
        omitted = {"validation_characters"} if self.validation_characters is None else set()
        return {name: value for name, value in super().values().items() if name not in omitted}


def describe_text(corpus: CorpusConfig, piped: Path | None, progress: Progress) -> Description:
    """Describe plain text; `piped` is a copy of standard input, if that is read."""
    words = WordCounter(BEGINNING_CHARACTERS)
    parts = CorpusFiles.of(corpus, piped, whole=True, progress=progress)
    surveyed = survey(parts, progress, words.add)
    validation = find_text_files(corpus.valid, corpus.filter, parts.findings, progress) if corpus.valid else []
    validation_characters = sum(len(text) for text, _ in parts.read(validation, Findings())) if validation else None
    statistics = surveyed.statistics
    names = ("lines", "characters", "bytes", "distinct_characters", "distinct_words", "longest_line")
    return Description(
        kind=_count_formats(parts),
        files=len(parts.files),
        documents=surveyed.census.documents,
        distinct_documents=surveyed.census.distinct(),
        words=words.count,
        tokenizer=toml_values(choose(statistics)),
        beginning=words.beginning,
        notes=(*parts.findings.notes(), *surveyed.findings.notes()),
        validation_characters=validation_characters,
        **{name: getattr(statistics, name) for name in names},
    )


def _count_formats(parts: CorpusFiles) -> str:
    counts = Counter(map(_format_name, parts.files))
    if len(parts.files) == 1:
        return next(iter(counts))
    single = {_format_name(source): display_name(source.display_name).rpartition("/")[2] for source in parts.files}
    return ", ".join(f"{name} ({f'{n:,} files' if n > 1 else single[name]})" for name, n in counts.items())


def _format_name(source: Source | Builtin) -> str:
    if isinstance(source, Builtin):
        return "built in"
    return source.format if source.compression == "plain" else f"{source.format} in {source.compression}"


@dataclass(frozen=True, repr=False)
class ExamplesDescription(PlannedDescription):
    task: str
    pairs: bool
    columns: dict[str, str]
    splits: dict[str, int]
    """The number of examples in each split of the files."""
    labels: dict[str, dict[str, int]]
    """The count of each label in each split; empty for regression."""
    numbers: dict[str, float] | None
    """For regression: the lowest, mean and highest target of the training examples."""
    unit: str
    """The unit of `lengths`."""
    lengths: dict[str, int]
    """The shortest, median and longest length of the training examples."""
    ranges: dict[str, dict[str, float]]
    """The lowest, mean and highest value of each column of numbers, and how many are missing."""
    copies: int
    """How many training examples repeat others."""
    copies_in_splits: dict[str, int]
    """How many examples of each split repeat others of it."""
    fingerprint: str
    beginning: list[dict[str, Any]]


def describe_examples(data: Labelled) -> ExamplesDescription:
    data = data.undivided()
    train = data.train
    lengths = np.sort(train.lengths)
    unit = "columns" if data.numeric else {"tagging": "words", "images": "pixels"}.get(data.task, "characters")
    return ExamplesDescription(
        task=data.task,
        pairs=data.pairs,
        columns=dict(data.columns),
        splits={name: len(split) for name, split in data.splits if len(split)},
        labels=_label_counts(data),
        numbers=_range(train.targets) if data.task == "regression" else None,
        unit=unit,
        lengths={"shortest": int(lengths[0]), "median": int(lengths[len(lengths) // 2]), "longest": int(lengths[-1])},
        ranges=_column_ranges(train) if isinstance(train, NumberExamples) else {},
        copies=count_copies(train),
        copies_in_splits={name: count_copies(split) for name, split in data.splits if len(split)},
        fingerprint=data.fingerprint,
        beginning=[_example_excerpt(train[index]) for index in range(min(SHOWN_EXAMPLES, len(train)))],
        notes=data.notes,
    )


def _label_counts(data: Labelled) -> dict[str, dict[str, int]]:
    label_counts: dict[str, dict[str, int]] = {name: {} for name in data.labels.names}
    for split, examples in data.splits:
        if not len(examples) or not data.labels.names:
            continue
        targets = examples.targets
        counts = targets.sum(0) if targets.ndim == 2 else np.bincount(targets, minlength=len(data.labels))
        for name, count in zip(data.labels.names, counts, strict=True):
            label_counts[name][split] = int(count)
    return label_counts


def _range(numbers: Targets) -> dict[str, float]:
    return {"lowest": float(numbers.min()), "mean": float(numbers.mean()), "highest": float(numbers.max())}


def _column_ranges(examples: NumberExamples) -> dict[str, dict[str, float]]:
    ranges: dict[str, dict[str, float]] = {}
    for name, column in zip(examples.columns, examples.values.T, strict=True):
        known = column[~np.isnan(column)].astype(np.float64)
        ranges[name] = {**(_range(known) if len(known) else {}), "missing": len(column) - len(known)}
    return ranges


def _example_excerpt(example: TextExample | TagExample | ArrayExample) -> dict[str, Any]:
    match example:
        case TextExample(text=text, second=second, label=label):
            shown = {"label": _label_value(label), "text": excerpt(text, EXCERPT_CHARACTERS)}
            return shown if second is None else {**shown, "second": excerpt(second, EXCERPT_CHARACTERS)}
        case ArrayExample(values=values, label=label) if values.ndim == 1:
            numbers = ", ".join("?" if math.isnan(number) else f"{number:.6g}" for number in values[:12].tolist())
            return {"label": _label_value(label), "numbers": f"{numbers} ..." if len(values) > 12 else numbers}
        case TagExample(words=words, tags=tags):
            pairs = zip(words[:15], tags[:15], strict=True)
            return {"words": " ".join(word if tag == "O" else f"{word}/{tag}" for word, tag in pairs)}
        case _:
            return {"label": example.label, "shape": list(example.values.shape)}


def _label_value(label: Label) -> str | float | list[str]:
    return list(label) if isinstance(label, tuple) else label


@dataclass(frozen=True, repr=False)
class PairsDescription(PlannedDescription):
    task: str
    directions: list[tuple[str, str]]
    """Source and target language of each direction that is learned."""
    columns: dict[str, str]
    splits: dict[str, int]
    """The number of pairs in each split of the files."""
    lengths: dict[str, dict[str, int]]
    """The characters of the training sources and targets: shortest, median, longest."""
    copies: int
    """How many training pairs repeat others."""
    copies_in_splits: dict[str, int]
    """How many pairs of each split repeat others of it."""
    fingerprint: str
    beginning: list[dict[str, str]]


def describe_pairs(parallel: Parallel) -> PairsDescription:
    parallel = parallel.undivided()
    train = parallel.train
    first_pairs = [train[index] for index in range(min(SHOWN_EXAMPLES, len(train)))]
    return PairsDescription(
        task="translation",
        directions=list(parallel.directions),
        columns=dict(parallel.columns),
        splits={name: len(split) for name, split in parallel.splits if len(split)},
        lengths=_lengths(train),
        copies=count_copies(train),
        copies_in_splits={name: count_copies(split) for name, split in parallel.splits if len(split)},
        fingerprint=parallel.fingerprint,
        beginning=[
            {"source": excerpt(pair.source, EXCERPT_CHARACTERS), "target": excerpt(pair.target, EXCERPT_CHARACTERS)}
            for pair in first_pairs
        ],
        notes=parallel.notes,
    )


def _lengths(pairs: Pairs) -> dict[str, dict[str, int]]:
    characters = np.sort(np.array([[len(text) for text in pair] for pair in pairs.texts()]), axis=0)
    rank_rows = {"shortest": 0, "median": len(characters) // 2, "longest": -1}
    return {
        text: {rank: int(characters[row, column]) for rank, row in rank_rows.items()}
        for column, text in enumerate(("source", "target"))
    }


AnyDescription = Description | ExamplesDescription | PairsDescription

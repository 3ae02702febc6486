"""What data holds, counted: the answer of `qkv data describe` for text, labelled examples and parallel text."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qkv.config import toml_values
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.document_files import excerpt
from qkv.data.examples import ArrayExample, Labelled, NumberExamples, Pairs, TagExample, Targets, TextExample
from qkv.data.files import standard_input
from qkv.data.files.discover import find_text_files
from qkv.data.files.unpack import Builtin
from qkv.data.findings import Findings, Progress
from qkv.data.formats.kinds import FilePreviews
from qkv.data.formats.text import read_documents
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.data.survey import CorpusFiles, survey
from qkv.text.vocabulary import choose

SAMPLE = 400
EXAMPLES = 3


@dataclass(frozen=True)
class Description:
    kind: str
    """The formats of the files, with their counts."""
    files: int
    documents: int
    distinct_documents: int
    lines: int
    characters: int
    words: int
    bytes: int
    distinct_characters: int
    distinct_words: int
    """In the first part of the text, where it is long."""
    longest_line: int
    tokenizer: dict[str, Any]
    """What `auto` would choose."""
    beginning: str
    notes: tuple[str, ...]
    validation_characters: int | None = None
    """Of the validation text, where it was given."""

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def describe(corpus: CorpusConfig, progress: Progress) -> Description:
    words = _WordCount()
    with standard_input.receive_once(corpus) as spool:
        parts = CorpusFiles.of(corpus, spool, whole=True, progress=progress)
        surveyed = survey(parts, progress, words.add)
        validation = find_text_files(corpus.valid, corpus.filter, parts.findings, progress) if corpus.valid else []
    held_out = sum(len(text) for text, _ in read_documents(validation, corpus, Findings())) if validation else None
    statistics = surveyed.statistics
    names = ("lines", "characters", "bytes", "distinct_characters", "distinct_words", "longest_line")
    return Description(
        kind=_kinds(parts),
        files=len(parts.files),
        documents=surveyed.census.documents,
        distinct_documents=surveyed.census.distinct(),
        words=words.count,
        tokenizer=toml_values(choose(statistics)),
        beginning=words.beginning,
        notes=(*parts.findings.notes(), *surveyed.findings.notes()),
        validation_characters=held_out,
        **{name: getattr(statistics, name) for name in names},
    )


def _kinds(parts: CorpusFiles) -> str:
    counts: Counter[str] = Counter()
    for source in parts.files:
        packed = "" if isinstance(source, Builtin) or source.compression == "plain" else f" in {source.compression}"
        counts["built in" if isinstance(source, Builtin) else f"{source.format}{packed}"] += 1
    return ", ".join(kind if count == 1 else f"{count:,} of {kind}" for kind, count in counts.items())


class _WordCount:
    """The beginning of a text that comes in pieces, and how many words it has."""

    def __init__(self) -> None:
        self.beginning, self.count = "", 0
        self._inside = False  # the piece before ended inside a word

    def add(self, text: str, ends: bool) -> None:
        self.beginning += text[: SAMPLE - len(self.beginning)]
        self.count += len(text.split())
        if text:
            self.count -= self._inside and not text[0].isspace()
            self._inside = not text[-1].isspace()
        self._inside = self._inside and not ends


@dataclass(frozen=True)
class ExamplesDescription:
    task: str
    pairs: bool
    columns: dict[str, str]
    splits: dict[str, int]
    """How many examples each split of the files has."""
    labels: dict[str, dict[str, int]]
    """How often each label occurs, by split; empty where numbers are learned."""
    numbers: dict[str, float] | None
    """Lowest, mean and highest, where numbers are learned."""
    unit: str
    """What lengths are counted in."""
    lengths: dict[str, int]
    """Of the training examples."""
    ranges: dict[str, dict[str, float]]
    """Of columns of numbers: lowest, mean, highest, and how many are missing."""
    copies: int
    """Training examples that repeat others."""
    fingerprint: str
    beginning: list[dict[str, Any]]
    notes: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        return asdict(self)


def describe_examples(
    config: ExamplesConfig, progress: Progress, previews: FilePreviews | None = None
) -> ExamplesDescription:
    found = read_examples(config, progress, purpose="describe", previews=previews)
    train = found.train
    lengths = np.sort(train.lengths)
    unit = "columns" if found.numeric else {"tagging": "words", "images": "pixels"}.get(found.task, "characters")
    return ExamplesDescription(
        task=found.task,
        pairs=found.pairs,
        columns=dict(found.columns),
        splits={name: len(split) for name, split in found.splits if len(split)},
        labels=_labels(found),
        numbers=_range(train.targets) if found.task == "regression" else None,
        unit=unit,
        lengths={"shortest": int(lengths[0]), "median": int(lengths[len(lengths) // 2]), "longest": int(lengths[-1])},
        ranges=_ranges(train) if isinstance(train, NumberExamples) else {},
        copies=len(train) - len(np.unique(train.keys)),
        fingerprint=found.fingerprint,
        beginning=[_shown(train[number]) for number in range(min(EXAMPLES, len(train)))],
        notes=found.notes,
    )


def _labels(found: Labelled) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {name: {} for name in found.labels.names}
    for split, examples in found.splits:
        if not len(examples) or not found.labels.names:
            continue
        targets = examples.targets
        counts = targets.sum(0) if targets.ndim == 2 else np.bincount(targets, minlength=len(found.labels))
        for name, count in zip(found.labels.names, counts, strict=True):
            counted[name][split] = int(count)
    return counted


def _range(numbers: Targets) -> dict[str, float]:
    return {"lowest": float(numbers.min()), "mean": float(numbers.mean()), "highest": float(numbers.max())}


def _ranges(examples: NumberExamples) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, column in zip(examples.columns, examples.values.T, strict=True):
        known = column[~np.isnan(column)].astype(np.float64)
        found[name] = {**(_range(known) if len(known) else {}), "missing": len(column) - len(known)}
    return found


def _shown(example: TextExample | TagExample | ArrayExample) -> dict[str, Any]:
    match example:
        case TextExample(text=text, second=second, label=label):
            more = {} if second is None else {"second": excerpt(second, 100)}
            return {"label": list(label) if isinstance(label, tuple) else label, "text": excerpt(text, 100), **more}
        case ArrayExample(values=numbers, label=label) if numbers.ndim == 1:
            shown = ", ".join("?" if number != number else f"{number:.6g}" for number in numbers[:12].tolist())
            shown += " ..." if len(numbers) > 12 else ""
            return {"label": list(label) if isinstance(label, tuple) else label, "numbers": shown}
        case TagExample(words=words, tags=tags):
            pairs = zip(words[:15], tags[:15], strict=True)
            return {"words": " ".join(word if tag == "O" else f"{word}/{tag}" for word, tag in pairs)}
        case _:
            return {"label": example.label, "shape": list(example.values.shape)}


@dataclass(frozen=True)
class PairsDescription:
    task: str
    directions: list[tuple[str, str]]
    """Source and target language of each direction that is learned."""
    columns: dict[str, str]
    splits: dict[str, int]
    """How many pairs each split of the files has."""
    lengths: dict[str, dict[str, int]]
    """Characters of the training sources and targets: shortest, median, longest."""
    copies: int
    """Training pairs that repeat others."""
    fingerprint: str
    beginning: list[dict[str, str]]
    notes: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        return asdict(self)


def describe_pairs(
    config: ParallelConfig, progress: Progress, previews: FilePreviews | None = None
) -> PairsDescription:
    parallel = read_parallel(config, progress, purpose="describe", previews=previews)
    train = parallel.train
    first = [train[number] for number in range(min(EXAMPLES, len(train)))]
    return PairsDescription(
        task="translation",
        directions=list(parallel.directions),
        columns=dict(parallel.columns),
        splits={name: len(split) for name, split in parallel.splits if len(split)},
        lengths=_lengths(train),
        copies=len(train) - len(np.unique(train.keys)),
        fingerprint=parallel.fingerprint,
        beginning=[{"source": excerpt(pair.source, 100), "target": excerpt(pair.target, 100)} for pair in first],
        notes=parallel.notes,
    )


def _lengths(pairs: Pairs) -> dict[str, dict[str, int]]:
    characters = np.sort(np.array([[len(text) for text in pair] for pair in pairs.texts()]), axis=0)
    rows = {"shortest": 0, "median": len(characters) // 2, "longest": -1}
    return {
        text: {name: int(characters[row, column]) for name, row in rows.items()}
        for column, text in enumerate(("source", "target"))
    }

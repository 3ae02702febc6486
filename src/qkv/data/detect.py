"""What files hold, decided once for all commands: text for a language model, labelled examples, or parallel text.

Every file is opened once. `Detected` carries the beginnings of the files to whoever reads them, so that no file is
recognised twice. Detection raises nothing: a file that cannot be read is refused where it is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from qkv.data import catalog
from qkv.data.columns import header_rule, looks_labelled, nested_pair, pair_by_name
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.examples import Direction
from qkv.data.files.discover import is_zip
from qkv.data.files.unpack import DELIMITERS, Source
from qkv.data.findings import Findings
from qkv.data.formats.aligned import file_pair_languages, read_aligned_lines
from qkv.data.formats.column_names import TRANSLATION_PAIRS
from qkv.data.formats.delimited import is_number
from qkv.data.formats.kinds import LABELLED_KINDS, FilePreviews
from qkv.data.formats.tabular import Table
from qkv.data.number_tables import holds_numbers
from qkv.data.split_files import AmbiguousLanguagesError, ExampleFile, PairFiles, find_examples, find_pairs
from qkv.errors import DataError, QkvError

Content = Literal["text", "examples", "pairs"]

CONFIGS: dict[Content, type] = {"text": CorpusConfig, "examples": ExamplesConfig, "pairs": ParallelConfig}
"""The section [corpus] of each content."""
PARALLEL_OPTIONS = ("source", "target", "languages", "directions")
"""Keys of a corpus that only parallel text has."""
LABELLED_OPTIONS = ("label", "text2", "id", "task", "header")
"""Keys that are read as labelled examples, where none of parallel text decides."""


@contextmanager
def naming_deciding_options(given: Mapping[str, Any]) -> Iterator[None]:
    """Within it, files that cannot be read are refused with the options that decided what they are."""
    try:
        yield
    except DataError as error:
        if names := [f"--{key}" for key in ("documents", *PARALLEL_OPTIONS, "metric") if given.get(key)]:
            error.args = (f"{error} They are read so because of {' and '.join(names)}.",)
        raise


MOST_LABEL_FOLDERS = 20  # a folder with more sub-folders is somebody's file tree
LABEL_NAMES = ({"neg", "pos"}, {"negative", "positive"}, {"negative", "neutral", "positive"}, {"ham", "spam"})
_ABOUT_THE_DATA = re.compile(r"(?i)licen[cs]e|readme|copying|notice")
COMPARED_LINES = 100  # at the beginning of two files that may be aligned
FEW = 0.1
MAX_LENGTH_RATIO = 4
"""All texts of one language together may be this many times as long as those of the other."""
_ATTRIBUTION = "CC-BY"
_FAILURES = (QkvError, OSError, TypeError, ValueError, LookupError)


@dataclass(frozen=True)
class Detected:
    """What the files of a corpus hold."""

    corpus: Mapping[str, Any]
    content: Content
    previews: FilePreviews
    """Of the files, for those who read them."""

    @property
    def labelled_options_given(self) -> bool:
        """Whether an option of labelled examples is given."""
        return any(self.corpus.get(name) is not None for name in LABELLED_OPTIONS)

    @cached_property
    def numeric(self) -> bool:
        """Whether the first file, read as labelled examples, has rows of numbers."""
        try:
            given = {key: value for key, value in self.corpus.items() if value is not None}
            config = ExamplesConfig(**{**given, "files": tuple(given.get("files", ()))})
            first = find_examples(config, Findings(), previews=self.previews).train[0]
            return first.kind == "table" and holds_numbers(self.previews.table(first.source, config.header), config)
        except _FAILURES:
            return False

    @cached_property
    def label_folders(self) -> tuple[str, ...]:
        """The folders that a folder of texts is divided into: they may be meant as labels."""
        files = list(self.corpus.get("files") or ())
        return _label_folders(str(files[0]), self.previews) if len(files) == 1 else ()


def detect(corpus: Mapping[str, Any]) -> Detected:
    """What the files of a recipe's corpus hold, by its options and by the beginnings of the files."""
    files = [str(name) for name in corpus.get("files") or ()]
    documents, pattern = corpus.get("documents"), corpus.get("filter")
    previews = FilePreviews(str(corpus.get("encoding") or "utf-8"))
    content: Content = "text"
    if any(corpus.get(name) is not None for name in LABELLED_OPTIONS):
        content = "examples"
    elif any(corpus.get(name) for name in PARALLEL_OPTIONS) or (
        not documents and not pattern and is_parallel(files, previews)
    ):
        content = "pairs"
    elif not documents and is_labelled(files, previews, pattern):
        content = "examples"
    elif corpus.get("test") and files and all(_label_folders(name, previews) for name in files):
        content = "examples"  # parallel text was ruled out above: with a test set, the folders are labels
    return Detected(corpus, content, previews)


def _catalog_task(name: str) -> str | None:
    entry = catalog.find(name)
    return None if entry is None or os.path.lexists(name) else entry.task


def is_parallel(files: Sequence[str], previews: FilePreviews) -> bool:
    """Whether files are plainly for translation, and neither text for a language model nor labelled examples."""
    if not files:
        return False
    paths = [Path(name) for name in files]
    try:
        if all(_catalog_task(name) == "translation" for name in files):
            return True
        if len(paths) == 1 and (paths[0].is_dir() or is_zip(paths[0])):
            return _aligned_files(files, previews)
        if not all(path.is_file() for path in paths):
            return False
        pairs = list(zip(paths[::2], paths[1::2], strict=False))
        if len(paths) % 2 == 0 and all(file_pair_languages(first.name, second.name) for first, second in pairs):
            return _aligned_files(files, previews)
        return all(_table_of_pairs(Source(path), previews) for path in paths)
    except AmbiguousLanguagesError:  # of a folder; which languages are meant is asked where it is read
        return True
    except _FAILURES:
        return False


def _aligned_files(files: Sequence[str], previews: FilePreviews) -> bool:
    config = ParallelConfig(files=tuple(files), encoding=previews.encoding)
    return all(_lines_match(group, previews) for group in find_pairs(config, Findings(), previews=previews).train)


def _lines_match(group: PairFiles, previews: FilePreviews) -> bool:
    """Whether the first lines of two files agree: a tenth may be blank in one alone, and one is up to 4 times as long.

    All lines are counted where the files are read: a file that lost its end is refused there, not taken for plain text.
    """
    if group.second is None:
        return _table_of_pairs(group.first, previews)
    sources, targets = (
        list(
            islice(
                read_aligned_lines(file, previews.encoding, Findings(), chunks=previews.chunks(file)), COMPARED_LINES
            )
        )
        for file in (group.first, group.second)
    )
    if not sources or not targets:
        return bool(sources or targets)
    both = list(zip(sources, targets, strict=False))
    unmatched = sum(bool(source.strip()) != bool(target.strip()) for source, target in both)
    return unmatched <= FEW * len(both) and _same_length(*zip(*both, strict=True))


def _same_length(first: Sequence[str], second: Sequence[str]) -> bool:
    shorter, longer = sorted(sum(map(len, texts)) for texts in (first, second))
    return longer <= MAX_LENGTH_RATIO * max(1, shorter)


def _table_of_pairs(source: Source, previews: FilePreviews) -> bool:
    if previews.kind(source) != "table":
        return False
    config = ParallelConfig(files=(), encoding=previews.encoding)
    table = previews.table(source, header_rule(config))
    columns = table.columns
    if not table.sample:
        return False
    if nested_pair(table, config) is not None:
        return True
    if (named := pair_by_name(columns, TRANSLATION_PAIRS)) is not None:
        return _look_translated(table, named)
    if (
        not table.has_numbered_columns
        or source.format not in ("table", "text")
        or source.suffix == ".csv"
        or looks_labelled(table)
    ):
        return False
    if len(columns) == 3 and not all(str(row[2]).startswith(_ATTRIBUTION) for _, row in table.sample):
        return False
    return 2 <= len(columns) <= 3 and _look_translated(table, (columns[0], columns[1]))


def _look_translated(table: Table, columns: Direction) -> bool:
    """Whether two columns hold sentences of comparable length: no labels, no numbers, in one mostly several words."""
    texts = [[str(value or "").strip() for value in table.sample_column(table.columns.index(name))] for name in columns]
    for column in texts:
        if len(set(column)) < len(column) / 4 or sum(map(is_number, column)) > FEW * len(column):
            return False
    spaced = max(sum(" " in text for text in column) for column in texts)
    return _same_length(*texts) and spaced > len(table.sample) / 2


def is_labelled(files: Sequence[str], previews: FilePreviews, pattern: str | None = None) -> bool:
    """Whether files are plainly labelled examples, and no text for a language model."""
    try:
        return bool(files) and all(_has_labels(name, previews, pattern) for name in files)
    except _FAILURES:
        return False


def _has_labels(name: str, previews: FilePreviews, pattern: str | None) -> bool:
    if (task := _catalog_task(name)) is not None:
        return task not in ("language modelling", "translation")
    path = Path(name)
    if not path.is_dir() and not (path.is_file() and is_zip(path)):
        return path.is_file() and _file_has_labels(Source(path), previews)
    config = ExamplesConfig(files=(name,), encoding=previews.encoding, filter=pattern)
    files = find_examples(config, Findings(), previews=previews).all()
    data = [file for file in files if file.kind in LABELLED_KINDS]
    if not data:
        return all(file.kind == "image" for file in files) or _folders_are_labels(files)
    texts = 0
    if path.is_dir() and not pattern:
        texts = sum(not _ABOUT_THE_DATA.search(text.name) for text in path.rglob("*.txt"))
    return len(data) > texts and all(_file_has_labels(file.source, previews) for file in data[:3])


def _file_has_labels(source: Source, previews: FilePreviews) -> bool:
    kind = previews.kind(source)
    if kind != "table" or source.suffix in DELIMITERS:
        return kind in LABELLED_KINDS
    table = previews.table(source)
    return looks_labelled(table) or holds_numbers(table, ExamplesConfig(files=()))


def _folders_are_labels(files: Sequence[ExampleFile]) -> bool:
    """Whether train and test (or dev) have the same sub-folders, or all folders have names that only labels have."""
    splits: dict[str | None, set[str]] = {}
    for file in files:
        splits.setdefault(file.split, set()).add(file.label or "")
    train = splits.get("train", set())
    if len(train) > 1 and len(splits) > 1 and all(labels == train for labels in splits.values()):
        return True
    return {label.lower() for labels in splits.values() for label in labels} in LABEL_NAMES


def _label_folders(name: str, previews: FilePreviews) -> tuple[str, ...]:
    """The folders that a folder of texts is divided into, where all of its files lie in them."""
    findings = Findings()
    try:
        if not Path(name).is_dir():
            return ()
        config = ExamplesConfig(files=(name,), encoding=previews.encoding)
        files = find_examples(config, findings, previews=previews).all()
    except _FAILURES:
        return ()
    labels = sorted({file.label for file in files if file.label is not None})
    divided = 1 < len(labels) <= MOST_LABEL_FOLDERS and not findings.skipped["without labels"]
    return tuple(labels) if divided else ()

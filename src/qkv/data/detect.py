"""What files are, told by one look at them: text for a language model, examples with labels, or parallel text.

Every file is opened once. `Detected` carries the beginnings of the files on to whoever reads them, so that nothing is
recognised twice. Looking raises nothing: what is wrong with a file is said where it is read.
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
from qkv.data.columns import header_of, looks_labelled, nested_pair, pair_by_name
from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.examples import Direction
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats.aligned import aligned, lines
from qkv.data.formats.column_names import TRANSLATION
from qkv.data.formats.delimited import is_number
from qkv.data.formats.kinds import DATA_KINDS, Beginnings
from qkv.data.formats.tabular import Table
from qkv.data.number_tables import holds_numbers
from qkv.data.split_files import AmbiguousLanguagesError, ExampleFile, PairFiles, find_examples, find_pairs
from qkv.errors import DataError, QkvError

Content = Literal["text", "examples", "pairs"]

PAIRED = ("source", "target", "languages", "directions")
"""Keys of a corpus that only parallel text has."""
LABELLED = ("label", "text2", "id", "task", "header")
"""Keys of a corpus that only examples with labels have."""


@contextmanager
def naming_options(given: Mapping[str, Any]) -> Iterator[None]:
    """Within it, files that cannot be read are refused with the options that decided what they are."""
    try:
        yield
    except DataError as error:
        if names := [f"--{key}" for key in ("documents", *PAIRED, "metric") if given.get(key)]:
            error.args = (f"{error} They are read so because of {' and '.join(names)}.",)
        raise


MOST_FOLDERS = 20  # that may be labels; more are a tree of somebody's files
OPPOSITES = ({"neg", "pos"}, {"negative", "positive"}, {"negative", "neutral", "positive"}, {"ham", "spam"})
_ASIDE = re.compile(r"(?i)licen[cs]e|readme|copying|notice")
LINES = 100  # at the beginning of two files that may be aligned
FEW = 0.1
MOST_UNEQUAL = 4
"""Texts of two columns that translate each other are, in the mean, of about one length."""
_ATTRIBUTION = "CC-BY"
_FAILURES = (QkvError, OSError, TypeError, ValueError, LookupError)


@dataclass(frozen=True)
class Detected:
    """What the files of a corpus hold."""

    corpus: Mapping[str, Any]
    content: Content
    beginnings: Beginnings
    """Of the files, for those who read them."""

    @property
    def columns_given(self) -> bool:
        """Whether the columns of labelled examples are named, whatever the files look like."""
        return any(self.corpus.get(name) is not None for name in LABELLED)

    @cached_property
    def numeric(self) -> bool:
        """Whether the files, taken as examples, are rows of numbers."""
        return _Detection(self.beginnings).numeric(self.corpus)

    @cached_property
    def label_folders(self) -> tuple[str, ...]:
        """The folders that a folder of texts is divided into: they may be meant as labels."""
        files = list(self.corpus.get("files") or ())
        return _Detection(self.beginnings).label_folders(str(files[0])) if len(files) == 1 else ()


def detect(corpus: Mapping[str, Any]) -> Detected:
    """What the files of a recipe's corpus hold, by its options and by one look at the files."""
    files = [str(name) for name in corpus.get("files") or ()]
    documents, pattern = corpus.get("documents"), corpus.get("filter")
    look = _Detection(Beginnings(str(corpus.get("encoding") or "utf-8")))
    content: Content = "text"
    if any(corpus.get(name) is not None for name in LABELLED):
        content = "examples"
    elif any(corpus.get(name) for name in PAIRED) or (not documents and not pattern and look.parallel(files)):
        content = "pairs"
    elif not documents and look.labelled(files, pattern):
        content = "examples"
    elif corpus.get("test") and files and all(look.label_folders(name) for name in files):
        content = "examples"  # only labelled examples are tested, so the folders are labels
    return Detected(corpus, content, look.beginnings)


def parallel(files: Sequence[str], encoding: str, beginnings: Beginnings | None = None) -> bool:
    """Whether files are plainly for translation, and neither text for a language model nor examples with labels."""
    return _Detection(beginnings or Beginnings(encoding)).parallel(files)


def labelled(
    files: Sequence[str], encoding: str, pattern: str | None = None, beginnings: Beginnings | None = None
) -> bool:
    """Whether files are plainly examples with labels and no text for a language model."""
    return _Detection(beginnings or Beginnings(encoding)).labelled(files, pattern)


class _Detection:
    """One look at the files of a corpus."""

    def __init__(self, beginnings: Beginnings) -> None:
        self.beginnings = beginnings
        self.encoding = beginnings.encoding

    def parallel(self, files: Sequence[str]) -> bool:
        if not files:
            return False
        try:
            return all(_catalog_task(name) == "translation" for name in files) or self._pairs(files)
        except _FAILURES:
            return False

    def _pairs(self, files: Sequence[str]) -> bool:
        paths = [Path(name) for name in files]
        if len(paths) == 1 and (paths[0].is_dir() or paths[0].suffix.lower() == ".zip"):
            return self._folder_of_pairs(files[0])
        if not all(path.is_file() for path in paths):
            return False
        twos = list(zip(paths[::2], paths[1::2], strict=False))
        if len(paths) % 2 == 0 and all(aligned(first.name, second.name) for first, second in twos):
            config = ParallelConfig(files=tuple(files), encoding=self.encoding)
            groups = find_pairs(config, Findings(), beginnings=self.beginnings)
            return all(self._in_step(group) for group in groups.train)
        return all(self._table_of_pairs(Source(path)) for path in paths)

    def _folder_of_pairs(self, name: str) -> bool:
        """A folder or archive: its pairs of files, or nothing but a table of pairs and what is said about it."""
        config = ParallelConfig(files=(name,), encoding=self.encoding)
        try:
            groups = find_pairs(config, Findings(), beginnings=self.beginnings)
        except AmbiguousLanguagesError:
            return True
        return all(self._in_step(group) for group in groups.train)

    def _in_step(self, group: PairFiles) -> bool:
        """Whether the first lines of two files are filled in the same places and of about one length; how many there
        are is counted where they are read, so that a file that lost its end is refused and not taken for plain text."""
        if group.second is None:
            return self._table_of_pairs(group.first)
        findings = Findings()
        files = (group.first, group.second)
        both = [
            list(islice(lines(each, self.encoding, findings, chunks=self.beginnings.chunks(each)), LINES))
            for each in files
        ]
        if not both[0] or not both[1]:
            return bool(both[0] or both[1])
        shared = list(zip(*both, strict=False))
        apart = sum(bool(one.strip()) != bool(other.strip()) for one, other in shared)
        sizes = sorted(sum(map(len, some)) for some in zip(*shared, strict=True))
        return apart <= FEW * len(shared) and sizes[1] <= MOST_UNEQUAL * max(1, sizes[0])

    def _table_of_pairs(self, source: Source) -> bool:
        if self.beginnings.kind(source) != "table":
            return False
        config = ParallelConfig(files=(), encoding=self.encoding)
        table = self.beginnings.table(source, header_of(config))
        if not table.sample:
            return False
        if nested_pair(table, config) is not None:
            return True
        if (named := pair_by_name(table.columns, TRANSLATION)) is not None:
            return _translate(table, named)
        if (
            not table.numbered
            or source.format not in ("table", "text")
            or source.suffix == ".csv"
            or looks_labelled(table)
        ):
            return False
        owed = all(str(row[2]).startswith(_ATTRIBUTION) for _, row in table.sample) if len(table.columns) == 3 else True
        return 2 <= len(table.columns) <= 3 and owed and _translate(table, (table.columns[0], table.columns[1]))

    def labelled(self, files: Sequence[str], pattern: str | None) -> bool:
        return bool(files) and all(self._has_labels(name, pattern) for name in files)

    def _has_labels(self, name: str, pattern: str | None) -> bool:
        if (task := _catalog_task(name)) is not None:
            return task not in ("language modelling", "translation")
        path = Path(name)
        try:
            if path.is_dir() or (path.is_file() and path.suffix.lower() == ".zip"):
                return self._folder_of_examples(name, pattern)
            return path.is_file() and self._file_of_examples(Source(path))
        except _FAILURES:
            return False

    def _folder_of_examples(self, name: str, pattern: str | None) -> bool:
        config = ExamplesConfig(files=(name,), encoding=self.encoding, filter=pattern)
        items = find_examples(config, Findings(), beginnings=self.beginnings).all()
        data = [item for item in items if item.kind in DATA_KINDS]
        if not data:
            return all(item.kind == "picture" for item in items) or _same_on_both_sides(items) or _opposites(items)
        texts = 0
        if Path(name).is_dir() and not pattern:
            texts = sum(not _ASIDE.search(path.name) for path in Path(name).rglob("*.txt"))
        return len(data) > texts and all(self._file_of_examples(item.source) for item in data[:3])

    def _file_of_examples(self, source: Source) -> bool:
        kind = self.beginnings.kind(source)
        if kind != "table" or source.suffix in (".csv", ".tsv"):
            return kind in DATA_KINDS
        table = self.beginnings.table(source)
        return looks_labelled(table) or holds_numbers(table, ExamplesConfig(files=()))

    def label_folders(self, name: str) -> tuple[str, ...]:
        """The folders that a folder of texts is divided into, where all lie in them."""
        try:
            if not Path(name).is_dir():
                return ()
            findings = Findings()
            config = ExamplesConfig(files=(name,), encoding=self.encoding)
            items = find_examples(config, findings, beginnings=self.beginnings).all()
        except _FAILURES:
            return ()
        labels = sorted({item.label for item in items if item.label is not None})
        divided = 1 < len(labels) <= MOST_FOLDERS and not findings.skipped["without labels"]
        return tuple(labels) if divided else ()

    def numeric(self, corpus: Mapping[str, Any]) -> bool:
        """Whether examples are, by the first file, rows of numbers."""
        try:
            given = {key: value for key, value in corpus.items() if value is not None}
            config = ExamplesConfig(**{**given, "files": tuple(given.get("files", ()))})
            first = find_examples(config, Findings(), beginnings=self.beginnings).train[0]
            return first.kind == "table" and holds_numbers(self.beginnings.table(first.source, config.header), config)
        except _FAILURES:
            return False


def _catalog_task(name: str) -> str | None:
    entry = catalog.find(name)
    return None if entry is None or os.path.lexists(name) else entry.task


def _same_on_both_sides(items: Sequence[ExampleFile]) -> bool:
    """Whether folders named train and test (or dev) have the same folders inside: then those are labels."""
    sides: dict[str | None, set[str | None]] = {}
    for item in items:
        sides.setdefault(item.split, set()).add(item.label)
    first = sides.get("train", set())
    return len(first) > 1 and len(sides) > 1 and all(labels == first for labels in sides.values())


def _opposites(items: Sequence[ExampleFile]) -> bool:
    """Whether all texts are in folders that are called as nothing but labels are."""
    return {(item.label or "").lower() for item in items} in OPPOSITES


def _translate(table: Table, columns: Direction) -> bool:
    """Whether two columns hold sentences of about one length: no labels, no numbers, no names of things."""
    rows = [row for _, row in table.sample]
    first, second = ([str(row[table.columns.index(column)] or "").strip() for row in rows] for column in columns)
    for column in (first, second):
        if len(set(column)) < len(column) / 4 or sum(map(is_number, column)) > FEW * len(column):
            return False
    sizes = sorted(sum(map(len, column)) for column in (first, second))
    spaced = max(sum(" " in text for text in column) for column in (first, second))
    return sizes[1] <= MOST_UNEQUAL * max(1, sizes[0]) and spaced > len(rows) / 2

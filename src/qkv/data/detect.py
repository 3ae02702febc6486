"""Detects what files contain, for all commands: plain text, labelled examples, or parallel text.

`Detected` keeps the previews of the files for the readers, so that files are opened only once. Detection raises
no errors: a file that cannot be read is refused where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from qkv.data.columns import header_rule
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.detect_pairs import READ_ERRORS, catalog_task, is_parallel
from qkv.data.example_files import find_examples
from qkv.data.files.archives import is_archive
from qkv.data.files.unpack import Source
from qkv.data.findings import Assumption, Findings
from qkv.data.formats.kinds import IMAGE_KINDS, FilePreviews
from qkv.data.formats.labelled_lines import LabelledLines
from qkv.data.layouts import find_layout, label_folders
from qkv.data.layouts.labels_in_files import has_labels
from qkv.data.number_tables import holds_numbers
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError

Content = Literal["text", "examples", "pairs"]

CONFIGS: dict[Content, type] = {"text": CorpusConfig, "examples": ExamplesConfig, "pairs": ParallelConfig}
"""The class of the section [corpus] for each content."""
PARALLEL_OPTIONS = ("source", "target", "languages", "directions")
"""Options that only parallel text has."""
LABELLED_OPTIONS = ("label", "labels", "text2", "id", "task", "header")
"""Options that make files labelled examples."""
MAX_LABEL_FOLDERS = 20
"""A folder with more sub-folders is an ordinary file tree: its sub-folders are not labels."""


@contextmanager
def report_deciding_options(given: Mapping[str, Any]) -> Iterator[None]:
    """Add to a DataError raised in this context the options that decided how the files are read."""
    try:
        yield
    except DataError as error:
        deciding = ["documents", *PARALLEL_OPTIONS, "metric"]
        if detect({key: value for key, value in given.items() if key not in LABELLED_OPTIONS}).content != "examples":
            deciding += LABELLED_OPTIONS
        if names := [f"--{key}" for key in deciding if given.get(key)]:
            error.args = (f"{error} The files are read this way because of {' and '.join(names)}.",)
        raise


@dataclass(frozen=True)
class Detected:
    """What the files of a corpus contain."""

    corpus: Mapping[str, Any]
    content: Content
    previews: FilePreviews

    @property
    def labelled_options_given(self) -> bool:
        """Whether an option of labelled examples is given."""
        return any(self.corpus.get(name) is not None for name in LABELLED_OPTIONS)

    @cached_property
    def numeric(self) -> bool:
        """Whether the first file, read as labelled examples, contains rows of numbers."""
        first = self._first_examples
        if first is None or first.kind != "table":
            return False
        try:
            config = self._examples_config()
            return holds_numbers(self.previews.table(first.source, header_rule(config)), config)
        except READ_ERRORS:
            return False

    @property
    def images(self) -> bool:
        """Whether the first file, read as labelled examples, contains images."""
        return self._first_examples is not None and self._first_examples.kind in IMAGE_KINDS

    @property
    def inputs(self) -> Literal["text", "images", "numbers"]:
        """The kind of input, from the first file; text if it is not known before the examples are read."""
        return "images" if self.images else "numbers" if self.numeric else "text"

    @cached_property
    def _first_examples(self) -> ExampleFile | None:
        try:
            return find_examples(self._examples_config(), Findings(), previews=self.previews).train[0]
        except READ_ERRORS:
            return None

    def _examples_config(self) -> ExamplesConfig:
        given = {key: value for key, value in self.corpus.items() if value is not None}
        return ExamplesConfig(**{**given, "files": tuple(given.get("files", ()))})

    @cached_property
    def label_folders(self) -> tuple[str, ...]:
        """The sub-folders of a folder of texts, which may be meant as labels."""
        files = list(self.corpus.get("files") or ())
        return _label_folders(str(files[0]), self.previews) if len(files) == 1 else ()

    @property
    def text_notes(self) -> tuple[str, ...]:
        """Notes on possible labels in files that are read as text, with the option that reads them as labels."""
        files = [str(name) for name in self.corpus.get("files") or ()]
        notes = []
        if names := self.label_folders:
            listed = f"{', '.join(names[:5])}{', ...' if names[5:] else ''}"
            notes.append(f"{files[0]}: texts in {len(names)} folders ({listed})")
        if len(files) == 1 and (layout := self._ambiguous_lines(Path(files[0]))) is not None:
            notes.append(f"{files[0]}: it may have {layout.description}; it is read as text")
        return tuple(Assumption(f"{note}; if these are labels, give --task classification.") for note in notes)

    def _ambiguous_lines(self, path: Path) -> LabelledLines | None:
        """Where labels may be in the lines of a file that is read as text."""
        try:
            source = Source(path)
            if not path.is_file() or source.format != "text" or self.previews.kind(source) != "text":
                return None
            return self.previews.table(source).layout
        except READ_ERRORS:
            return None


def detect(corpus: Mapping[str, Any]) -> Detected:
    """Detect what the files of a recipe's `corpus` section contain, from its options and their first rows."""
    files = [str(name) for name in corpus.get("files") or ()]
    documents, pattern = corpus.get("documents"), corpus.get("filter")
    previews = FilePreviews(corpus.get("encoding"))
    has_labelled_options = any(corpus.get(name) is not None for name in LABELLED_OPTIONS)
    has_parallel_options = any(corpus.get(name) for name in PARALLEL_OPTIONS)
    content: Content = "text"
    if has_labelled_options:
        content = "examples"
    elif has_parallel_options or (not documents and is_parallel(files, previews, pattern)):
        content = "pairs"
    elif not documents and is_labelled(files, previews, pattern):
        content = "examples"
    elif corpus.get("test") and files and all(_label_folders(name, previews) for name in files):
        content = "examples"  # a language model has no test set, so the folders are labels
    return Detected(corpus, content, previews)


def is_labelled(files: Sequence[str], previews: FilePreviews, pattern: str | None = None) -> bool:
    """Whether files are clearly labelled examples, and not text for a language model."""
    try:
        return bool(files) and all(_has_labels(name, previews, pattern) for name in files)
    except READ_ERRORS:
        return False


def _has_labels(name: str, previews: FilePreviews, pattern: str | None) -> bool:
    """Whether a file, a folder, an archive or a set of the catalog contains labelled examples."""
    if (task := catalog_task(name)) is not None:
        return task not in ("language modelling", "translation")
    path = Path(name)
    if not path.is_dir() and not (path.is_file() and is_archive(path)):
        return path.is_file() and has_labels(Source(path), previews)
    config = ExamplesConfig(files=(name,), encoding=previews.encoding, filter=pattern)
    layout = find_layout(path, config, previews, Findings())
    return layout is not None and layout.certain


def _label_folders(name: str, previews: FilePreviews) -> tuple[str, ...]:
    """The sub-folders of a folder or archive of texts; none if some of its files are not in sub-folders."""
    path = Path(name)
    try:
        labels = label_folders(path, previews) if path.is_dir() or (path.is_file() and is_archive(path)) else []
    except READ_ERRORS:
        return ()
    return tuple(labels) if 1 < len(labels) <= MAX_LABEL_FOLDERS else ()

"""The files of labelled examples; and the split of any file, which words in its name tell.

Files without labels of their own have the name of their sub-folder as label, unless it names a split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Direction
from qkv.data.files.archives import is_archive
from qkv.data.files.discover import catalog_entry, leads_to_folder, list_files
from qkv.data.files.unpack import Source, require_packages
from qkv.data.findings import Assumption, Findings, Progress, display_name, no_progress
from qkv.data.formats.aligned import SOURCE, TARGET
from qkv.data.formats.column_names import SPLIT_WORDS, SPLITS, Split, split_of
from qkv.data.formats.kinds import LABELLED_KINDS, FileKind, FilePreviews, kind_by_name
from qkv.data.formats.tabular import Table, splits_in
from qkv.errors import DataError

MAX_OPENED_FILES = 50
"""Where there are more files, those in sub-folders are labelled data, or tables of pairs, only by their names."""
UNLABELLED_FOLDERS = ("unsup", "unlabelled", "unlabeled")
UNKNOWN_LANGUAGES = (SOURCE, TARGET)


@dataclass(frozen=True)
class ExampleFile:
    """A file of labelled examples, and the split that its name tells."""

    source: Source
    kind: FileKind
    split: Split | None = None
    label: str | None = None
    """The name of its folder, where folders are labels."""
    discovered: bool = False
    """Whether it comes from a folder, an archive or the catalog; false for a file that the user named."""

    @property
    def display_name(self) -> str:
        return self.source.display_name

    def of_split(self, split: Split) -> ExampleFile:
        """The rows of this split."""
        return replace(self, source=replace(self.source, split=split), split=split)


@dataclass(frozen=True)
class PairFiles:
    """Two line-aligned files, or a table."""

    first: Source
    second: Source | None
    """None for a table."""
    languages: Direction
    discovered: bool = False
    """Whether they come from a folder, an archive or the catalog."""

    @property
    def split(self) -> Split | None:
        return split_of(self.first.split or self.first.file_name)

    @property
    def display_name(self) -> str:
        if self.second is None:
            return self.first.display_name
        return f"{self.first.display_name} and {self.second.display_name}"

    def of_split(self, split: Split) -> PairFiles:
        """The rows of this split."""
        return replace(self, first=replace(self.first, split=split))


File = TypeVar("File", ExampleFile, PairFiles)


@dataclass
class SplitFiles(Generic[File]):
    train: list[File] = field(default_factory=list)
    valid: list[File] = field(default_factory=list)
    test: list[File] = field(default_factory=list)

    def all(self) -> list[File]:
        return self.train + self.valid + self.test

    def items(self) -> Iterator[tuple[Split, list[File]]]:
        """The splits that have files."""
        return ((name, files) for name in SPLITS if (files := getattr(self, name)))

    @classmethod
    def assign(cls, files: list[File], valid: list[File], test: list[File], findings: Findings) -> SplitFiles[File]:
        """Assign files to splits by their names, unless the user named validation or test files."""
        if valid or test:  # then only the training files of a folder are used
            train = [file for file in files if file.split in ("train", None) or not file.discovered]
            return cls(train or files, valid, test)
        if len({file.split for file in files}) < 2:
            return cls(files)
        splits = cls(*([file for file in files if (file.split or "train") == name] for name in SPLITS))
        if not splits.train:  # there are only validation and test files
            findings.add_note(Assumption(f"no file is named train: {splits.valid[0].display_name} is learned from."))
            splits.train, splits.valid = splits.valid, []
        return splits


def split_tables(
    files: SplitFiles[File], open_rows: Callable[[File], Table | None], others_given: bool, findings: Findings
) -> SplitFiles[File]:
    """Assign the rows of tables with a column of splits to these; only the training rows if other files are given.

    `open_rows` opens a file that is a table.
    """
    found = SplitFiles[File](valid=files.valid, test=files.test)
    for file in files.train:
        table = open_rows(file)
        splits = splits_in(table) if table is not None else []
        if table is None or len(splits) < 2:
            found.train.append(file)
            continue
        findings.add_note(f"{table.where}: the rows of each split are those that {table.split_column!r} names.")
        for split in splits[:1] if others_given else splits:
            getattr(found, split).append(file.of_split(split))
    return found if found.train else SplitFiles.assign(found.all(), [], [], findings)


def is_container(name: str, content: str) -> bool:
    """Whether a name leads to a folder or an archive, not to another file; DataError if it leads nowhere."""
    if name == "-":
        raise DataError("standard input", f"{content} are read from files", "Put it into a file.")
    return leads_to_folder(Path(name), "Put it into a file.") or is_archive(Path(name))


def find_examples(
    config: ExamplesConfig, findings: Findings, progress: Progress = no_progress, previews: FilePreviews | None = None
) -> SplitFiles[ExampleFile]:
    """The files of labelled examples; DataError for a name that leads to none."""
    previews = previews or FilePreviews(config.encoding)
    if not config.files:
        raise DataError("the examples", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    files, valid, test = (
        [file for name in names for file in _example_files(name, config, findings, progress, previews)]
        for names in (config.files, config.valid, config.test)
    )
    require_packages(file.source for file in (*files, *valid, *test))
    return SplitFiles.assign(files, valid, test, findings)


def _example_files(
    name: str, config: ExamplesConfig, findings: Findings, progress: Progress, previews: FilePreviews
) -> list[ExampleFile]:
    """The files of labelled examples that a name stands for."""
    if entry := catalog_entry(name):
        if entry.task in ("language modelling", "translation"):
            raise DataError(name, f"is a set for {entry.task}: it has no labels", "See `qkv data list`.")
        catalog_files: list[ExampleFile] = []
        for file in entry.files:
            source = Source(file.obtain(progress))
            split: Split = "valid" if file in entry.valid else "train"
            catalog_files.append(ExampleFile(source, previews.kind(source), split, discovered=True))
        return catalog_files
    if not is_container(name, "examples"):
        source = Source(Path(name))
        return [ExampleFile(source, previews.kind(source), split_of(source.file_name))]
    contents = list_files(Path(name), config.filter, findings)
    with_labels: list[ExampleFile] = []
    in_label_folders: list[ExampleFile] = []
    for source, inner_path, _ in contents:
        folders = inner_path.parts[:-1]
        folder_split = next((SPLIT_WORDS[folder.lower()] for folder in folders if folder.lower() in SPLIT_WORDS), None)
        label_folders = [folder for folder in folders if folder.lower() not in SPLIT_WORDS]
        few = len(contents) <= MAX_OPENED_FILES or source.format == "json"
        kind = previews.kind(source) if few or not label_folders else kind_by_name(source)
        if kind in LABELLED_KINDS:
            with_labels.append(ExampleFile(source, kind, folder_split or split_of(inner_path.name), discovered=True))
        elif label_folders and label_folders[-1].lower() not in UNLABELLED_FOLDERS:
            label = display_name(label_folders[-1])
            in_label_folders.append(ExampleFile(source, kind or "text", folder_split, label, discovered=True))
    labelled = with_labels or in_label_folders
    if unused := len(contents) - len(labelled):
        findings.skipped["without labels"] += unused
    if not labelled:
        subject = f"no file that matches {config.filter!r}" if config.filter else "nothing in it"
        remedy = "Expected tables, CoNLL, idx or npz files, or sub-folders named for the labels."
        raise DataError(display_name(name), f"{subject} looks like labelled data", remedy)
    return labelled

"""Files of labelled examples and of parallel text, and the splits they are in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from qkv.data.examples import Direction
from qkv.data.files.archives import is_archive
from qkv.data.files.discover import leads_to_folder
from qkv.data.files.unpack import Source
from qkv.data.findings import Assumption, Findings
from qkv.data.formats.aligned import SOURCE, TARGET
from qkv.data.formats.column_names import SPLITS, Split, split_of
from qkv.data.formats.kinds import FileKind
from qkv.data.formats.tabular import Table
from qkv.errors import DataError
from qkv.visible import counted, visible

MAX_OPENED_FILES = 50
"""Where there are more files, those in sub-folders are labelled data, or tables of pairs, only by their names."""
MAX_NAMES = 5
"""How many names of a split are listed."""
UNKNOWN_LANGUAGES = (SOURCE, TARGET)


@dataclass(frozen=True)
class LabelSource:
    """Another file that has the labels of the examples of a file: line by line, or by id."""

    source: Source
    text_id: str | None = None
    """The column of the ids in the file of the texts; None: the labels are line by line."""
    label_id: str = ""
    """The column of the ids in this file."""
    label: str = "label"
    """The column of the labels in this file."""
    names: tuple[tuple[str, str], ...] = ()
    """The names of labels that are numbers, if a file lists them."""


@dataclass(frozen=True)
class ExampleFile:
    """A file of labelled examples, and the split that it is named for."""

    source: Source
    kind: FileKind
    split: Split | None = None
    label: str | None = None
    """The label of all its examples, if the file or its folder is named for a label."""
    discovered: bool = False
    """Whether it comes from a folder, an archive or the catalog; false for a file that the user named."""
    labels: LabelSource | None = None
    """Where the labels are, if they are in another file."""

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

    def to_score(self, findings: Findings) -> SplitFiles[File]:
        """The files to score a trained model on: the test files, else the validation files, else all."""
        held_out = self.test or self.valid
        if held_out:
            split = "test" if self.test else "validation"
            names = ", ".join(dict.fromkeys(file.display_name for file in held_out))
            note = f"scored on the {split} split, {names}; to score other files, name them."
            findings.add_note(Assumption(note))
        return SplitFiles(held_out or self.train)

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
        names = _split_names(table) if table is not None else {}
        splits = [split for split in names if split is not None]
        if table is None or len(splits) < 2:
            found.train.append(file)
            continue
        read = splits[:1] if others_given else splits
        findings.add_note(_splits_note(table, names, read))
        for split in read:
            getattr(found, split).append(file.of_split(split))
    return found if found.train else SplitFiles.assign(found.all(), [], [], findings)


def _split_names(table: Table) -> dict[Split | None, Counter[str]]:
    """How many rows have which name in the column of splits, by the split it means; all rows are read."""
    if table.split_column is None:
        return {}
    column = table.columns.index(table.split_column)
    counts = Counter(str(row[column]) for _, row in table.rows)
    found = {
        split: Counter({name: count for name, count in counts.items() if split_of(name) == split})
        for split in (*SPLITS, None)
    }
    return {split: names for split, names in found.items() if names}


def _splits_note(table: Table, names: Mapping[Split | None, Counter[str]], read: Sequence[Split]) -> str:
    """Which rows belong to which split, by the names in a column or by the keys of a JSON object."""
    column = table.split_column or ""
    by = "the keys of the JSON object" if table.holds_keys(column) else f"the column {column!r}"
    parts: dict[str, list[str]] = {}
    for split, counts in names.items():
        part = parts.setdefault(split if split is not None and split in read else "not used", [])
        part += [f"{name!r} ({counted(count, 'row')})" for name, count in counts.most_common(MAX_NAMES)]
        part += [f"{len(counts) - MAX_NAMES:,} more"] * (len(counts) > MAX_NAMES)
    listed = "; ".join(f"{part}: {', '.join(named)}" for part, named in parts.items())
    return visible(f"{table.where}: splits by {by}: {listed}.")


def is_container(name: str, content: str) -> bool:
    """Whether a name is that of a folder or an archive, not of another file; DataError if there is no such file."""
    if name == "-":
        raise DataError("standard input", f"{content} are read from files", "Put it into a file.")
    return leads_to_folder(Path(name), "Put it into a file.") or is_archive(Path(name))

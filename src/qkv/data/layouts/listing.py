"""The files of a folder or archive that layouts examine, and the result of a layout: files, splits and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePosixPath

from qkv.data.files.discover import ListedFile
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings, display_name
from qkv.data.formats.column_names import Split, split_of
from qkv.data.formats.kinds import FileKind, FilePreviews, kind_by_name
from qkv.data.split_files import MAX_OPENED_FILES, ExampleFile

UNLABELLED_FOLDERS = ("unsup", "unlabelled", "unlabeled")
MIN_SIDE_FILES, MAX_SIDE_SHARE = 2, 0.05
"""How many files may lie above folders that are labels: these, or this share of the examples."""
_SNIFFED_PER_SUFFIX = 3
"""In a folder of many files, the kind of each suffix is decided by this many files."""


@dataclass(frozen=True)
class Listing:
    """The files of a folder or archive that may hold examples."""

    path: Path
    files: tuple[ListedFile, ...]
    previews: FilePreviews
    findings: Findings
    """What was noticed while the files were listed."""
    is_filtered: bool = False
    """Whether the files were chosen with --filter."""
    header: bool | None = None
    _suffix_kinds: dict[str, FileKind] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return display_name(self.path)

    def kind(self, file: ListedFile) -> FileKind:
        """The kind of a file, by its name or first lines. Of many files, only the first of each suffix are opened."""
        source = file.source
        if len(self.files) <= MAX_OPENED_FILES or (source.format == "json" and len(self.files) <= 1000):
            return self.previews.kind(source)
        if (by_name := kind_by_name(source)) is not None:
            return by_name
        if source.suffix not in self._suffix_kinds:
            same = [other.source for other in self.files if other.source.suffix == source.suffix]
            kinds = {self.previews.kind(other) for other in same[:_SNIFFED_PER_SUFFIX]}
            self._suffix_kinds[source.suffix] = kinds.pop() if len(kinds) == 1 else "text"
        return self._suffix_kinds[source.suffix]

    def of_kinds(self, *kinds: FileKind) -> list[ListedFile]:
        return [file for file in self.files if self.kind(file) in kinds]

    @cached_property
    def texts(self) -> list[ListedFile]:
        """The files of plain text or of documents."""
        return [file for file in self.of_kinds("text") if file.source.format not in ("json", "jsonl")]

    @cached_property
    def _root_depth(self) -> int:
        """How many parent folders all files share."""
        folders = [_without_splits(file.path.parent) for file in self.files]
        if not folders:
            return 0
        return len(list(takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))))

    def folders(self, file: ListedFile) -> tuple[str, ...]:
        """The folders that contain a file, without those that all files share and those named for a split."""
        return _without_splits(file.path.parent)[self._root_depth :]

    @cached_property
    def _is_flat(self) -> bool:
        return all(not self.folders(file) for file in self.files)

    def label_folder(self, file: ListedFile) -> str | None:
        """The folder that may be the label of a file: the innermost one that is not named for a split."""
        folders = self.folders(file)
        if self._is_flat:  # a single folder
            folders = _without_splits(file.path.parent)
        return folders[-1] if folders and folders[-1].lower() not in UNLABELLED_FOLDERS else None

    def are_side_files(self, others: Collection[ListedFile], examples: Collection[ListedFile]) -> bool:
        """Whether files are a few, directly above the folders of the examples: a README, an overview of the others."""
        few = len(others) <= max(MIN_SIDE_FILES, int(MAX_SIDE_SHARE * len(examples)))
        return few and not any(self.folders(file) for file in others)

    def example_file(
        self, file: ListedFile, kind: FileKind | None = None, label: str | None = None, **more: object
    ) -> ExampleFile:
        shown = None if label is None else display_name(label)
        return ExampleFile(file.source, kind or self.kind(file), split_of_path(file.path), shown, True, **more)  # type: ignore[arg-type]

    def lines(self, file: ListedFile) -> list[str]:
        """The first lines of a file."""
        return self.previews.first_lines(file.source)


@dataclass(frozen=True)
class ExampleLayout:
    """The labelled examples of a folder or archive."""

    files: Sequence[ExampleFile]
    note: str | None = None
    """A note on what was assumed."""
    certain: bool = True
    """Whether a person would recognise the files as labelled examples without help."""
    side_files: Sequence[Source] = ()
    """Other files that belong to the examples: names of labels, tables of ids."""

    @property
    def sources(self) -> set[Source]:
        others = {file.labels.source for file in self.files if file.labels is not None}
        return {file.source for file in self.files} | others | set(self.side_files)


FindLayout = Callable[[Listing], ExampleLayout | None]


def split_of_path(path: PurePosixPath) -> Split | None:
    """The split that a folder of a path is named for, or else the file."""
    folder_splits = (split for folder in path.parts[:-1] if (split := split_of(folder)) is not None)
    return next(folder_splits, None) or split_of(path.name)


def _without_splits(folder: PurePosixPath) -> tuple[str, ...]:
    return tuple(name for name in folder.parts if split_of(name) is None)


def words_of(name: str) -> list[str]:
    """The parts of a name between dots, hyphens, underscores and blanks."""
    return [word for word in re.split(r"[\s._\-]+", name) if word]


def stem(path: PurePosixPath) -> str:
    """A file's name without its suffix and without words that name a split."""
    bare = re.sub(r"\.(?:gz|bz2|xz|zst)$", "", path.name, flags=re.IGNORECASE)
    bare = bare if PurePosixPath(bare).suffix[1:].isdigit() else PurePosixPath(bare).stem
    kept = [word for word in re.split(r"([\s._\-]+)", bare) if split_of(word) is None]
    return "".join(kept).strip(" ._-")


def list_names(names: Iterable[str], shown: int = 5) -> str:
    names = sorted(set(names))
    return ", ".join(names[:shown]) + (f" and {len(names) - shown:,} more" if len(names) > shown else "")

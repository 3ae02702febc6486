"""From what the user names to files with a split: train, validation or test, decided by the words in their names.

Labelled examples: files of any kind; those in sub-folders have the name of their folder as label, unless it names a
split. Parallel text: named files come in pairs, source first; in a folder, an archive or a named set those files form a
pair whose names differ only in their language; a table holds both texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Generic, Literal, TypeVar

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.examples import Direction
from qkv.data.files.discover import catalog_entry, is_zip, leads_to_folder, list_contents, matches_filter
from qkv.data.files.unpack import Source, require_packages
from qkv.data.findings import Findings, Progress, display_name, no_progress
from qkv.data.formats.aligned import SOURCE, TARGET, file_pair_languages, parse_file_name
from qkv.data.formats.kinds import LABELLED_KINDS, FileKind, FilePreviews, kind_by_name
from qkv.errors import ConfigError, DataError

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
SPLIT_WORDS: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "valid", "validation", "val", "development"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}
UNLABELLED = ("unsup", "unlabelled", "unlabeled")
UNKNOWN_LANGUAGES = (SOURCE, TARGET)
MOST_OPENED = 50
"""In a folder with more files, only those are tables whose names say so."""


class AmbiguousLanguagesError(DataError):
    """Files of more than two languages, and the options do not say which are meant."""


@dataclass(frozen=True)
class ExampleFile:
    """A file, what it is, and which split its name says."""

    source: Source
    kind: FileKind
    split: Split | None = None
    label: str | None = None
    """The folder's name, where folders are labels."""
    discovered: bool = False
    """Whether it was found in a folder, an archive or a named set, and not named itself."""

    @property
    def display_name(self) -> str:
        return self.source.display_name


@dataclass(frozen=True)
class PairFiles:
    """Two files that are read line by line, or a table."""

    first: Source
    second: Source | None
    languages: Direction
    discovered: bool = False

    @property
    def split(self) -> Split | None:
        return split_of(self.first.file_name)

    @property
    def display_name(self) -> str:
        return (
            self.first.display_name
            if self.second is None
            else f"{self.first.display_name} and {self.second.display_name}"
        )


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
    def of(cls, files: list[File], valid: list[File], test: list[File], findings: Findings) -> SplitFiles[File]:
        """Assign files to splits by their names, unless validation or test files were named."""
        if valid or test:  # of a folder or set only its training files are meant then
            train = [file for file in files if file.split in ("train", None) or not file.discovered]
            return cls(train or files, valid, test)
        if len({file.split for file in files}) < 2:
            return cls(files)
        splits = cls(*([file for file in files if (file.split or "train") == name] for name in SPLITS))
        if not splits.train:  # dev and test only: dev is the larger one
            findings.add_note(f"no file is named train: {splits.valid[0].display_name} is learned from.")
            splits.train, splits.valid = splits.valid, []
        return splits


def split_of(name: str) -> Split | None:
    """The split that a file's name says, such as wnut17train.conll or emerging.dev.conll."""
    if name.lower().startswith("t10k"):  # MNIST's test pictures
        return "test"
    return next((SPLIT_WORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in SPLIT_WORDS), None)


def _has_contents(name: str, what: str) -> bool:
    """Whether a name leads to a folder or an archive, and not to a single file; DataError where it leads nowhere."""
    if name == "-":
        raise DataError("standard input", f"{what} are read from files", "Put it into a file.")
    return leads_to_folder(Path(name), "Put it into a file.") or is_zip(Path(name))


def find_examples(
    config: ExamplesConfig, findings: Findings, progress: Progress = no_progress, previews: FilePreviews | None = None
) -> SplitFiles[ExampleFile]:
    """The files of labelled examples; DataError for a name that leads nowhere."""
    previews = previews or FilePreviews(config.encoding)
    if not config.files:
        raise DataError("the examples", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    files, valid, test = (
        [file for name in names for file in _example_files(name, config, findings, progress, previews)]
        for names in (config.files, config.valid, config.test)
    )
    require_packages(file.source for file in (*files, *valid, *test))
    return SplitFiles.of(files, valid, test, findings)


def _example_files(
    name: str, config: ExamplesConfig, findings: Findings, progress: Progress, previews: FilePreviews
) -> list[ExampleFile]:
    if entry := catalog_entry(name):
        if entry.task in ("language modelling", "translation"):
            raise DataError(name, f"is a set for {entry.task}: it has no labels", "See `qkv data list`.")
        in_catalog: list[ExampleFile] = []
        for file in entry.files:
            source, split = Source(file.obtain(progress)), SPLITS[file in entry.valid]
            in_catalog.append(ExampleFile(source, previews.kind(source), split, discovered=True))
        return in_catalog
    if not _has_contents(name, "examples"):
        source = Source(Path(name))
        return [ExampleFile(source, previews.kind(source), split_of(source.file_name))]
    inside = [each for each in list_contents(Path(name), findings) if matches_filter(each[1].as_posix(), config.filter)]
    # files that hold examples, else those whose folder is their label
    data: list[ExampleFile] = []
    labelled: list[ExampleFile] = []
    for source, place in inside:
        own = next((SPLIT_WORDS[part.lower()] for part in place.parts[:-1] if part.lower() in SPLIT_WORDS), None)
        parents = [part for part in place.parts[:-1] if part.lower() not in SPLIT_WORDS]
        kind = kind_by_name(source) if parents else previews.kind(source)
        if kind in LABELLED_KINDS:
            data.append(ExampleFile(source, kind, own or split_of(place.name), discovered=True))
        elif parents and parents[-1].lower() not in UNLABELLED:
            labelled.append(ExampleFile(source, kind or "text", own, display_name(parents[-1]), discovered=True))
    if unused := len(inside) - len(data or labelled):
        findings.skipped["without labels"] += unused
    if not data and not labelled:
        among = f"no file that matches {config.filter!r}" if config.filter else "nothing in it"
        remedy = "Expected tables, CoNLL, idx or npz files, or sub-folders named for the labels."
        raise DataError(display_name(name), f"{among} looks like labelled data", remedy)
    return data or labelled


def find_pairs(
    config: ParallelConfig, findings: Findings, progress: Progress = no_progress, previews: FilePreviews | None = None
) -> SplitFiles[PairFiles]:
    """The files of parallel text; DataError for a name that leads nowhere."""
    previews = previews or FilePreviews(config.encoding)
    if not config.files:
        raise DataError("the pairs", "no files were named", "Name the source and the target file.")
    if config.source is not None and config.source == config.target:
        raise ConfigError(f"source and target are both column {config.source!r}. Name two columns.")
    files, valid, test = (
        _pair_files(names, languages, findings, progress, previews)
        for names, languages in ((config.files, config.languages), (config.valid, ()), (config.test, ()))
    )
    return SplitFiles.of(files, valid, test, findings)


def _pair_files(
    names: Sequence[str], languages: Sequence[str], findings: Findings, progress: Progress, previews: FilePreviews
) -> list[PairFiles]:
    singles: list[Source] = []
    groups: list[PairFiles] = []
    for name in names:
        entry = catalog_entry(name)
        if entry and entry.task != "translation":
            raise DataError(name, f"is a set for {entry.task}: it has no translations", "See `qkv data list`.")
        if not entry:
            _has_contents(name, "pairs")
        paths = [file.obtain(progress) for file in entry.files] if entry else [Path(name)]
        inside = [source for path in paths for source, _ in list_contents(path, findings)]
        if not inside and is_zip(Path(name)):
            raise DataError(display_name(name), "nothing is in this zip", "Give a zip with the texts.")
        require_packages(inside)
        if entry or Path(name).is_dir() or len(inside) > 1:
            groups += _group_by_name(inside, languages, name, findings, previews, in_catalog=bool(entry))
        else:
            singles += inside
    return [*groups, *_group_in_order(singles, languages, previews)]


def _group_in_order(sources: Sequence[Source], languages: Sequence[str], previews: FilePreviews) -> list[PairFiles]:
    """Named files: a table is a group of its own, any other file forms one with the next.

    Texts may hold tabs too: files whose names do not say it are tables only if there is no text among them.
    """
    groups: list[PairFiles] = []
    waiting = list(sources)
    all_tables = all(previews.kind(source) == "table" for source in sources)
    while waiting:
        first = waiting.pop(0)
        own = file_pair_languages(_language_name(first), _language_name(waiting[0])) if waiting else None
        if own is None and (all_tables or kind_by_name(first) == "table"):
            groups.append(PairFiles(first, None, UNKNOWN_LANGUAGES))
            continue
        if not waiting:
            count = f"{len(sources)} files" if len(sources) > 1 else "one file"
            problem = f"is a text without its translation ({count} named, no table of two columns)"
            raise DataError(first.display_name, problem, "Name source and target file, one after the other.")
        second = waiting.pop(0)
        _require_two(first, second)
        groups.append(PairFiles(first, second, own or UNKNOWN_LANGUAGES))
    return _with_languages(groups, languages)


def _language_name(source: Source) -> str:
    """The name that says the language: that of an archive where the only file inside says none."""
    own = source.file_name
    return source.path.name if source.member and parse_file_name(own) is None else own


def _require_two(first: Source, second: Source) -> None:
    """Refuse one file named twice, and two of the same language that do not belong together."""
    if second.path.samefile(first.path) and first.member == second.member:
        raise DataError(
            first.display_name, "is named both as source and as target", "Name the file of the translations."
        )
    one, other = parse_file_name(_language_name(first)), parse_file_name(_language_name(second))
    if one is not None and other is not None and one.language == other.language and one.pattern != other.pattern:
        problem = f"is in the language {one.language!r}, as {first.display_name} is"
        raise DataError(
            second.display_name, problem, "Name source and target file one after the other: A.en A.de B.en B.de."
        )


def _with_languages(groups: list[PairFiles], languages: Sequence[str]) -> list[PairFiles]:
    directions = list(zip(languages[::2], languages[1::2], strict=False))
    even = len(languages) % 2 == 0
    if not languages or not groups or (even and set(directions) == {group.languages for group in groups}):
        return groups
    if not even or len(directions) not in (1, len(groups)):
        wanted = f"expected {2 * len(groups)}, source and target of each pair of files"
        raise ConfigError(f"languages names {len(languages)}: {', '.join(languages)}; {wanted}.")
    directions *= len(groups) if len(directions) == 1 else 1
    return [replace(group, languages=direction) for group, direction in zip(groups, directions, strict=True)]


def _group_by_name(
    sources: Sequence[Source],
    languages: Sequence[str],
    name: str,
    findings: Findings,
    previews: FilePreviews,
    in_catalog: bool,
) -> list[PairFiles]:
    """The groups of a folder, an archive or a set: files whose names differ in their language, else tables."""
    stems: dict[tuple[PurePath, str], dict[str, Source]] = {}
    for source in sources:
        if (parts := parse_file_name(source.file_name)) is not None:
            folder = PurePath(source.member).parent if source.member else source.path.parent
            stems.setdefault((folder, parts.pattern), {})[parts.language] = source
    together = [files for files in stems.values() if len(files) > 1]
    if together:
        known = list(dict.fromkeys(language for files in together for language in files))
        groups = [
            PairFiles(files[first], files[second], (first, second), discovered=True)
            for first, second in _directions(known, languages, name, findings, in_catalog)
            for files in together
            if first in files and second in files
        ]
    else:
        tables = [source for source in sources if kind_by_name(source) == "table"]
        if not tables and len(sources) <= MOST_OPENED:
            tables = [source for source in sources if previews.kind(source) == "table"]
        groups = _with_languages(
            [PairFiles(source, None, UNKNOWN_LANGUAGES, discovered=True) for source in tables], languages
        )
    if not groups:
        problem = "nothing in it looks like texts and their translations"
        remedy = "Expected files such as train.en and train.de, or tables with the columns source and target."
        raise DataError(display_name(name), problem, remedy)
    used = {source for group in groups for source in (group.first, group.second)}
    if unused := sum(source not in used for source in sources):
        findings.skipped["without translations"] += unused
    return groups


def _directions(
    known: Sequence[str], asked: Sequence[str], name: str, findings: Findings, in_catalog: bool
) -> list[Direction]:
    """The directions to read: those of --languages, else the only two languages, or the first two of a named set."""
    if len(asked) % 2:
        raise ConfigError(f"languages names {len(asked)}: {', '.join(asked)}; expected source and target.")
    if missing := next((language for language in asked if language not in known), None):
        problem = f"no file is in {missing!r}; there are: {', '.join(known)}"
        raise DataError(display_name(name), problem, "Name others with --languages.")
    if asked:
        return list(dict.fromkeys(zip(asked[::2], asked[1::2], strict=True)))
    if len(known) > 2 and not in_catalog:
        problem = f"which languages? There are: {', '.join(known)}"
        remedy = "Give source and target with --languages, or name two files."
        raise AmbiguousLanguagesError(display_name(name), problem, remedy)
    findings.add_note(f"{display_name(name)}: {known[0]} is translated to {known[1]}; choose others with --languages.")
    return [(known[0], known[1])]

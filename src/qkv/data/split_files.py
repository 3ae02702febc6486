"""From what the user names to files with a split: train, validation or test, told by the words in their names.

Examples with labels: files of any kind; those in sub-folders carry the name of their folder as label, unless it names
a split. Parallel text: files that are named come in twos, source first; of a folder, an archive or a named set those
belong together whose names differ only in their language; a table holds both texts.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Generic, Literal, TypeVar

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.examples import Direction
from qkv.data.files.discover import catalog_entry, matches, mode_of, walk
from qkv.data.files.unpack import Source, require_packages, zip_members
from qkv.data.findings import Findings, Progress, shown, silent
from qkv.data.formats.aligned import SOURCE, TARGET, aligned, named
from qkv.data.formats.kinds import DATA_KINDS, Beginnings, Kind, kind_by_name
from qkv.errors import ConfigError, DataError
from qkv.safe_json import special

Split = Literal["train", "valid", "test"]
SPLIT_WORDS: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "valid", "validation", "val", "development"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}
UNLABELLED = ("unsup", "unlabelled", "unlabeled")
UNNAMED = (SOURCE, TARGET)
MOST_OPENED = 50
"""Of a folder with more files, only those whose names say that they are tables count."""


class AmbiguousLanguagesError(DataError):
    """Files of more than two languages, and the options do not say which are meant."""


@dataclass(frozen=True)
class ExampleFile:
    """A file, what it is, and which split its name says."""

    source: Source
    kind: Kind
    split: Split | None = None
    label: str | None = None
    """The folder's name, where folders are labels."""
    found: bool = False
    """Whether it was found in a folder, an archive or a named set, and not named itself."""

    @property
    def shown(self) -> str:
        return self.source.shown


@dataclass(frozen=True)
class PairFiles:
    """Two files that are read line by line, or a table."""

    first: Source
    second: Source | None
    languages: Direction
    found: bool = False

    @property
    def split(self) -> Split | None:
        return split_of(self.first.file_name)

    @property
    def shown(self) -> str:
        return self.first.shown if self.second is None else f"{self.first.shown} and {self.second.shown}"


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
        splits: tuple[tuple[Split, list[File]], ...] = (
            ("train", self.train),
            ("valid", self.valid),
            ("test", self.test),
        )
        return ((name, files) for name, files in splits if files)

    @classmethod
    def of(cls, files: list[File], valid: list[File], test: list[File], findings: Findings) -> SplitFiles[File]:
        """Tell files apart by their names, unless the validation or test files were named."""
        if valid or test:  # of a folder or set only its training files are meant then
            return cls(
                [file for file in files if file.split in ("train", None) or not file.found] or files, valid, test
            )
        if len({file.split for file in files}) < 2:
            return cls(files)
        splits = cls(
            *([file for file in files if (file.split or "train") == name] for name in ("train", "valid", "test"))
        )
        if not splits.train:  # dev and test only: the larger part to learn from must be dev
            findings.say(f"no file is named train: {splits.valid[0].shown} is learned from.")
            splits.train, splits.valid = splits.valid, []
        return splits


def split_of(name: str) -> Split | None:
    """The split that a file's name says, as in wnut17train.conll or emerging.dev.conll."""
    if name.lower().startswith("t10k"):  # MNIST's test pictures
        return "test"
    return next((SPLIT_WORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in SPLIT_WORDS), None)


def _is_folder(name: str, what: str) -> bool:
    """Whether a name leads to a folder or an archive, and not to a file; DataError where it leads to neither."""
    if name == "-":
        raise DataError("standard input", f"{what} are read from files", "Put it into a file.")
    mode = mode_of(Path(name))
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(shown(name), f"is {special(mode)}, not a file", "Put it into a file.")
    return stat.S_ISDIR(mode) or is_zip(Path(name))


def is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def _contents(path: Path, findings: Findings) -> list[tuple[Source, PurePath]]:
    """The files of a folder or archive with their places in it, hidden ones left out; any other file by itself."""
    files: list[tuple[Source, PurePath]] = []
    for inside in walk(path, set(), findings) if path.is_dir() else [path]:
        place = PurePath(inside.relative_to(path))
        if is_zip(inside):
            members = zip_members(inside, shown(inside), findings)
            files += [(Source(inside, member), place.parent / member) for member in members]
        else:
            files.append((Source(inside), place))
    return [(source, place) for source, place in files if not any(_hidden(part) for part in place.parts)]


def _hidden(part: str) -> bool:
    return part.startswith((".", "__MACOSX"))


def find_examples(
    config: ExamplesConfig, findings: Findings, progress: Progress = silent, beginnings: Beginnings | None = None
) -> SplitFiles[ExampleFile]:
    """The files of labelled examples; DataError for a name that leads nowhere."""
    beginnings = beginnings or Beginnings(config.encoding)
    if not config.files:
        raise DataError("the examples", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    files, valid, test = (
        [file for name in names for file in _example_files(name, config, findings, progress, beginnings)]
        for names in (config.files, config.valid, config.test)
    )
    require_packages(file.source for file in (*files, *valid, *test))
    return SplitFiles.of(files, valid, test, findings)


def _example_files(
    name: str, config: ExamplesConfig, findings: Findings, progress: Progress, beginnings: Beginnings
) -> list[ExampleFile]:
    if entry := catalog_entry(name):
        if entry.task in ("language modelling", "translation"):
            raise DataError(name, f"is a set for {entry.task}: it has no labels", "See `qkv data list`.")
        files: list[ExampleFile] = []
        for file in (*entry.train, *entry.valid):
            source = Source(file.obtain(progress))
            split: Split = "train" if file in entry.train else "valid"
            files.append(ExampleFile(source, beginnings.kind(source), split, found=True))
        return files
    if not _is_folder(name, "examples"):
        source = Source(Path(name))
        return [ExampleFile(source, beginnings.kind(source), split_of(source.file_name))]
    if inside := _example_files_inside(Path(name), config, findings, beginnings):
        return inside
    among = f"no file that matches {config.filter!r}" if config.filter else "nothing in it"
    remedy = "Expected tables, CoNLL, idx or npz files, or sub-folders named for the labels."
    raise DataError(shown(name), f"{among} looks like labelled data", remedy)


def _example_files_inside(
    folder: Path, config: ExamplesConfig, findings: Findings, beginnings: Beginnings
) -> list[ExampleFile]:
    """The files of a folder or archive: those that hold examples, else those whose folder is their label."""
    contents = [each for each in _contents(folder, findings) if matches(each[1].as_posix(), config.filter)]
    data: list[ExampleFile] = []
    labelled: list[ExampleFile] = []
    for source, place in contents:
        splits = [SPLIT_WORDS[part.lower()] for part in place.parts[:-1] if part.lower() in SPLIT_WORDS]
        parents = [part for part in place.parts[:-1] if part.lower() not in SPLIT_WORDS]
        split = splits[0] if splits else None
        kind = kind_by_name(source) if parents else beginnings.kind(source)
        if kind in DATA_KINDS:
            data.append(ExampleFile(source, kind, split or split_of(place.name), found=True))
        elif parents and parents[-1].lower() not in UNLABELLED:
            labelled.append(ExampleFile(source, kind or "text", split, shown(parents[-1]), found=True))
    if left := len(contents) - len(data or labelled):
        findings.skipped["without labels"] += left
    return data or labelled


def find_pairs(
    config: ParallelConfig, findings: Findings, progress: Progress = silent, beginnings: Beginnings | None = None
) -> SplitFiles[PairFiles]:
    """The files of parallel text; DataError for a name that leads nowhere."""
    beginnings = beginnings or Beginnings(config.encoding)
    if not config.files:
        raise DataError("the pairs", "no files were named", "Name the source and the target file.")
    if config.source is not None and config.source == config.target:
        raise ConfigError(f"source and target are both column {config.source!r}. Name two columns.")
    others = replace(config, languages=())
    files, valid, test = (
        _pair_files(names, asked, findings, progress, beginnings)
        for names, asked in ((config.files, config), (config.valid, others), (config.test, others))
    )
    return SplitFiles.of(files, valid, test, findings)


def _pair_files(
    names: Sequence[str], config: ParallelConfig, findings: Findings, progress: Progress, beginnings: Beginnings
) -> list[PairFiles]:
    singles: list[Source] = []
    groups: list[PairFiles] = []
    for name in names:
        entry = catalog_entry(name)
        if entry and entry.task != "translation":
            raise DataError(name, f"is a set for {entry.task}: it has no translations", "See `qkv data list`.")
        paths = [file.obtain(progress) for file in (*entry.train, *entry.valid)] if entry else [Path(name)]
        if not entry:
            _is_folder(name, "pairs")
        inside = [source for path in paths for source, _ in _contents(path, findings)]
        if not inside and is_zip(Path(name)):
            raise DataError(shown(name), "nothing is in this zip", "Give a zip with the texts.")
        require_packages(inside)
        if entry or Path(name).is_dir() or len(inside) > 1:
            groups += _together(inside, config, name, findings, beginnings, listed=bool(entry))
        else:
            singles += inside
    return [*groups, *_in_twos(singles, config, beginnings)]


def _in_twos(sources: Sequence[Source], config: ParallelConfig, beginnings: Beginnings) -> list[PairFiles]:
    """Named files: a table is a group of its own, any other file and the next one are.

    Texts may hold tabs too: files whose names do not say it are tables only if there is no text among them.
    """
    groups: list[PairFiles] = []
    waiting = list(sources)
    content = all(beginnings.kind(source) == "table" for source in sources)
    while waiting:
        first = waiting.pop(0)
        languages = aligned(_language_name(first), _language_name(waiting[0])) if waiting else None
        if languages is None and (content or kind_by_name(first) == "table"):
            groups.append(PairFiles(first, None, UNNAMED))
            continue
        if not waiting:
            count = f"{len(sources)} files" if len(sources) > 1 else "one file"
            problem = f"is a text without its translation ({count} named, no table of two columns)"
            raise DataError(first.shown, problem, "Name source and target file, one after the other.")
        second = waiting.pop(0)
        _require_two(first, second)
        groups.append(PairFiles(first, second, languages or UNNAMED))
    return _with_languages(groups, config.languages)


def _language_name(source: Source) -> str:
    """The name that says the language: that of an archive where the only file inside says none."""
    own = source.file_name
    return source.path.name if source.member and named(own) is None else own


def _require_two(first: Source, second: Source) -> None:
    """Refuse one file named twice, and two of the same language that do not belong together."""
    if second.path.samefile(first.path) and first.member == second.member:
        raise DataError(first.shown, "is named both as source and as target", "Name the file of the translations.")
    one, other = named(_language_name(first)), named(_language_name(second))
    if one is not None and other is not None and one.language == other.language and one.rest != other.rest:
        problem = f"is in the language {one.language!r}, as {first.shown} is"
        raise DataError(second.shown, problem, "Name source and target file one after the other: A.en A.de B.en B.de.")


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


def _together(
    sources: Sequence[Source],
    config: ParallelConfig,
    name: str,
    findings: Findings,
    beginnings: Beginnings,
    listed: bool = False,
) -> list[PairFiles]:
    """The groups of a folder, an archive or a set: files whose names differ in their language, else tables."""
    stems: dict[tuple[PurePath, str], dict[str, Source]] = {}
    for source in sources:
        if (parts := named(source.file_name)) is not None:
            folder = PurePath(source.member).parent if source.member else source.path.parent
            stems.setdefault((folder, parts.rest), {})[parts.language] = source
    together = [files for files in stems.values() if len(files) > 1]
    if together:
        wanted = _wanted(together, config, name, findings, listed)
        groups = [
            PairFiles(files[first], files[second], (first, second), found=True)
            for first, second in wanted
            for files in together
            if first in files and second in files
        ]
    else:
        tables = [source for source in sources if kind_by_name(source) == "table"]
        if not tables and len(sources) <= MOST_OPENED:
            tables = [source for source in sources if beginnings.kind(source) == "table"]
        groups = _with_languages([PairFiles(source, None, UNNAMED, found=True) for source in tables], config.languages)
    if not groups:
        problem = "nothing in it looks like texts and their translations"
        remedy = "Expected files as train.en and train.de, or tables with the columns source and target."
        raise DataError(shown(name), problem, remedy)
    used = {each for group in groups for each in (group.first, group.second)}
    if left := sum(source not in used for source in sources):
        findings.skipped["without translations"] += left
    return groups


def _wanted(
    together: Sequence[dict[str, Source]], config: ParallelConfig, name: str, findings: Findings, listed: bool
) -> list[Direction]:
    """The directions to read: those of --languages, else the only two languages, or the first two of a named set."""
    known = list(dict.fromkeys(language for files in together for language in files))
    asked = config.languages
    if len(asked) % 2:
        raise ConfigError(f"languages names {len(asked)}: {', '.join(asked)}; expected source and target.")
    if missing := next((language for language in asked if language not in known), None):
        problem = f"no file is in {missing!r}; there are: {', '.join(known)}"
        raise DataError(shown(name), problem, "Name others with --languages.")
    if asked:
        return list(dict.fromkeys(zip(asked[::2], asked[1::2], strict=True)))
    if len(known) > 2 and not listed:
        problem = f"which languages? There are: {', '.join(known)}"
        remedy = "Give source and target with --languages, or name two files."
        raise AmbiguousLanguagesError(shown(name), problem, remedy)
    findings.say(f"{shown(name)}: {known[0]} is translated to {known[1]}; --languages says otherwise.")
    return [(known[0], known[1])]

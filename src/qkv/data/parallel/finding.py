"""From what the user names to groups of files: a source and its target, or a table that holds both.

Files that are named come in twos, source first. Of a folder, an archive or a named set those belong together whose
names differ only in their language. Sides are told apart by the words train, dev (valid, val) and test in the names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from qkv.data import catalog
from qkv.data.corpus import ParallelConfig
from qkv.data.files.discover import mode_of, walk
from qkv.data.files.unpack import Source, require_packages, unreadable, zip_members
from qkv.data.findings import Findings, Progress, shown, silent
from qkv.data.formats.kinds import Beginnings, kind_by_name
from qkv.data.labelled.gathering import Side, side_of
from qkv.data.parallel.languages import SOURCE, TARGET, aligned, named
from qkv.data.parallel.pairs import Direction
from qkv.errors import ConfigError, DataError
from qkv.safe_json import special

UNNAMED = (SOURCE, TARGET)
MOST_LOOKED_INTO = 50
"""Of a folder with more files, those count that their names tell."""


class AmbiguousLanguagesError(DataError):
    """Files of more than two languages, and nobody says which are meant."""


@dataclass(frozen=True)
class Group:
    """Two files that are read in step, or a table; and which side its name says."""

    first: Source
    second: Source | None
    languages: Direction
    found: bool = False
    """Whether it was found in a folder, an archive or a named set."""

    @property
    def side(self) -> Side | None:
        return side_of(name_of(self.first))

    @property
    def shown(self) -> str:
        return self.first.shown if self.second is None else f"{self.first.shown} and {self.second.shown}"


@dataclass
class Groups:
    train: list[Group] = field(default_factory=list)
    valid: list[Group] = field(default_factory=list)
    test: list[Group] = field(default_factory=list)


def name_of(source: Source) -> str:
    """The name that says what a source holds: that of the file inside an archive."""
    return PurePath(source.member or source.path).name


def find(
    config: ParallelConfig, findings: Findings, progress: Progress = silent, beginnings: Beginnings | None = None
) -> Groups:
    """Follow the names; DataError for one that leads nowhere."""
    beginnings = beginnings or Beginnings(config.encoding)
    if not config.files:
        raise DataError("the pairs", "no files were named", "Name the source and the target file.")
    if config.source is not None and config.source == config.target:
        raise ConfigError(f"source and target are both column {config.source!r}. Name two columns.")
    groups = _groups(config.files, config, findings, progress, beginnings)
    others = replace(config, languages=())
    valid, test = (
        _groups(names, others, findings, progress, beginnings) if names else [] for names in (config.valid, config.test)
    )
    sides = Groups(valid=valid, test=test)
    if len({group.side for group in groups}) < 2 or config.valid or config.test:
        # one side, or sides that were said; of a folder or set only its training files are meant then
        meant = [group for group in groups if group.side in ("train", None) or not group.found]
        sides.train = meant or groups
        return sides
    sides.train = [group for group in groups if group.side in ("train", None)]
    sides.valid += [group for group in groups if group.side == "valid"]
    sides.test += [group for group in groups if group.side == "test"]
    if not sides.train:
        findings.say(f"no file is named train: {sides.valid[0].shown} is learned from.")
        sides.train, sides.valid = sides.valid, []
    return sides


def _groups(
    names: Sequence[str], config: ParallelConfig, findings: Findings, progress: Progress, beginnings: Beginnings
) -> list[Group]:
    singles: list[Source] = []
    groups: list[Group] = []
    for name in names:
        entry = catalog.find(name)
        if entry is not None and not os.path.lexists(name):
            if entry.task != "translation":
                raise DataError(name, f"is a set for {entry.task}: it has no translations", "See `qkv data list`.")
            files = [file.obtain(progress) for file in (*entry.train, *entry.valid)]
            inside = [each for path in files for each in _inside(path, findings)]
            require_packages(inside)
            groups += _together(inside, config, name, findings, beginnings, listed=True)
            continue
        mode = _mode(name)
        inside = _inside(Path(name), findings) if stat.S_ISDIR(mode) or _is_zip(name) else [Source(Path(name))]
        require_packages(inside)
        if stat.S_ISDIR(mode) or len(inside) > 1:
            groups += _together(inside, config, name, findings, beginnings)
        else:
            singles += inside
    return [*groups, *_in_twos(singles, config, beginnings)]


def _mode(name: str) -> int:
    if name == "-":
        raise DataError("standard input", "pairs are read from files", "Put source and target into files.")
    mode = mode_of(Path(name))
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(shown(name), f"is {special(mode)}, not a file", "Put it into a file.")
    return mode


def _is_zip(name: str | Path) -> bool:
    return Path(name).suffix.lower() == ".zip"


def _inside(path: Path, findings: Findings) -> list[Source]:
    """The files of a folder or archive, hidden ones left aside; any other file by itself."""
    if path.is_dir():
        return [source for each in walk(path, set(), findings) for source in _inside(each, findings)]
    if not _is_zip(path):
        return [Source(path)]
    members = [each for each in zip_members(path, shown(path), findings) if not _hidden(PurePath(each))]
    if not members:
        raise DataError(shown(path), "nothing is in this zip", "Give a zip with the texts.")
    return [Source(path, each) for each in members]


def _hidden(place: PurePath) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in place.parts)


def _in_twos(sources: Sequence[Source], config: ParallelConfig, beginnings: Beginnings) -> list[Group]:
    """Named files: a table is a group of its own, any other file and the next one are.

    Texts may hold tabs too: files whose names do not say it are tables only if there is no text among them.
    """
    groups: list[Group] = []
    waiting = list(sources)
    content = all(beginnings.kind(source) == "table" for source in sources)
    while waiting:
        first = waiting.pop(0)
        languages = aligned(_said_by(first), _said_by(waiting[0])) if waiting else None
        if languages is None and (content or kind_by_name(first) == "table"):
            groups.append(Group(first, None, UNNAMED))
            continue
        if not waiting:
            count = f"{len(sources)} files" if len(sources) > 1 else "one file"
            problem = f"is a text without its translation ({count} named, no table of two columns)"
            raise DataError(first.shown, problem, "Name source and target file, one after the other.")
        second = waiting.pop(0)
        _require_two(first, second)
        groups.append(Group(first, second, languages or UNNAMED))
    return _with_languages(groups, config.languages)


def _said_by(source: Source) -> str:
    """The name that says the language: that of an archive where the only file inside says none."""
    own = name_of(source)
    return source.path.name if source.member and named(own) is None else own


def _require_two(first: Source, second: Source) -> None:
    """Refuse one file named twice, and two of the same language that are of different sides."""
    if second.path.samefile(first.path) and first.member == second.member:
        raise DataError(first.shown, "is named both as source and as target", "Name the file of the translations.")
    one, other = named(_said_by(first)), named(_said_by(second))
    if one is not None and other is not None and one.language == other.language and one.rest != other.rest:
        problem = f"is in the language {one.language!r}, as {first.shown} is"
        raise DataError(second.shown, problem, "Name source and target file one after the other: A.en A.de B.en B.de.")


def _with_languages(groups: list[Group], languages: Sequence[str]) -> list[Group]:
    said = set(zip(languages[::2], languages[1::2], strict=False))
    if not languages or not groups or (len(languages) % 2 == 0 and said == {group.languages for group in groups}):
        return groups
    if len(languages) == 2:
        languages = [*languages] * len(groups)
    if len(languages) != 2 * len(groups):
        wanted = f"expected {2 * len(groups)}, source and target of each pair of files"
        raise ConfigError(f"languages names {len(languages)}: {', '.join(languages)}; {wanted}.")
    return [
        replace(group, languages=(languages[2 * place], languages[2 * place + 1])) for place, group in enumerate(groups)
    ]


def _together(
    sources: Sequence[Source],
    config: ParallelConfig,
    name: str,
    findings: Findings,
    beginnings: Beginnings,
    listed: bool = False,
) -> list[Group]:
    """The groups of a folder, an archive or a set: files whose names differ in their language, else tables."""
    stems: dict[tuple[PurePath, str], dict[str, Source]] = {}
    for source in sources:
        if (parts := named(name_of(source))) is not None:
            folder = PurePath(source.member).parent if source.member else source.path.parent
            stems.setdefault((folder, parts.rest), {})[parts.language] = source
    together = [files for files in stems.values() if len(files) > 1]
    if together:
        wanted = _wanted(together, config, name, findings, listed)
        groups = [
            Group(files[first], files[second], (first, second), found=True)
            for first, second in wanted
            for files in together
            if first in files and second in files
        ]
    else:
        tables = [source for source in sources if kind_by_name(source) == "table"]
        if not tables and len(sources) <= MOST_LOOKED_INTO:
            tables = [source for source in sources if beginnings.kind(source) == "table"]
        groups = _with_languages([Group(source, None, UNNAMED, found=True) for source in tables], config.languages)
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
    """The directions to read: those that are said, else those of the only two languages, or the first two of a set."""
    there = list(dict.fromkeys(language for files in together for language in files))
    said = list(config.languages)
    if said:
        if len(said) % 2:
            raise ConfigError(f"languages names {len(said)}: {', '.join(said)}; expected source and target.")
        for language in said:
            if language not in there:
                raise DataError(
                    shown(name), f"no file is in {language!r}; there are: {', '.join(there)}", "Say others."
                )
        return list(dict.fromkeys(zip(said[::2], said[1::2], strict=True)))
    if len(there) > 2 and not listed:
        problem = f"which languages? There are: {', '.join(there)}"
        raise AmbiguousLanguagesError(
            shown(name), problem, "Say source and target with --languages, or name two files."
        )
    findings.say(f"{shown(name)}: {there[0]} is translated to {there[1]}; --languages says otherwise.")
    return [(there[0], there[1])]


def look_beside(groups: Groups, findings: Findings) -> None:
    """Fill the sides that were not named."""
    sides: tuple[Side, ...] = ("valid", "test")
    for side in sides:
        if getattr(groups, side):
            continue
        found = [other for group in groups.train if (other := _beside(group, side, findings)) is not None]
        if found:
            what = "validated on" if side == "valid" else "tested on"
            findings.say(f"{what} {'; '.join(group.shown for group in found)}; --{side} says otherwise.")
        getattr(groups, side).extend(found)


def _beside(group: Group, side: Side, findings: Findings) -> Group | None:
    """The first, by name, of what there is for a side; a group whose own name does not say train has none."""
    if group.second is None or group.side != "train":
        return None
    first, second = (_of_language(source, side) for source in (group.first, group.second))
    both = sorted(first.keys() & second.keys())
    if len(both) > 1:
        findings.say(f"{len(both)} sets of files beside {group.first.shown} are named {side}; the first is taken.")
    return replace(group, first=first[both[0]], second=second[both[0]]) if both else None


def _of_language(source: Source, side: Side) -> dict[str, Source]:
    """Files beside one that are of its language and of a side, by the rest of their names."""
    own = named(name_of(source))
    if own is None:
        return {}
    found: dict[str, Source] = {}
    for other in _neighbours(source):
        parts = named(name_of(other))
        if parts is not None and parts.language == own.language and side_of(name_of(other)) == side:
            found.setdefault(parts.rest, other)
    return found


def _neighbours(source: Source) -> Sequence[Source]:
    if source.member:
        folder = PurePath(source.member).parent
        members = zip_members(source.path, shown(source.path), Findings())
        return [Source(source.path, each) for each in members if PurePath(each).parent == folder]
    try:
        return [Source(path) for path in sorted(source.path.parent.iterdir()) if path.is_file() and not _zip(path.name)]
    except OSError as error:
        raise unreadable(shown(source.path.parent), error) from None


def _zip(name: str) -> bool:
    return name.lower().endswith(".zip")

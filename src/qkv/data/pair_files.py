"""Finds the files of parallel text: tables, which contain both texts, or pairs of line-aligned files.

Of files that the user names, the source comes first. In a folder, an archive or a set of the catalog, the names of the
two files of a pair differ only in the language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from qkv.data.corpus import ParallelConfig
from qkv.data.examples import Direction
from qkv.data.files.archives import is_archive
from qkv.data.files.discover import catalog_entry, list_files
from qkv.data.files.unpack import Source, require_packages
from qkv.data.findings import Assumption, Findings, Progress, display_name, no_progress
from qkv.data.formats.aligned import file_pair_languages, lines_correspond, parse_file_name
from qkv.data.formats.column_names import Split, split_of
from qkv.data.formats.kinds import FilePreviews, kind_by_name
from qkv.data.split_files import MAX_OPENED_FILES, UNKNOWN_LANGUAGES, PairFiles, SplitFiles, is_container
from qkv.errors import ConfigError, DataError


class AmbiguousLanguagesError(DataError):
    """There are files in more than two languages, and no option selects two."""


def find_pairs(
    config: ParallelConfig, findings: Findings, progress: Progress = no_progress, previews: FilePreviews | None = None
) -> SplitFiles[PairFiles]:
    """The files of parallel text, by split; DataError for a name that has none."""
    previews = previews or FilePreviews(config.encoding)
    if not config.files:
        raise DataError("the pairs", "no files were named", "Name the source and the target file.")
    if config.source is not None and config.source == config.target:
        raise ConfigError(f"source and target are both column {config.source!r}. Name two columns.")
    files, valid, test = (
        _pair_files(names, languages, config.filter, findings, progress, previews)
        for names, languages in ((config.files, config.languages), (config.valid, ()), (config.test, ()))
    )
    return SplitFiles.assign(files, valid, test, findings)


def _pair_files(
    names: Sequence[str],
    languages: Sequence[str],
    pattern: str | None,
    findings: Findings,
    progress: Progress,
    previews: FilePreviews,
) -> list[PairFiles]:
    """The files of parallel text in folders, archives and sets of the catalog, then the named files."""
    named_files: list[Source] = []
    groups: list[PairFiles] = []
    for name in names:
        entry = catalog_entry(name)
        if entry and entry.task != "translation":
            raise DataError(name, f"is a set for {entry.task}: it has no translations", "See `qkv data list`.")
        if not entry:
            is_container(name, "pairs")  # DataError if there is no such file or folder
        paths = [file.obtain(progress) for file in entry.files] if entry else [Path(name)]
        sources = [file.source for path in paths for file in list_files(path, pattern, findings)]
        if not sources and is_archive(Path(name)):
            raise DataError(
                display_name(name), f"this {Source(Path(name)).compression} is empty", "Give one with the texts."
            )
        require_packages(sources)
        if entry or Path(name).is_dir() or len(sources) > 1:
            groups += _group_by_name(sources, languages, name, findings, previews, in_catalog=bool(entry))
        else:
            named_files += sources
    return [*groups, *_group_in_order(named_files, languages, previews)]


def _group_in_order(sources: Sequence[Source], languages: Sequence[str], previews: FilePreviews) -> list[PairFiles]:
    """Group files that the user named: a table is a group, any other file makes a pair with the next.

    A text may contain tabs and look like a table, so files that are not named as tables are read as tables only if all
    files look like tables.
    """
    groups: list[PairFiles] = []
    remaining = list(sources)
    all_tables = all(previews.kind(source) == "table" for source in sources)
    while remaining:
        first = remaining.pop(0)
        languages_in_names = (
            file_pair_languages(_language_file_name(first), _language_file_name(remaining[0])) if remaining else None
        )
        if languages_in_names is None and (all_tables or kind_by_name(first) == "table"):
            groups.append(PairFiles(first, None, UNKNOWN_LANGUAGES))
            continue
        if not remaining:
            count = f"{len(sources)} files" if len(sources) > 1 else "one file"
            problem = f"is a text without its translation ({count} named, no table of two columns)"
            raise DataError(first.display_name, problem, "Name source and target file, one after the other.")
        second = remaining.pop(0)
        _require_pair(first, second)
        groups.append(PairFiles(first, second, languages_in_names or UNKNOWN_LANGUAGES))
    return _with_languages(groups, languages)


def _language_file_name(source: Source) -> str:
    """The name in which to find a language: that of the zip, if its only member's name has none."""
    name = source.file_name
    return source.path.name if source.member and parse_file_name(name) is None else name


def _require_pair(first: Source, second: Source) -> None:
    """Refuse a file that is named twice, and two unrelated files of the same language."""
    if second.path.samefile(first.path) and first.member == second.member:
        raise DataError(
            first.display_name, "is named both as source and as target", "Name the file of the translations."
        )
    one, other = parse_file_name(_language_file_name(first)), parse_file_name(_language_file_name(second))
    if one is not None and other is not None and one.language == other.language and one.pattern != other.pattern:
        problem = f"is in the language {one.language!r}, as is {first.display_name}"
        raise DataError(
            second.display_name, problem, "Name source and target file one after the other: A.en A.de B.en B.de."
        )


def _with_languages(groups: list[PairFiles], languages: Sequence[str]) -> list[PairFiles]:
    """The groups with the languages of --languages: one direction for all, or one for each."""
    directions = list(zip(languages[::2], languages[1::2], strict=False))
    even = len(languages) % 2 == 0
    if not languages or not groups or (even and set(directions) == {group.languages for group in groups}):
        return groups
    if not even or len(directions) not in (1, len(groups)):
        expected = f"expected {2 * len(groups)}, source and target of each pair of files"
        raise ConfigError(f"languages names {len(languages)}: {', '.join(languages)}; {expected}.")
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
    """Group the files of a folder, an archive or a set: files whose names differ in the language, else tables."""
    by_pattern: dict[tuple[PurePath, str], dict[str, Source]] = {}
    for source in sources:
        if (parsed := parse_file_name(source.file_name)) is not None:
            folder = PurePath(source.member).parent if source.member else source.path.parent
            by_pattern.setdefault((folder, parsed.pattern), {})[parsed.language] = source
    translations = [files for files in by_pattern.values() if len(files) > 1]
    if not translations and len(sources) <= MAX_OPENED_FILES:
        translations = _pairs_by_lines(sources, previews)
    if translations:
        available = list(dict.fromkeys(language for files in translations for language in files))
        groups = [
            PairFiles(files[first], files[second], (first, second), discovered=True)
            for first, second in _directions(available, languages, name, findings, in_catalog)
            for files in translations
            if first in files and second in files
        ]
    else:
        tables = [source for source in sources if kind_by_name(source) == "table"]
        if not tables and len(sources) <= MAX_OPENED_FILES:
            tables = [source for source in sources if previews.kind(source) == "table"]
        groups = [PairFiles(source, None, UNKNOWN_LANGUAGES, discovered=True) for source in tables]
        groups = _with_languages(groups, languages)
    if not groups:
        problem = "nothing in it looks like texts and their translations"
        remedy = "Expected files such as train.en and train.de, or tables with the columns source and target."
        raise DataError(display_name(name), problem, remedy)
    used = {source for group in groups for source in (group.first, group.second)}
    for source in sources:
        if source not in used:
            findings.leave_out("without translations", source.file_name)
    return groups


def _pairs_by_lines(sources: Sequence[Source], previews: FilePreviews) -> list[dict[str, Source]]:
    """Two files per split whose lines belong together, by the word in which their names differ; else empty."""
    texts = [source for source in sources if source.format == "text" and previews.kind(source) == "text"]
    by_split: dict[tuple[PurePath, Split | None], list[Source]] = {}
    for source in texts:
        folder = PurePath(source.member or source.path).parent
        by_split.setdefault((folder, split_of(source.file_name)), []).append(source)
    pairs: list[dict[str, Source]] = []
    for files in by_split.values():
        names = [re.split(r"[\s._\-]+", source.file_name) for source in files]
        different = [words for words in zip(*names, strict=False) if len(set(words)) > 1]
        if len(files) != 2 or len({len(words) for words in names}) > 1 or len(different) != 1:
            return []
        if not lines_correspond(*map(previews.first_lines, files)):
            return []
        pairs.append(dict(zip(different[0], files, strict=True)))
    return pairs


def _directions(
    available: Sequence[str], given: Sequence[str], name: str, findings: Findings, in_catalog: bool
) -> list[Direction]:
    """The directions of --languages; by default the only two languages, or the first two of a set of the catalog."""
    if len(given) % 2:
        raise ConfigError(f"languages names {len(given)}: {', '.join(given)}; expected source and target.")
    if missing := next((language for language in given if language not in available), None):
        problem = f"no file is in {missing!r}; there are: {', '.join(available)}"
        raise DataError(display_name(name), problem, "Name others with --languages.")
    if given:
        return list(dict.fromkeys(zip(given[::2], given[1::2], strict=True)))
    source, target, *others = available
    if others and not in_catalog:
        problem = f"which languages? There are: {', '.join(available)}"
        remedy = "Give source and target with --languages, or name two files."
        raise AmbiguousLanguagesError(display_name(name), problem, remedy)
    chosen = f"{display_name(name)}: {source} is translated to {target}; choose others with --languages."
    findings.add_note(Assumption(chosen))
    return [(source, target)]

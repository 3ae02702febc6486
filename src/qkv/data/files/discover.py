"""Finds the files that the user names: a file, a folder, an archive, or a set of the catalog.

Folders are walked in sorted order, so that the same folder is the same corpus everywhere. In folders and archives,
hidden files and documentation are left out, and counted.
"""

from __future__ import annotations

import difflib
import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from qkv.data import catalog
from qkv.data.catalog import CatalogSet
from qkv.data.files.archives import ARCHIVE_SUFFIXES, is_archive
from qkv.data.files.unpack import Source, archive_members, unreadable_error
from qkv.data.findings import Findings, display_name
from qkv.errors import DataError
from qkv.safe_json import file_kind


def catalog_entry(name: str) -> CatalogSet | None:
    """The set of this name in the catalog; None for a file of the same name, which takes precedence."""
    return None if os.path.lexists(name) else catalog.find(name)


def leads_to_folder(path: Path, remedy: str) -> bool:
    """Whether a path leads to a folder, not to a file; DataError if it leads to neither."""
    where = display_name(path)
    try:
        str(path).encode()
        mode = path.stat().st_mode
    except UnicodeEncodeError:
        raise DataError(where, "the file's name is not Unicode", "Rename it.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise _missing_error(path, where) from None
    except PermissionError as error:
        raise unreadable_error(where, error) from None
    except (OSError, ValueError) as error:
        circular = getattr(error, "errno", 0) == errno.ELOOP
        reason = getattr(error, "strerror", None) or error
        problem = "is a link that leads to itself" if circular else f"cannot be opened: {reason}"
        raise DataError(where, problem, "Check the name.") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(where, f"is {file_kind(mode)}, not a file", remedy)
    return stat.S_ISDIR(mode)


def _missing_error(path: Path, where: str) -> DataError:
    if path.is_symlink():
        return DataError(where, "is a link to a file that does not exist", "Name the file itself.")
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return DataError(where, "no such file; its folder does not exist either", "Check the name.")
    similar = [display_name(path.with_name(name)) for name in difflib.get_close_matches(path.name, names, 3, 0.6)]
    similar += difflib.get_close_matches(str(path), list(catalog.sets()), 1, 0.6)
    remedy = "Check the name, or see `qkv data list` for named sets."
    return DataError(where, "no such file", f"Did you mean {' or '.join(similar)}?" if similar else remedy)


class ListedFile(NamedTuple):
    """A file of a folder or archive."""

    source: Source
    path: PurePosixPath
    """Its path in the folder or archive; an archive within a folder counts as a folder of its name."""
    size: int


def list_files(path: Path, pattern: str | None, findings: Findings) -> list[ListedFile]:
    """The files of a folder or archive that --filter selects; without a filter, all except documentation."""
    files = list_contents(path, findings)
    if pattern:
        return [file for file in files if matches_filter(file, path, pattern)]
    documentation = [file for file in files if is_documentation(file.path.name)]
    if 2 * len(documentation) > len(files):  # then the documentation is the data
        return files
    for file in documentation:
        findings.leave_out("documentation", file.path)
    return [file for file in files if not is_documentation(file.path.name)]


def list_contents(path: Path, findings: Findings) -> list[ListedFile]:
    """All files of a folder or archive except hidden ones; for another file, the file itself.

    The members of archives in a folder are listed, unless their unpacked files are there as well.
    """
    if not path.is_dir():
        return list(_members(path, PurePosixPath(), findings)) if is_archive(path) else [_listed(path, path.name)]
    files: list[ListedFile] = []
    for inner_path, file in _walk(path, PurePosixPath(), set(), findings):
        if not is_archive(file):
            files.append(_listed(file, inner_path))
        elif _is_unpacked_nearby(file):
            findings.leave_out("archives that are also unpacked", inner_path)
        else:
            files += _members(file, inner_path.parent / _archive_stem(file), findings)
    return files


def _listed(path: Path, inner_path: str | PurePosixPath) -> ListedFile:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise unreadable_error(display_name(path), error) from None
    return ListedFile(Source(path), PurePosixPath(inner_path), size)


def _members(archive: Path, folder: PurePosixPath, findings: Findings) -> Iterator[ListedFile]:
    for name, size in archive_members(archive, display_name(archive), findings):
        parts = [part for part in PurePosixPath(name).parts if part != "/"]
        if any(part.startswith((".", "__MACOSX")) for part in parts):
            findings.skipped["hidden"] += 1
        else:
            yield ListedFile(Source(archive, name), folder.joinpath(*parts), size)


def _archive_stem(path: Path) -> str:
    suffix = max((end for end in ARCHIVE_SUFFIXES if path.name.lower().endswith(end)), key=len)
    return path.name[: -len(suffix)] or path.name


def _is_unpacked_nearby(archive: Path) -> bool:
    """Whether the files of an archive are in a folder of its name, or next to it, with the same sizes."""
    folder = archive.with_name(_archive_stem(archive))
    members = list(_members(archive, PurePosixPath(), Findings()))[:20]
    folders = [archive.parent, *([folder] if folder.is_dir() else [])]

    def is_in(folder: Path, member: ListedFile) -> bool:
        path = folder / member.path
        return path.is_file() and path.stat().st_size == member.size

    return bool(members) and any(all(is_in(folder, member) for member in members) for folder in folders)


_DOCUMENTATION = re.compile(
    r"(?i)_?(?:read[-_]?me|licen[cs]es?|copying|copyright|notice|citation|authors|contributors|contributing|changelog"
    r"|change[-_]?log|changes|credits|acknowledge?ments|code[-_]of[-_]conduct|dataset[-_]?card|data[-_]?card|about"
    r"|dataset_infos?|dataset_dict|metadata|requirements|makefile)(?:[-_.](?:first|en|us|cc|by|mit|apache|gpl|bsd)"
    r"|[-_.0-9])*(?:\.(?:txt|md|markdown|rst|html?|pdf|json|ya?ml|toml|bib|cff|docx?|in|lock))?"
)


def is_documentation(name: str) -> bool:
    """Whether a file is about the others, by its name: README, LICENSE, CITATION.cff, about.txt, dataset_infos.json."""
    return bool(_DOCUMENTATION.fullmatch(name))


def _walk(
    folder: Path,
    inner_folder: PurePosixPath,
    visited: set[tuple[int, int]],
    findings: Findings,
    link_roots: Sequence[Path] = (),
) -> Iterator[tuple[PurePosixPath, Path]]:
    """The files below a folder, sorted, and their paths in it.

    A folder that is reached twice, by a link that leads back, is entered once. Links that lead out of the folder are
    not followed: the user did not ask for other folders.
    """
    link_roots = link_roots or _allowed_link_roots(folder)
    try:
        status = folder.stat()
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable_error(display_name(folder), error) from None
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    for entry in entries:
        path, inner_path = folder / entry.name, inner_folder / entry.name
        if entry.name.startswith((".", "__MACOSX")):
            findings.skipped["hidden"] += 1
        elif entry.is_symlink() and _leads_outside(path, link_roots):
            findings.links.append(display_name(path))
        elif _is(entry.is_dir):
            yield from _walk(path, inner_path, visited, findings, link_roots)
        elif _is(entry.is_file):
            yield inner_path, path
        else:
            findings.leave_out("not a file", inner_path)


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a link that leads to itself
        return False


def _allowed_link_roots(folder: Path) -> list[Path]:
    """The folders that links may lead into: this one, and for snapshots/COMMIT of Hugging Face's cache also blobs."""
    resolved = folder.resolve()
    snapshots = [ancestor.parent for ancestor in (resolved, *resolved.parents) if ancestor.parent.name == "snapshots"]
    return [resolved, *(path.parent / "blobs" for path in snapshots)]


def _leads_outside(link: Path, link_roots: Sequence[Path]) -> bool:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # a broken or circular link, which the caller counts as "not a file"
        return False
    return not any(target.is_relative_to(root) for root in link_roots)


def matches_filter(file: ListedFile, folder: Path, pattern: str) -> bool:
    """Whether --filter selects a file by its path in a folder or archive, or by its name alone.

    An archive within a folder is selected as a whole, or by the paths of its files.
    """
    paths = [file.path.as_posix(), file.path.name]
    if file.source.member is not None:
        paths.append(file.source.member)
        if file.source.path != folder:
            paths += [file.source.path.relative_to(folder).as_posix(), file.source.path.name]
    return any(fnmatch.fnmatchcase(path, pattern) for path in paths)

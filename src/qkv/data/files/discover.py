"""The files that a name of the user stands for: a file, a folder, an archive, or a set from the catalog.

Folders are walked in sorted order, so that the same folder is the same corpus everywhere. In folders and archives,
hidden files are skipped and counted.
"""

from __future__ import annotations

import difflib
import errno
import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from qkv.data import catalog
from qkv.data.catalog import CatalogSet
from qkv.data.files.unpack import Source, unreadable_error, zip_members
from qkv.data.findings import Findings, display_name
from qkv.errors import DataError
from qkv.safe_json import file_kind


def catalog_entry(name: str) -> CatalogSet | None:
    """The set of this name in the catalog; None for a file of the same name, which takes precedence."""
    return None if os.path.lexists(name) else catalog.find(name)


def is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


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
        problem = "is a link that leads to itself" if circular else f"cannot be opened: {error}"
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


def list_contents(path: Path, findings: Findings) -> Iterator[tuple[Source, PurePosixPath]]:
    """The files of a folder or archive, without hidden ones, and their paths in it; for another file, the file itself.

    Archives in a folder are listed by their members.
    """
    for file in _walk(path, set(), findings) if path.is_dir() else [path]:
        inner_path = PurePosixPath(file.relative_to(path).as_posix())
        if not is_zip(file):
            yield Source(file), inner_path
            continue
        for member in zip_members(file, display_name(file), findings):
            if any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(member).parts):
                findings.skipped["hidden"] += 1
            else:
                yield Source(file, member), inner_path.parent / member


def _walk(
    folder: Path, visited: set[tuple[int, int]], findings: Findings, link_roots: Sequence[Path] = ()
) -> Iterator[Path]:
    """The files below a folder, sorted. A folder that is reached twice, by a link that leads back, is entered once.

    Links that lead out of the folder are not followed: the user did not ask for other folders.
    """
    link_roots = link_roots or _allowed_link_roots(folder)
    try:
        status = folder.stat()
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable_error(display_name(folder), error) from None
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    for name in names:
        path = folder / name
        if name.startswith("."):
            findings.skipped["hidden"] += 1
        elif path.is_symlink() and _leads_outside(path, link_roots):
            findings.links.append(display_name(path))
        elif os.path.isdir(path):
            yield from _walk(path, visited, findings, link_roots)
        elif os.path.isfile(path):
            yield path
        else:
            findings.skipped["not a file"] += 1


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


def matches_filter(path: str, pattern: str | None) -> bool:
    """Whether --filter selects a file by its path in a folder or archive, or by its name alone."""
    if not pattern:
        return True
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)

"""From what the user names to the files that are read: files, folders, archives, catalog names.

Folders are walked in sorted order, so that the same folder is the same corpus everywhere. Hidden files, tables and what
is plainly not text are left out of folders and archives and counted; a file that is named directly is read or refused.
"""

from __future__ import annotations

import difflib
import errno
import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from qkv.data.files.decode import disguise
from qkv.data.files.unpack import Builtin, Source, read_bytes, require_packages, unreadable, zip_members
from qkv.data.findings import Findings, Progress, shown, silent
from qkv.errors import DataError
from qkv.safe_json import special

if TYPE_CHECKING:
    from qkv.data.catalog import CatalogSet

# endings that promise no text; a file of any other name is looked into
_OTHER = """
png jpg jpeg gif bmp ico webp tif tiff pdf doc docx xls xlsx ppt pptx odt epub mp3 mp4 wav ogg flac avi mov
exe dll so dylib o a class jar pyc pyd whl egg npy npz pt pth bin safetensors gguf onnx pkl pickle h5 db sqlite
tar tgz bz2 xz 7z rar woff woff2 ttf otf
"""
_NOT_TEXT = frozenset(f".{ending}" for ending in _OTHER.split())


def expand(
    names: Sequence[str], pattern: str | None, findings: Findings, progress: Progress = silent
) -> list[Source | Builtin]:
    """The sources behind the names, in order; DataError for a name that leads nowhere."""
    if not names:
        raise DataError("the corpus", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    sources: list[Source | Builtin] = []
    for name in names:
        if entry := catalog_entry(name):
            sources.extend(entry.sources(progress))
        else:
            sources.extend(_named(Path(name), pattern, findings))
    require_packages(sources)
    return sources


def catalog_entry(name: str) -> CatalogSet | None:
    """The named set that is meant; a file of the same name comes first."""
    from qkv.data import catalog

    return None if os.path.lexists(name) else catalog.find(name)


def found_in(path: Path) -> list[Source]:
    """The sources of a file that is known to be good."""
    return list(_named(path, None, Findings()))


def _named(path: Path, pattern: str | None, findings: Findings) -> Iterator[Source]:
    """The sources behind one path that the user wrote."""
    where = shown(path)
    mode = mode_of(path)
    if stat.S_ISDIR(mode):
        inside = list(_folder(path, pattern, findings))
        if not inside:
            wanted = f"no file matches {pattern!r}" if pattern else "nothing in it looks like text"
            skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(findings.skipped.items()))
            problem = f"{wanted} ({skipped})" if skipped else wanted
            raise DataError(where, problem, "Name the files, or say which with --filter '*.md'.")
        yield from inside
    elif not stat.S_ISREG(mode):
        raise DataError(where, f"is {special(mode)}, not a file", "Pipe it in instead: `... | qkv train -`.")
    elif path.suffix.lower() == ".zip":
        inside = list(_archive(path, pattern, findings))
        if not inside:
            raise DataError(where, "nothing in this zip looks like text", "Name files that hold text.")
        yield from inside
    else:
        source = Source(path)
        if source.format == "table":
            raise DataError(
                where,
                "is a table of examples, no text to go on with",
                "For a language model give plain text, or .jsonl with a text column (--text).",
            )
        yield source


def mode_of(path: Path) -> int:
    """What a path that the user wrote leads to; DataError where it leads nowhere."""
    where = shown(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise DataError(where, "the file's name is not Unicode", "Rename it.") from None
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        raise _missing(path, where) from None
    except NotADirectoryError:
        raise _missing(path, where) from None
    except PermissionError as error:
        raise unreadable(where, error) from None
    except (OSError, ValueError) as error:
        problem = (
            "is a link that leads to itself"
            if getattr(error, "errno", 0) == errno.ELOOP
            else f"cannot be opened: {error}"
        )
        raise DataError(where, problem, "Check the name.") from None


def _missing(path: Path, where: str) -> DataError:
    from qkv.data import catalog

    if path.is_symlink():
        return DataError(where, "is a link to a file that is not there", "Name the file itself.")
    try:
        beside = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return DataError(where, "no such file; its folder is not there either", "Check the name.")
    near = [shown(path.with_name(name)) for name in difflib.get_close_matches(path.name, beside, 3, 0.6)]
    near += difflib.get_close_matches(str(path), catalog.names(), 1, 0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Check the name, or see `qkv data list` for named sets."
    return DataError(where, "no such file", hint)


def _folder(folder: Path, pattern: str | None, findings: Findings) -> Iterator[Source]:
    seen: set[tuple[int, int]] = set()
    for path in walk(folder, seen, findings):
        inside = path.relative_to(folder).as_posix()
        if not matches(inside, pattern):
            continue
        if path.suffix.lower() == ".zip":
            yield from _archive(path, None, findings)
        elif reason := _reason_to_skip(Source(path), pattern is not None):
            findings.skipped[reason] += 1
        else:
            yield Source(path)


def walk(folder: Path, seen: set[tuple[int, int]], findings: Findings, within: Sequence[Path] = ()) -> Iterator[Path]:
    """Files below a folder, sorted; a folder met twice (by a link that leads back) is entered once.

    Links that lead out of the folder are not followed: what lies elsewhere was not asked for.
    """
    within = within or _homes(folder)
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise unreadable(shown(folder), error) from None
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith("."):
            findings.skipped["hidden"] += 1
        elif entry.is_symlink() and _leaves(path, within):
            findings.links.append(shown(path))
        elif _is(entry, "is_dir"):
            yield from walk(path, seen, findings, within)
        elif _is(entry, "is_file"):
            yield path
        else:
            findings.skipped["not a file"] += 1


def _homes(folder: Path) -> list[Path]:
    """Where links of a folder may lead: into it, and from snapshots/COMMIT to blobs, as in Hugging Face's cache."""
    home = folder.resolve()
    return [home, *(each.parent.parent / "blobs" for each in (home, *home.parents) if each.parent.name == "snapshots")]


def _leaves(link: Path, within: Sequence[Path]) -> bool:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # leads nowhere, or to itself: counted as no file
        return False
    return not any(target.is_relative_to(home) for home in within)


def _is(entry: os.DirEntry[str], question: str) -> bool:
    try:
        return bool(getattr(entry, question)())
    except OSError:  # a link that leads to itself
        return False


def _archive(path: Path, pattern: str | None, findings: Findings) -> Iterator[Source]:
    where = shown(path)
    for member in zip_members(path, where, findings):
        parts = PurePosixPath(member).parts
        if not matches(member, pattern):
            continue
        if any(part.startswith((".", "__MACOSX")) for part in parts):
            findings.skipped["hidden"] += 1
        elif reason := _reason_to_skip(Source(path, member), pattern is not None):
            findings.skipped[reason] += 1
        else:
            yield Source(path, member)


def matches(inside: str, pattern: str | None) -> bool:
    """Whether a file's place in a folder or archive, or its name alone, is one that --filter asks for."""
    if not pattern:
        return True
    return fnmatch.fnmatchcase(inside, pattern) or fnmatch.fnmatchcase(inside.rpartition("/")[2], pattern)


def _reason_to_skip(source: Source, asked_for: bool) -> str | None:
    """Why a file found in a folder or archive is not read; one that the filter asked for is judged by content only."""
    name = PurePosixPath(source.member or source.path.name)
    if source.format == "table":
        return "tables"
    if source.member and (name.suffix.lower() in (".gz", ".zst", ".zip") or source.format == "parquet"):
        return "packed inside an archive"
    if not asked_for and name.suffix.lower() in _NOT_TEXT:
        return "not text"
    if source.format == "parquet" or source.packing in ("gz", "zst"):
        return None
    head = next(read_bytes(source), b"")
    if not head:
        return "empty"
    found = disguise(head[:4096])
    return "not text" if (found and not found[0].startswith("UTF")) or 0 in head[:4096] else None

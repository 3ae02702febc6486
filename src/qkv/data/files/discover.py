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

from qkv.data import catalog
from qkv.data.catalog import CatalogFile, CatalogSet
from qkv.data.corpus import CorpusConfig
from qkv.data.files.decode import binary_format
from qkv.data.files.unpack import Builtin, Source, read_bytes, require_packages, unreadable, zip_members
from qkv.data.findings import Findings, Progress, display_name, no_progress
from qkv.errors import DataError
from qkv.safe_json import file_kind

# endings of files that hold no text; a file with any other name is opened
_OTHER = """
png jpg jpeg gif bmp ico webp tif tiff pdf doc docx xls xlsx ppt pptx odt epub mp3 mp4 wav ogg flac avi mov
exe dll so dylib o a class jar pyc pyd whl egg npy npz pt pth bin safetensors gguf onnx pkl pickle h5 db sqlite
tar tgz bz2 xz 7z rar woff woff2 ttf otf
"""
_NOT_TEXT = frozenset(f".{ending}" for ending in _OTHER.split())


def expand(
    names: Sequence[str], pattern: str | None, findings: Findings, progress: Progress = no_progress
) -> list[Source | Builtin]:
    """The text files behind the names, in order; DataError for a name that leads nowhere."""
    if not names:
        raise DataError("the corpus", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    sources: list[Source | Builtin] = []
    for name in names:
        entry = catalog_entry(name)
        sources += text_sources(entry, progress) if entry else _text_files(Path(name), pattern, findings)
    require_packages(sources)
    return sources


def catalog_entry(name: str) -> CatalogSet | None:
    """The named set that is meant; a file of the same name comes first."""
    return None if os.path.lexists(name) else catalog.find(name)


def text_sources(entry: CatalogSet, progress: Progress = no_progress) -> Sequence[Source | Builtin]:
    """What a language model reads of a named set."""
    if entry.builtin:
        return [Builtin(entry.name, catalog.BUILTIN[entry.name])]
    if entry.task != "language modelling":
        problem = f"is a set for {entry.task}, not text for a language model"
        raise DataError(entry.name, problem, "`qkv data list` names sets of text.")
    return _catalog_files(entry.train, progress)


def own_validation(corpus: CorpusConfig, findings: Findings, progress: Progress = no_progress) -> list[Source]:
    """The validation files of a named set that has some, unless the user gave others."""
    entry = catalog_entry(corpus.files[0]) if len(corpus.files) == 1 and not corpus.valid else None
    if entry is None or not entry.valid or entry.task != "language modelling":
        return []
    findings.add_note(f"{entry.name}: validated on its own {', '.join(file.path for file in entry.valid)}.")
    return _catalog_files(entry.valid, progress)


def _catalog_files(files: Sequence[CatalogFile], progress: Progress) -> list[Source]:
    return [source for file in files for source in _text_files(file.obtain(progress), None, Findings())]


def _text_files(path: Path, pattern: str | None, findings: Findings) -> list[Source]:
    """The text files behind one path that the user wrote."""
    where = display_name(path)
    is_folder = leads_to_folder(path, "Pipe it in instead: `... | qkv train -`.")
    if not is_folder and not is_zip(path):
        if Source(path).format == "table":
            remedy = "For a language model give plain text, or .jsonl with a text column (--text)."
            raise DataError(where, "is a table of examples, not text for a language model", remedy)
        return [Source(path)]
    files: list[Source] = []
    for source, place in contents(path, findings):
        packed = is_folder and source.member  # the pattern chooses an archive inside of a folder as a whole
        if not matches(source.path.relative_to(path).as_posix() if packed else place.as_posix(), pattern):
            continue
        if reason := _reason_to_skip(source, by_content=pattern is not None and not packed):
            findings.skipped[reason] += 1
        else:
            files.append(source)
    if not files and not is_folder:
        raise DataError(where, "nothing in this zip looks like text", "Name files that hold text.")
    if not files:
        wanted = f"no file matches {pattern!r}" if pattern else "nothing in it looks like text"
        skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(findings.skipped.items()))
        problem = f"{wanted} ({skipped})" if skipped else wanted
        raise DataError(where, problem, "Name the files, or choose them with --filter '*.md'.")
    return files


def is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def leads_to_folder(path: Path, remedy: str) -> bool:
    """Whether a path that the user wrote leads to a folder, and not to a file; DataError where it leads to neither."""
    where = display_name(path)
    try:
        str(path).encode()
        mode = path.stat().st_mode
    except UnicodeEncodeError:
        raise DataError(where, "the file's name is not Unicode", "Rename it.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path, where) from None
    except PermissionError as error:
        raise unreadable(where, error) from None
    except (OSError, ValueError) as error:
        circular = getattr(error, "errno", 0) == errno.ELOOP
        problem = "is a link that leads to itself" if circular else f"cannot be opened: {error}"
        raise DataError(where, problem, "Check the name.") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(where, f"is {file_kind(mode)}, not a file", remedy)
    return stat.S_ISDIR(mode)


def _missing(path: Path, where: str) -> DataError:
    if path.is_symlink():
        return DataError(where, "is a link to a file that is not there", "Name the file itself.")
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return DataError(where, "no such file; its folder is not there either", "Check the name.")
    near = [display_name(path.with_name(name)) for name in difflib.get_close_matches(path.name, names, 3, 0.6)]
    near += difflib.get_close_matches(str(path), list(catalog.sets()), 1, 0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Check the name, or see `qkv data list` for named sets."
    return DataError(where, "no such file", hint)


def contents(path: Path, findings: Findings) -> Iterator[tuple[Source, PurePosixPath]]:
    """The files of a folder or archive with their places in it, without hidden ones; any other file by itself."""
    for file in walk(path, set(), findings) if path.is_dir() else [path]:
        place = PurePosixPath(file.relative_to(path).as_posix())
        if not is_zip(file):
            yield Source(file), place
            continue
        for member in zip_members(file, display_name(file), findings):
            if any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(member).parts):
                findings.skipped["hidden"] += 1
            else:
                yield Source(file, member), place.parent / member


def walk(folder: Path, seen: set[tuple[int, int]], findings: Findings, within: Sequence[Path] = ()) -> Iterator[Path]:
    """Files below a folder, sorted; a folder that is reached twice (by a link that leads back) is entered once.

    Links that lead out of the folder are not followed: what lies elsewhere was not asked for.
    """
    within = within or _homes(folder)
    try:
        status = folder.stat()
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable(display_name(folder), error) from None
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for name in names:
        path = folder / name
        if name.startswith("."):
            findings.skipped["hidden"] += 1
        elif path.is_symlink() and _leaves(path, within):
            findings.links.append(display_name(path))
        elif os.path.isdir(path):
            yield from walk(path, seen, findings, within)
        elif os.path.isfile(path):
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


def matches(place: str, pattern: str | None) -> bool:
    """Whether --filter asks for a file, by its place in a folder or archive or by its name alone."""
    if not pattern:
        return True
    return fnmatch.fnmatchcase(place, pattern) or fnmatch.fnmatchcase(place.rpartition("/")[2], pattern)


def _reason_to_skip(source: Source, by_content: bool) -> str | None:
    """Why a file of a folder or archive is not read; `by_content`: whatever its name promises."""
    ending = PurePosixPath(source.file_name).suffix.lower()
    if source.format == "table":
        return "tables"
    if source.member and (ending in (".gz", ".zst", ".zip") or source.format == "parquet"):
        return "packed inside an archive"
    if not by_content and ending in _NOT_TEXT:
        return "not text"
    if source.format == "parquet" or source.packing in ("gz", "zst"):
        return None
    head = next(read_bytes(source), b"")[:4096]
    if not head:
        return "empty"
    binary = binary_format(head)
    return "not text" if (binary and not binary[0].startswith("UTF")) or 0 in head else None

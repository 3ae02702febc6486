"""The files that a name of the user stands for: a file, a folder, an archive, or a set from the catalog.

Folders are walked in sorted order, so that the same folder is the same corpus everywhere. In folders and archives,
hidden files, tables and files that are not text are skipped and counted; a file that the user names is read or refused.
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
from qkv.data.files.magic import HEAD_SIZE, is_text
from qkv.data.files.unpack import Builtin, Source, read_bytes, require_packages, unreadable_error, zip_members
from qkv.data.findings import Findings, Progress, display_name, no_progress
from qkv.errors import DataError
from qkv.safe_json import file_kind

# suffixes of files that hold no text; files with other suffixes are opened
_NON_TEXT_SUFFIXES = """
.png .jpg .jpeg .gif .bmp .ico .webp .tif .tiff .pdf .doc .docx .xls .xlsx .ppt .pptx .odt .epub .mp3 .mp4 .wav .ogg
.flac .avi .mov .exe .dll .so .dylib .o .a .class .jar .pyc .pyd .whl .egg .npy .npz .pt .pth .bin .safetensors .gguf
.onnx .pkl .pickle .h5 .db .sqlite .tar .tgz .bz2 .xz .7z .rar .woff .woff2 .ttf .otf
"""
_NOT_TEXT = frozenset(_NON_TEXT_SUFFIXES.split())


def find_text_files(
    names: Sequence[str], pattern: str | None, findings: Findings, progress: Progress = no_progress
) -> list[Source | Builtin]:
    """The text files that names stand for, in order; DataError for a name that stands for none."""
    if not names:
        raise DataError("the corpus", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    sources: list[Source | Builtin] = []
    for name in names:
        entry = catalog_entry(name)
        sources += catalog_text_sources(entry, progress) if entry else _text_files(Path(name), pattern, findings)
    require_packages(sources)
    return sources


def catalog_entry(name: str) -> CatalogSet | None:
    """The set of this name in the catalog; None for a file of the same name, which takes precedence."""
    return None if os.path.lexists(name) else catalog.find(name)


def catalog_text_sources(entry: CatalogSet, progress: Progress = no_progress) -> Sequence[Source | Builtin]:
    """The training text of a set of the catalog."""
    if entry.builtin:
        return [Builtin(entry.name, catalog.BUILTIN[entry.name])]
    if entry.task != "language modelling":
        problem = f"is a set for {entry.task}, not text for a language model"
        raise DataError(entry.name, problem, "`qkv data list` names sets of text.")
    return _catalog_files(entry.train, progress)


def catalog_validation_files(
    corpus: CorpusConfig, findings: Findings, progress: Progress = no_progress
) -> list[Source]:
    """The validation files of a set of the catalog, unless the user gave others; empty if there are none."""
    entry = catalog_entry(corpus.files[0]) if len(corpus.files) == 1 and not corpus.valid else None
    if entry is None or not entry.valid or entry.task != "language modelling":
        return []
    findings.add_note(f"{entry.name}: validated on its own {', '.join(file.path for file in entry.valid)}.")
    return _catalog_files(entry.valid, progress)


def _catalog_files(files: Sequence[CatalogFile], progress: Progress) -> list[Source]:
    return [source for file in files for source in _text_files(file.obtain(progress), None, Findings())]


def _text_files(path: Path, pattern: str | None, findings: Findings) -> list[Source]:
    """The text files of one path: the file itself, or those of a folder or zip that match the pattern."""
    where = display_name(path)
    is_folder = leads_to_folder(path, "Pipe it in instead: `... | qkv train -`.")
    if not is_folder and not is_zip(path):
        if Source(path).format == "table":
            remedy = "For a language model give plain text, or .jsonl with a text column (--text)."
            raise DataError(where, "is a table of examples, not text for a language model", remedy)
        return [Source(path)]
    files: list[Source] = []
    for source, inner_path in list_contents(path, findings):
        zip_in_folder = is_folder and source.member  # the pattern selects it as a whole
        matched_path = source.path.relative_to(path) if zip_in_folder else inner_path
        if not matches_filter(matched_path.as_posix(), pattern):
            continue
        if reason := _reason_to_skip(source, ignore_suffix=pattern is not None and not zip_in_folder):
            findings.skipped[reason] += 1
        else:
            files.append(source)
    if not files and not is_folder:
        raise DataError(where, "nothing in this zip looks like text", "Name files that hold text.")
    if not files:
        problem = f"no file matches {pattern!r}" if pattern else "nothing in it looks like text"
        if skipped := ", ".join(f"{count} {reason}" for reason, count in sorted(findings.skipped.items())):
            problem += f" ({skipped})"
        raise DataError(where, problem, "Name the files, or choose them with --filter '*.md'.")
    return files


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


def _reason_to_skip(source: Source, ignore_suffix: bool) -> str | None:
    """Why a file of a folder or archive is not read as text; None for one that is.

    With `ignore_suffix`, a file with a suffix such as .pdf is judged by its first bytes.
    """
    suffix = PurePosixPath(source.file_name).suffix.lower()
    if source.format == "table":
        return "tables"
    if source.member and (suffix in (".gz", ".zst", ".zip") or source.format == "parquet"):
        return "packed inside an archive"
    if not ignore_suffix and suffix in _NOT_TEXT:
        return "not text"
    if source.format == "parquet" or source.compression in ("gz", "zst"):
        return None
    head = next(read_bytes(source), b"")[:HEAD_SIZE]
    if not head:
        return "empty"
    return None if is_text(head) else "not text"

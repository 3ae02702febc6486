"""The files that are text for a language model: files that are named, and those of folders, archives and the catalog.

In folders and archives, tables and files that are not text are skipped and counted; a file that the user names is read
or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from qkv.data import catalog
from qkv.data.catalog import CatalogFile, CatalogSet
from qkv.data.corpus import CorpusConfig
from qkv.data.files.discover import catalog_entry, is_zip, leads_to_folder, list_contents, matches_filter
from qkv.data.files.magic import HEAD_SIZE, is_text
from qkv.data.files.unpack import Builtin, Source, read_bytes, require_packages
from qkv.data.findings import Findings, Progress, display_name, no_progress
from qkv.errors import DataError

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


def _reason_to_skip(source: Source, ignore_suffix: bool) -> str | None:
    """Why a file of a folder or archive is not read as text; None for one that is.

    With `ignore_suffix`, a file with a suffix such as .pdf is judged by its first bytes.
    """
    suffix = PurePosixPath(source.file_name).suffix.lower()
    if source.format == "table":
        return "tables"
    if source.member and (suffix in (".gz", ".zst", ".zip") or source.format == "parquet"):
        return "packed inside an archive"
    if not source.is_document and not ignore_suffix and suffix in _NOT_TEXT:
        return "not text"
    if source.format == "parquet" or source.compression in ("gz", "zst"):
        return None
    head = next(read_bytes(source), b"")[:HEAD_SIZE]
    if not head:
        return "empty"
    return None if source.is_document or is_text(head) else "not text"

"""Finds the files of text for a language model: named files, and those of folders, archives and the catalog.

In folders and archives, some files are left out and counted: tables, files that are not text, generated files, a README
about the others. A file that the user names, or selects with --filter, is read or refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from pathlib import Path, PurePosixPath

from qkv.data import catalog
from qkv.data.catalog import CatalogFile, CatalogSet
from qkv.data.corpus import CorpusConfig
from qkv.data.files.archives import is_archive
from qkv.data.files.discover import catalog_entry, is_documentation, leads_to_folder, list_contents, matches_filter
from qkv.data.files.magic import HEAD_SIZE, is_text
from qkv.data.files.unpack import Builtin, Source, read_bytes, require_packages
from qkv.data.findings import Findings, Progress, display_name, no_progress
from qkv.errors import DataError

_NON_TEXT_SUFFIXES = """
.png .jpg .jpeg .gif .bmp .ico .webp .tif .tiff .svg .doc .xls .xlsx .ppt .pptx .odt .mp3 .mp4 .wav .ogg .flac .avi .mov
.exe .dll .so .dylib .o .a .class .jar .pyc .pyd .whl .egg .npy .npz .pt .pth .bin .safetensors .gguf .onnx .pkl .pickle
.h5 .db .sqlite .7z .rar .woff .woff2 .ttf .otf
"""
_NOT_TEXT = frozenset(_NON_TEXT_SUFFIXES.split())
"""Suffixes of files that hold no text; files with other suffixes are opened."""
_CODE_SUFFIXES = """
.py .pyi .ipynb .js .mjs .cjs .ts .tsx .jsx .vue .c .h .cc .cpp .cxx .hpp .hh .cu .java .kt .scala .go .rs .rb .php
.swift .cs .fs .m .r .jl .lua .pl .pm .sh .bash .ps1 .sql .hs .ml .mli .ex .exs .erl .clj .lisp .el .zig .nim .dart .s
"""
_CODE = frozenset(_CODE_SUFFIXES.split())
_PROJECTS = "pyproject.toml setup.py setup.cfg package.json Cargo.toml CMakeLists.txt go.mod pom.xml build.gradle"
_PROJECT_FILES = frozenset(_PROJECTS.split())
_PAGES = (".md", ".rst", ".html")
_BUILD_FOLDERS = ("build", "dist", "target", "out")
"""Folders of build output, if they are next to a file of _PROJECT_FILES."""
_GENERATED_FOLDERS = ("node_modules", "__pycache__", "site-packages", "bower_components")
_LOCKS = """
package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml cargo.lock poetry.lock pipfile.lock uv.lock pdm.lock
composer.lock gemfile.lock go.sum flake.lock bun.lock
"""
_LOCK_FILES = frozenset(_LOCKS.split())
_GENERATED_ENDINGS = (".min.js", ".min.css", ".map", ".bundle.js")
_MINIFIED, _LONGEST_CODE_LINE = (".js", ".mjs", ".cjs", ".css"), 5000
GENERATED = "generated or downloaded by tools"
ABOUT_OTHERS = "documentation"
MIXED = "data among code, or code among data"


def find_text_files(
    names: Sequence[str], pattern: str | None, findings: Findings, progress: Progress = no_progress
) -> list[Source | Builtin]:
    """The text files of all names, in order; DataError for a name that has none."""
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
        raise DataError(entry.name, problem, "`qkv data list` shows sets of text.")
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


def catalog_held_out(corpus: CorpusConfig, progress: Progress = no_progress) -> tuple[str, ...]:
    """The validation files of a set of the catalog, if `corpus` names exactly one; else empty."""
    entry = catalog_entry(corpus.files[0]) if len(corpus.files) == 1 else None
    return tuple(str(file.obtain(progress)) for file in entry.valid) if entry is not None else ()


def _catalog_files(files: Sequence[CatalogFile], progress: Progress) -> list[Source]:
    return [source for file in files for source in _text_files(file.obtain(progress), None, Findings())]


def _text_files(path: Path, pattern: str | None, findings: Findings) -> list[Source]:
    """The text files of one path: the file itself, or those of a folder or archive that match the pattern."""
    where = display_name(path)
    is_folder = leads_to_folder(path, "Pipe it in instead: `... | qkv train -`.")
    if not is_folder and not is_archive(path):
        if Source(path).format in ("table", "workbook", "tmx"):
            require_packages([Source(path)])  # without its package, a table cannot be searched for labels
            if Source(path).compression != "plain" or Source(path).format == "workbook":
                for _ in read_bytes(Source(path)):  # what is damaged is reported as such
                    pass
            options = "Name its columns with --text and --label, or --source and --target (or --task translation)"
            remedy = f"{options}; for a language model give plain text, or .jsonl with a text column (--text)."
            raise DataError(where, "is a table of examples, not text for a language model", remedy)
        return [Source(path)]
    files = _list_text_files(path, pattern, findings)
    if not files and not is_folder:
        kind = Source(path).compression
        raise DataError(where, f"nothing in this {kind} looks like text", "Name files that hold text.")
    if not files:
        problem = f"no file matches {pattern!r}" if pattern else "nothing in it looks like text"
        if skipped := findings.skipped_text():
            problem += f" ({skipped})"
        raise DataError(where, problem, "Name the files, or choose them with --filter '*.md'.")
    return files


def is_mostly_text(path: Path, others: Sequence[Source]) -> bool:
    """Whether the files of a folder or archive are text for a language model, apart from a few others."""
    texts = _list_text_files(path, None, Findings())
    unwanted = {*others, *_about_others([*texts, *others])}
    texts = [source for source in texts if source not in unwanted]
    return _outweigh([source for source in texts if source.format == "text" or source.is_document], others)


def _list_text_files(path: Path, pattern: str | None, findings: Findings) -> list[Source]:
    """The text files of a folder or archive; without a pattern, documentation about the others is left out."""
    files: list[Source] = []
    contents = list_contents(path, findings)
    projects = {file.path.parent for file in contents if file.path.name in _PROJECT_FILES}
    for file in contents:
        if pattern is not None and not matches_filter(file, path, pattern):
            continue
        whole_archive = bool(file.source.member) and path.is_dir()  # the pattern selects it as a whole
        reason = GENERATED if pattern is None and _is_generated(file.path, projects) else None
        if reason := reason or _reason_to_skip(file.source, ignore_suffix=pattern is not None and not whole_archive):
            findings.leave_out(reason, file.path)
        else:
            files.append(file.source)
    if pattern is None:
        for reason, unwanted in ((ABOUT_OTHERS, _about_others(files)), (MIXED, _data_or_code(files))):
            files = [source for source in files if source not in unwanted]
            for source in sorted(unwanted, key=lambda source: source.file_name):
                findings.leave_out(reason, source.file_name)
    return files


def _is_generated(inner_path: PurePosixPath, projects: Set[PurePosixPath]) -> bool:
    """Whether a file of a source tree was generated or downloaded by a tool."""
    name = inner_path.name.lower()
    if name in _LOCK_FILES or name.endswith(_GENERATED_ENDINGS):
        return True
    return any(
        folder.name in _GENERATED_FOLDERS
        or folder.name.endswith(".egg-info")
        or (folder.name in _BUILD_FOLDERS and folder.parent in projects)
        for folder in inner_path.parents
    )


def _about_others(files: Sequence[Source]) -> set[Source]:
    """Licences and the like, and a README that is not one of several pages of its kind; none if there is nothing else.

    A README.md among other .md files is one of their pages.
    """
    suffixes = Counter(source.suffix for source in files)
    found = set()
    for source in files:
        is_page = source.suffix in _PAGES and suffixes[source.suffix] > 1
        if is_documentation(source.file_name) and not (is_page and source.file_name.lower().startswith("readme")):
            found.add(source)
    return found if len(found) < len(files) else set()


def _data_or_code(files: Sequence[Source]) -> set[Source]:
    """The files to leave out: data among source code, such as package.json, or code among more data."""
    data = {source for source in files if source.format in ("json", "jsonl", "parquet", "arrow")}
    code = {source for source in files if source.suffix in _CODE}
    if not data or not code:
        return set()
    return data if _outweigh(code, data) else code


def _outweigh(files: Collection[Source], others: Collection[Source]) -> bool:
    """Whether files are as many and as large as others, or ten times as many."""
    return len(files) >= len(others) and (_total_size(files) >= _total_size(others) or len(files) >= 10 * len(others))


def _total_size(sources: Iterable[Source]) -> int:
    return sum(1 if source.member else source.path.stat().st_size for source in sources)


def _reason_to_skip(source: Source, ignore_suffix: bool) -> str | None:
    """Why a file of a folder or archive is not read as text; None for one that is.

    With `ignore_suffix`, only the first bytes of a file with a suffix such as .png decide.
    """
    suffix = PurePosixPath(source.file_name).suffix.lower()
    if source.format in ("table", "workbook", "tmx"):
        return "tables"
    if source.member and (is_archive(PurePosixPath(source.member)) or source.is_read_whole):
        return "packed inside an archive"
    if not source.is_document and not ignore_suffix and suffix in _NOT_TEXT:
        return "not text"
    if source.is_read_whole or source.inner_compression != "plain":
        return None
    head = next(read_bytes(source), b"")[:HEAD_SIZE]
    if not head:
        return "empty"
    if not ignore_suffix and suffix in _MINIFIED and max(map(len, head.split(b"\n"))) > _LONGEST_CODE_LINE:
        return GENERATED
    return None if source.is_document or is_text(head) else "not text"

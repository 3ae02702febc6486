"""Documents written to a new file: .jsonl, or .txt that qkv reads back as the same documents.

In a .txt, each line or paragraph is a document; a document that cannot be written so is refused, and never changed,
except for blank lines at its ends. A .jsonl can hold any document. In both, a lone surrogate becomes a question mark.
The file is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from io import TextIOWrapper
from pathlib import Path

from qkv.data.corpus import Documents
from qkv.data.files.magic import magic_format
from qkv.data.findings import display_name
from qkv.errors import DataError, InputError, StorageError
from qkv.storage import PARTIAL_SUFFIX, flush, remove_stale, storage_errors

ENDINGS = (".txt", ".jsonl", ".txt.gz", ".jsonl.gz")
LEFT_OVER_SECONDS = 24 * 3600


def require_new(path: Path, endings: tuple[str, ...], force: bool) -> None:
    """Refuse a name that cannot or must not be written."""
    where = display_name(path)
    if not path.name.lower().endswith(endings):
        raise InputError(f"{where}: cannot be written. Expected a name that ends in {' or '.join(endings)}.")
    if os.path.isdir(path):
        raise InputError(f"{where}: is a folder. Name a file.")
    if os.path.lexists(path) and not force:
        raise InputError(f"{where}: already exists. Choose another name, or replace it with --force.")
    if not os.path.isdir(path.parent):
        raise InputError(f"{where}: the folder {display_name(path.parent)} does not exist. Create it first.")


class DocumentWriter:
    """Writes documents as JSON, one object per line."""

    documents: Documents | None = None
    """The `documents` option that reads the file back; None for .jsonl, which needs none."""
    wanted = True
    """Whether the file is renamed at the end, and not deleted."""

    def __init__(self, path: Path, file: TextIOWrapper) -> None:
        self.path, self.file = path, file

    def add(self, text: str, **facts: object) -> None:
        self.write(json.dumps({"text": text, **facts}, ensure_ascii=False) + "\n")

    def write(self, text: str) -> None:
        with storage_errors(self.path):
            self.file.write(text)

    def finish(self) -> None:
        pass


class PlainTextWriter(DocumentWriter):
    """Writes documents as lines or paragraphs of a text; a single document may be the whole text."""

    def __init__(self, path: Path, file: TextIOWrapper, documents: Documents) -> None:
        super().__init__(path, file)
        self.documents = documents
        self.count = 0
        self._only: str | None = None

    def add(self, text: str, **facts: object) -> None:
        if self.documents == "files":
            if self._only is None:
                self._only = text
                return
            self.documents = "paragraphs"
            self._add(self._only)
        self._add(text)

    def finish(self) -> None:
        if self.documents == "files" and self._only is not None:
            self.count = 1
            self._require_fit(self._only)
            self.write(_line_end_before(self._only) + self._only)

    def _add(self, text: str) -> None:
        self.count += 1
        bare = without_blank_ends(text)
        self._require_fit(bare)
        between = "\n" if self.documents == "paragraphs" else ""
        self.write((between if self.count > 1 else _line_end_before(bare)) + bare + "\n")

    def _require_fit(self, text: str) -> None:
        lines = text.split("\n")
        remedy = ""
        if "\0" in text:
            problem = "holds a NUL character, which is not allowed in a text file"
        elif self.documents == "lines" and len(lines) > 1:
            problem = "has several lines, and with --documents lines a line end separates documents"
        elif self.documents == "paragraphs" and not all(line.strip() for line in lines):
            problem = "has a blank line, and in a text of several documents a blank line separates them"
            remedy = ", or make each paragraph a document: --documents paragraphs"
        else:
            return
        where = f"{display_name(self.path)}: document {self.count:,} ({display_name(excerpt(text, 40))})"
        raise DataError(where, problem, f"Write .jsonl, which can hold any document{remedy}.")


@contextmanager
def document_file(path: Path | None, documents: Documents) -> Iterator[DocumentWriter | None]:
    """Write documents to a new file, which gets its name at the end, unless an error occurred or it is not wanted."""
    if path is None:
        yield None
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    remove_stale(path.parent.glob(f".{escape(path.name)}.*{PARTIAL_SUFFIX}"), LEFT_OVER_SECONDS)
    with ExitStack() as cleanup:
        cleanup.callback(temporary.unlink, missing_ok=True)  # before it is opened: a signal may come at any moment
        try:
            with storage_errors(path):
                file = temporary.open("wb")
        except OSError as error:  # a name that this file system does not accept
            raise StorageError(f"{display_name(path)}: {error.strerror}. Choose another name or place.") from None
        # without a name and a time, the same documents give the same bytes
        compressed = gzip.GzipFile("", "wb", 6, file, mtime=0) if path.suffix.lower() == ".gz" else file
        # a lone surrogate, which a few encodings allow, becomes a question mark
        text = TextIOWrapper(compressed, encoding="utf-8", errors="replace", newline="\n")
        is_json = path.name.lower().removesuffix(".gz").endswith(".jsonl")
        writer = DocumentWriter(path, text) if is_json else PlainTextWriter(path, text, documents)
        try:
            yield writer
            writer.finish()
            with storage_errors(path):
                text.close()
                file.close()
                if writer.wanted:
                    flush(temporary)
                    temporary.replace(path)
                    flush(path.parent)
        finally:
            for stream in (text, compressed, file):
                with suppress(OSError):  # a write that failed before fails again
                    stream.close()


def _line_end_before(beginning: str) -> str:
    """A line end to put before a text that would be taken for another format, such as one that begins with %PDF."""
    head = beginning[:4096].encode("utf-8", "replace")
    return "\n" if magic_format(head) or beginning.startswith("\ufeff") else ""


def without_blank_ends(text: str) -> str:
    """The text without blank lines at its beginning and its end."""
    before = text[: len(text) - len(text.lstrip())]
    text = text[before.rfind("\n") + 1 :]
    solid = text.rstrip()
    return solid + text[len(solid) :].partition("\n")[0]


def excerpt(text: str, length: int) -> str:
    """The beginning of a text, on one line."""
    text = text.lstrip()
    line = " ".join(text[: 10 * length].split())
    return line if len(line) <= length and len(text) <= 10 * length else f"{line[:length]}..."

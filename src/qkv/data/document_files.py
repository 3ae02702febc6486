"""Documents written to a new file: .jsonl, or .txt that qkv reads back as the same documents.

In a .txt a line or a paragraph is a document; a document that does not fit is refused, never changed (except for blank
lines at its ends). A .jsonl takes any document; in both a lone surrogate becomes a question mark. The file is written
under another name and gets its own when it is complete.
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
    """Refuse a name that cannot be, or must not be, written."""
    where = display_name(path)
    if not path.name.lower().endswith(endings):
        raise InputError(f"{where}: cannot be written. Expected a name that ends in {' or '.join(endings)}.")
    if os.path.isdir(path):
        raise InputError(f"{where}: is a folder. Name a file.")
    if os.path.lexists(path) and not force:
        raise InputError(f"{where}: already exists. Choose another name, or replace it with --force.")
    if not os.path.isdir(path.parent):
        raise InputError(f"{where}: the folder {display_name(path.parent)} does not exist. Make it first.")


class DocumentWriter:
    """Documents as JSON, an object a line."""

    documents: Documents | None = None
    """How the file is to be read back, where its format does not say so."""
    wanted = True
    """Whether the file gets its name in the end."""

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
    """Documents as lines or paragraphs of a text; one alone may be the whole text."""

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
            problem = "holds a NUL character, which a text file must not"
        elif self.documents == "lines" and len(lines) > 1:
            problem = "has several lines, and with --documents lines a line end separates documents"
        elif self.documents == "paragraphs" and not all(line.strip() for line in lines):
            problem = "has a blank line, and in a text of several documents a blank line separates them"
            remedy = ", or make each paragraph a document: --documents paragraphs"
        else:
            return
        where = f"{display_name(self.path)}: document {self.count:,} ({display_name(excerpt(text, 40))})"
        raise DataError(where, problem, f"Write .jsonl, which takes any document{remedy}.")


@contextmanager
def document_file(path: Path | None, documents: Documents) -> Iterator[DocumentWriter | None]:
    """A new file for documents, which is put in place at the end, unless something failed or it is not wanted."""
    if path is None:
        yield None
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    remove_stale(path.parent.glob(f".{escape(path.name)}.*{PARTIAL_SUFFIX}"), LEFT_OVER_SECONDS)
    with ExitStack() as cleanup:
        cleanup.callback(aside.unlink, missing_ok=True)  # before it is opened: a signal may come at any moment
        try:
            with storage_errors(path):
                plain = aside.open("wb")
        except OSError as error:  # a name that this file system does not accept
            raise StorageError(f"{display_name(path)}: {error.strerror}. Choose another name or place.") from None
        # without a name and a time in it, the same documents give the same bytes
        packed = gzip.GzipFile("", "wb", 6, plain, mtime=0) if path.suffix.lower() == ".gz" else plain
        # a lone surrogate, which a few encodings let through, becomes a question mark
        text = TextIOWrapper(packed, encoding="utf-8", errors="replace", newline="\n")
        is_json = path.name.lower().removesuffix(".gz").endswith(".jsonl")
        writer = DocumentWriter(path, text) if is_json else PlainTextWriter(path, text, documents)
        try:
            yield writer
            writer.finish()
            with storage_errors(path):
                text.close()
                plain.close()
                if writer.wanted:
                    flush(aside)
                    aside.replace(path)
                    flush(path.parent)
        finally:
            for file in (text, packed, plain):
                with suppress(OSError):  # what could not be written before cannot be written now
                    file.close()


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

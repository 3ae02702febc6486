"""The text of documents: each is extracted once and kept in a temporary file for further reads.

Another process (child.py) extracts it, with limits of time and memory, because the libraries that read documents were
not written for hostile files. A document that exceeds the limits is refused even in a folder, where unreadable ones are
left out: the limits differ between machines, and a corpus must have the same text on all of them.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from qkv.data.documents import child
from qkv.data.documents.mail import split_mailbox
from qkv.data.files.decode import decode
from qkv.data.files.decompress import CHUNK_SIZE
from qkv.data.files.unpack import DOCUMENT_PACKAGES, Source, read_bytes
from qkv.data.findings import Caution, Findings, OnRead
from qkv.data.formats.rows import report_reads
from qkv.errors import DataError
from qkv.storage import storage_errors

EXTRACTION_VERSION = 1
"""Increase it when the same document would give a different text."""
MAX_SIZE = 2**29
SECONDS, SECONDS_PER_MEGABYTE = 20, 60
MEMORY, MEMORY_PER_BYTE = 2**30, 8
HELD_IN_MEMORY = 2**24
"""How many bytes of extracted text are held in memory; more are written to disk."""
_TOO_MUCH = "Give its text instead, or leave it out."
_DECODED = ("html", "ipynb")
"""Formats that are text themselves, in any encoding."""
_COMMAND = f"import sys; from {child.__name__} import main; main(sys.stdin.buffer, sys.stdout.buffer)"
_DECLARED = re.compile(rb"""(?i)(?:charset\s*=\s*["']?|<\?xml[^>]*encoding\s*=\s*["'])([a-z0-9_.:-]+)""")


Process = subprocess.Popen[bytes]


class UnreadableDocumentError(DataError):
    """A document that is damaged, encrypted or without text; it is left out unless the user named it."""


def extraction_version(source: Source) -> str:
    """The versions on which the text of a document depends, besides its bytes."""
    package = DOCUMENT_PACKAGES.get(source.format)
    return f"{EXTRACTION_VERSION} {package} {version(package)}" if package else str(EXTRACTION_VERSION)


class _Range(NamedTuple):
    start: int
    end: int


class DocumentTexts:
    """Reads the texts of files; those of documents are extracted only the first time."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(HELD_IN_MEMORY)  # noqa: SIM115  (closed with this object)
        weakref.finalize(self, self._file.close)
        self._ranges: dict[Source, list[_Range] | UnreadableDocumentError] = {}
        self._process: Process | None = None

    def read(
        self, source: Source, encoding: str | None, findings: Findings, on_read: OnRead | None = None
    ) -> Iterator[str]:
        """The text of a document or of a file of plain text, in pieces."""
        return chain.from_iterable(self.documents(source, encoding, findings, on_read))

    def documents(
        self, source: Source, encoding: str | None, findings: Findings, on_read: OnRead | None = None
    ) -> Iterator[Iterator[str]]:
        """The texts of a file, in pieces: one, or that of each message in a mailbox."""
        if not source.is_document:
            texts = decode(report_reads(read_bytes(source), on_read), source.display_name, encoding, findings)
            return iter([texts])
        if source not in self._ranges:
            try:
                self._ranges[source] = self._extract(source, encoding, findings, on_read)
            except UnreadableDocumentError as error:
                self._ranges[source] = error
        kept = self._ranges[source]
        if isinstance(kept, UnreadableDocumentError):
            raise kept
        return map(self._read_kept, kept)

    def _read_kept(self, kept: _Range) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        position = kept.start
        while position < kept.end:
            self._file.seek(position)
            chunk = self._file.read(min(CHUNK_SIZE, kept.end - position))
            position += len(chunk)
            yield decoder.decode(chunk)

    def _extract(
        self, source: Source, encoding: str | None, findings: Findings, on_read: OnRead | None
    ) -> list[_Range]:
        chunks = report_reads(read_bytes(source), on_read)
        if source.format == "mbox":
            return self._extract_messages(source, chunks, findings)
        if source.format in _DECODED:
            chunks = _as_utf_8(chunks, source.display_name, encoding, findings)
        return [self._extract_one(source, source.format, chunks, findings)]

    def _extract_messages(self, source: Source, chunks: Iterator[bytes], findings: Findings) -> list[_Range]:
        """The messages of a mailbox; those that cannot be read are left out and counted."""
        ranges = list[_Range]()
        try:
            for message in split_mailbox(chunks):
                try:
                    ranges.append(self._extract_one(source, "eml", [message], findings))
                except UnreadableDocumentError as error:
                    findings.unread_documents.append(error)
        except ValueError as error:
            problem = f"is named .mbox but holds no mailbox: {error}"
            raise UnreadableDocumentError(source.display_name, problem, "Rename it to match its content.") from None
        return ranges

    def _extract_one(self, source: Source, kind: str, chunks: Iterable[bytes], findings: Findings) -> _Range:
        start = self._file.seek(0, os.SEEK_END)
        try:
            for piece in _extracted_text(self._running(), source, kind, chunks, findings):
                with storage_errors(Path(tempfile.gettempdir())):
                    self._file.write(piece)
        except UnreadableDocumentError:
            raise
        except BaseException:  # the process has ended, or is in the middle of this document
            if self._process is not None:
                _stop(self._process, os.getpid())
            self._process = None
            raise
        return _Range(start, self._file.tell())

    def _running(self) -> Process:
        if self._process is None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches only this process, which then stops the other
            )
            weakref.finalize(self, _stop, self._process, os.getpid())
        return self._process


def _stop(process: Process, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the process that started it
        return
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
    process.wait()


def _as_utf_8(chunks: Iterator[bytes], where: str, encoding: str | None, findings: Findings) -> Iterator[bytes]:
    """The same text as UTF-8. Other text is decoded with the encoding that the document declares, if that fits."""
    head = next(chunks, b"")
    declared = _DECLARED.search(head[:4096])
    name = declared[1].decode("ascii") if declared else None
    texts = decode(chain([head], chunks), where, encoding, findings, declared=name)
    return (text.encode("utf-8", "replace") for text in texts)


def _extracted_text(
    process: Process, source: Source, kind: str, chunks: Iterable[bytes], findings: Findings
) -> Iterator[bytes]:
    """Send a document to the process that reads it, and yield the text that it sends back."""
    assert process.stdin is not None
    assert process.stdout is not None
    where, size = source.display_name, 0
    try:
        for chunk in chunks:
            size += len(chunk)
            if size > MAX_SIZE:
                raise UnreadableDocumentError(where, f"is larger than {MAX_SIZE / 2**20:,.0f} MB", _TOO_MUCH)
            child.send(process.stdin, b"B", chunk)
        seconds = SECONDS + SECONDS_PER_MEGABYTE * size // 2**20
        memory = MEMORY + MEMORY_PER_BYTE * size
        child.send(process.stdin, b"R", json.dumps([kind, seconds, memory]).encode())
        while True:
            letter, content = child.receive(process.stdout)
            if letter == b"T":
                yield content
            elif letter == b"N":
                findings.add_note(Caution(f"{where}: {content.decode()}."))
            elif letter == b"A":
                findings.attachments += int(content)
            elif letter == b"P":
                raise UnreadableDocumentError(where, *json.loads(content))
            elif letter == b"M":
                raise DataError(where, f"takes more than {memory / 2**30:.1f} GB of memory to read", _TOO_MUCH)
            else:
                return
    except (EOFError, BrokenPipeError):
        code = process.wait()
        if code == -getattr(signal, "SIGXCPU", 0):
            raise DataError(where, f"takes more than {seconds} seconds to read", _TOO_MUCH) from None
        raise DataError(where, f"the program that reads it ended with exit code {code}", _TOO_MUCH) from None

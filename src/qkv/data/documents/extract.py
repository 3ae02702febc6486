"""The text of documents, each extracted once and kept in a temporary file for those who read it again.

Extraction is the work of another process (child.py) with limits of time and memory: the libraries that read documents
were not written for hostile files. A document that is too much for it is refused, wherever it is, because what is too
much differs between machines, and a corpus must be the same text on all of them.
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
from qkv.data.files.decode import decode
from qkv.data.files.decompress import CHUNK_SIZE
from qkv.data.files.unpack import DOCUMENT_PACKAGES, Source, read_bytes
from qkv.data.findings import Caution, Findings, OnRead
from qkv.data.formats.rows import report_reads
from qkv.errors import DataError
from qkv.storage import storage_errors

EXTRACTION_VERSION = 1
"""Raise it when the same document would give another text."""
MAX_SIZE = 2**29
SECONDS, SECONDS_PER_MEGABYTE = 20, 60
MEMORY, MEMORY_PER_BYTE = 2**30, 8
HELD_IN_MEMORY = 2**24
"""How many bytes of extracted text are held in memory; more are held on the disk."""
_TOO_MUCH = "Give its text instead, or leave it out."
_DECODED = ("html", "ipynb")
"""Formats that are text themselves, in any encoding."""
_COMMAND = f"import sys; from {child.__name__} import main; main(sys.stdin.buffer, sys.stdout.buffer)"
_DECLARED = re.compile(rb"""(?i)(?:charset\s*=\s*["']?|<\?xml[^>]*encoding\s*=\s*["'])([a-z0-9_.:-]+)""")


Process = subprocess.Popen[bytes]


class UnreadableDocumentError(DataError):
    """A document that is damaged, encrypted or without text; where it was not named itself, it is left out."""


def extraction_version(source: Source) -> str:
    """What the text of a document depends on apart from its bytes."""
    package = DOCUMENT_PACKAGES.get(source.format)
    return f"{EXTRACTION_VERSION} {package} {version(package)}" if package else str(EXTRACTION_VERSION)


class _Place(NamedTuple):
    start: int
    end: int


class DocumentTexts:
    """Gives the texts of files, those of documents as they were extracted at the first time."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(HELD_IN_MEMORY)  # noqa: SIM115  (closed with this object)
        weakref.finalize(self, self._file.close)
        self._places: dict[Source, _Place | UnreadableDocumentError] = {}
        self._process: Process | None = None

    def read(
        self, source: Source, encoding: str | None, findings: Findings, on_read: OnRead | None = None
    ) -> Iterator[str]:
        """The text of a document or of a file of plain text, in pieces."""
        if not source.is_document:
            return decode(report_reads(read_bytes(source), on_read), source.display_name, encoding, findings)
        if source not in self._places:
            try:
                self._places[source] = self._extract(source, encoding, findings, on_read)
            except UnreadableDocumentError as error:
                self._places[source] = error
        place = self._places[source]
        if isinstance(place, UnreadableDocumentError):
            raise place
        return self._kept(place)

    def _kept(self, place: _Place) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        position = place.start
        while position < place.end:
            self._file.seek(position)
            chunk = self._file.read(min(CHUNK_SIZE, place.end - position))
            position += len(chunk)
            yield decoder.decode(chunk)

    def _extract(self, source: Source, encoding: str | None, findings: Findings, on_read: OnRead | None) -> _Place:
        chunks = report_reads(read_bytes(source), on_read)
        if source.format in _DECODED:
            chunks = _as_utf_8(chunks, source.display_name, encoding, findings)
        start = self._file.seek(0, os.SEEK_END)
        try:
            for piece in _answers(self._running(), source, chunks, findings):
                with storage_errors(Path(tempfile.gettempdir())):
                    self._file.write(piece)
        except UnreadableDocumentError:
            raise
        except BaseException:  # the process has ended, or is in the middle of this document
            if self._process is not None:
                _stop(self._process, os.getpid())
            self._process = None
            raise
        return _Place(start, self._file.tell())

    def _running(self) -> Process:
        if self._process is None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, which then stops the other
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
    """The same text in UTF-8; what is not is read in the encoding that the document declares, if that fits."""
    head = next(chunks, b"")
    declared = _DECLARED.search(head[:4096])
    name = declared[1].decode("ascii") if declared else None
    texts = decode(chain([head], chunks), where, encoding, findings, declared=name)
    return (text.encode("utf-8", "replace") for text in texts)


def _answers(process: Process, source: Source, chunks: Iterable[bytes], findings: Findings) -> Iterator[bytes]:
    """The text of a document, as the process that reads it sends it."""
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
        child.send(process.stdin, b"R", json.dumps([source.format, seconds, memory]).encode())
        while True:
            letter, content = child.receive(process.stdout)
            if letter == b"T":
                yield content
            elif letter == b"N":
                findings.add_note(Caution(f"{where}: {content.decode()}."))
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

"""A crawl in, a corpus out: `qkv data clean`. Documents stream through the sieve, and those left are written in order.

Deck 004 asks how to collect high-quality data from the Internet and answers with links that people liked. Whatever is
collected, filters then take out what is no text, and copies.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.data import standard_input
from qkv.data.corpus import CorpusConfig, Documents
from qkv.data.document_files import document_file
from qkv.data.findings import Findings, shown
from qkv.data.fingerprints import Stamp
from qkv.data.formats import Builtin, Source
from qkv.data.limits import Limits
from qkv.data.progress import Progress, Watch, silent
from qkv.data.readers import Piece, read
from qkv.data.sieve import Document, Reason, Sieve, Tally
from qkv.data.survey import Parts
from qkv.errors import InputError

# a batch is full when it has so many characters or documents
BATCH, MOST_DOCUMENTS = 2**20, 4096


@dataclass
class Report:
    tallies: tuple[Tally, ...]
    documents: int = 0
    bytes: int = 0
    kept_documents: int = 0
    kept_bytes: int = 0
    read_back: Documents | None = None
    """What a document is in the .txt that was written."""
    notes: tuple[str, ...] = ()

    def count(self, document: Document, reason: Reason | None) -> None:
        self.documents += 1
        self.bytes += document.bytes
        if reason is None:
            self.kept_documents += 1
            self.kept_bytes += document.bytes


def clean(
    corpus: CorpusConfig,
    limits: Limits,
    skip: Collection[str] = (),
    out: Path | None = None,
    dropped: Path | None = None,
    progress: Progress = silent,
) -> Report:
    """Write the documents that pass to `out` and the others to `dropped`; where nothing passes, `out` is not made."""
    spool = standard_input.received(corpus)
    try:
        parts = Parts.of(corpus, spool, whole=True, progress=progress)
        for path in (out, dropped):
            _require_apart(path, parts.files)
        return _clean(parts, Sieve(limits, skip), out, dropped, progress)
    finally:
        if spool is not None:
            spool.unlink(missing_ok=True)


def _clean(parts: Parts, sieve: Sieve, out: Path | None, dropped: Path | None, progress: Progress) -> Report:
    documents = parts.corpus.documents
    stamp = Stamp.of(parts.files)
    findings = Findings()
    report = Report(tuple(sieve.tallies.values()))
    pieces = read(parts.files, parts.corpus, findings, _watch(progress))
    with document_file(out, documents) as (kept, kept_file), document_file(dropped, documents) as (rest, _):
        for batch in batches(pieces, sieve.limits.max_characters):
            for document, reason in zip(batch, sieve.judge(batch), strict=True):
                report.count(document, reason)
                if reason is None:
                    kept.add(document.text)
                else:
                    rest.add(document.text, **_facts(document, reason))
        stamp.require_unchanged()
        if kept_file is not None:
            kept_file.wanted = report.kept_documents > 0
    report.read_back = kept.documents
    report.notes = (*parts.findings.notes(), *findings.notes())
    return report


def _require_apart(path: Path | None, sources: Sequence[Source | Builtin]) -> None:
    """Refuse to write over what is read."""
    for source in sources:
        if path is not None and os.path.exists(path) and isinstance(source, Source) and path.samefile(source.path):
            raise InputError(f"{shown(path)}: is one of the files that are read. Choose another name.")


def _watch(progress: Progress) -> Watch:
    done = 0

    def watch(count: int) -> None:
        nonlocal done
        done += count
        progress("cleaning", done, None)

    return watch


def _facts(document: Document, reason: Reason) -> dict[str, object]:
    """What is written beside a dropped document; one that was not held says how long it is."""
    facts: dict[str, object] = {"filter": reason.filter, "value": round(reason.value, 4)}
    if document.characters > len(document.text):
        facts["characters"] = document.characters
    return facts


def batches(pieces: Iterable[Piece], longest: int) -> Iterator[list[Document]]:
    """Documents in batches; of one that is longer than `longest` characters only the beginning is held."""
    batch: list[Document] = []
    held: list[str] = []
    characters = beyond = waiting = 0
    for text, ends in pieces:
        if characters <= longest:
            held.append(text)
        else:
            beyond += _bytes(text)
        characters += len(text)
        if ends:
            whole = "".join(held)
            batch.append(Document(whole[:longest], characters, _bytes(whole) + beyond))
            waiting += len(whole)
            held, characters, beyond = [], 0, 0
        if waiting > BATCH or len(batch) >= MOST_DOCUMENTS:
            yield batch
            batch, waiting = [], 0
    if batch:
        yield batch


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))

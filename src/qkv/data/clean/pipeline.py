"""`qkv data clean`: filters crawled documents into a corpus. Documents that pass all filters are written in order.

Deck 004 asks how to collect high-quality data from the Internet, and answers with links that people liked. Filters
remove bad text and copies. Each filter gets the documents that passed the ones before it, and counts what it drops.
Duplicates are removed last: exact ones, except for case and white space, then near-duplicates. Of a kept document only
a key and a signature stay in memory.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qkv.data.clean.deduplicate import ExactDuplicates, MinHashes, NearDuplicates, document_min_hashes, min_hashes
from qkv.data.clean.filters import FILTERS, Limits, MeasuredBatch, Values
from qkv.data.clean.measures import document_totals, measure_documents
from qkv.data.corpus import CorpusConfig, Documents
from qkv.data.document_files import document_file, excerpt
from qkv.data.files import standard_input
from qkv.data.files.unpack import Builtin, Source
from qkv.data.findings import Findings, Progress, byte_counter, display_name, no_progress
from qkv.data.formats.text import DocumentPiece
from qkv.data.survey import CorpusFiles, Stamp
from qkv.errors import InputError

# a batch is full with this many characters or documents
BATCH_CHARACTERS, BATCH_DOCUMENTS = 2**20, 4096
EXAMPLES, EXAMPLE_LENGTH = 3, 70

Mask = npt.NDArray[np.bool_]


class Document(NamedTuple):
    text: str
    """The whole text, or the beginning of a text that is too long to hold in memory."""
    characters: int
    bytes: int


class Reason(NamedTuple):
    """Why a document was dropped: the filter, and the value that it measured."""

    filter: str
    value: float


@dataclass
class FilterCount:
    """How many documents reached a filter, and how many it dropped."""

    name: str
    limit: float | int | None
    documents: int = 0
    """How many documents reached the filter."""
    bytes: int = 0
    dropped_documents: int = 0
    dropped_bytes: int = 0
    examples: list[str] = field(default_factory=list)


class FilterChain:
    """All filters except those to `skip`, in their order."""

    def __init__(self, limits: Limits, skip: Collection[str] = ()) -> None:
        self.limits = limits
        self.filters = [rule for rule in FILTERS if rule.name not in skip]
        self.copies = None if "copy" in skip else ExactDuplicates()
        self.near_copies = None if "near-copy" in skip else NearDuplicates(limits.similarity)
        self.counts = {rule.name: FilterCount(rule.name, getattr(limits, rule.limit)) for rule in self.filters}
        if self.copies is not None:
            self.counts["copy"] = FilterCount("copy", None)
        if self.near_copies is not None:
            self.counts["near-copy"] = FilterCount("near-copy", limits.similarity)

    @property
    def remembered_bytes(self) -> int:
        """The bytes that grow with the number of documents kept."""
        return sum(index.remembered_bytes for index in (self.copies, self.near_copies) if index is not None)

    def decide(self, documents: Sequence[Document]) -> list[Reason | None]:
        """Return for each document why it is dropped, or None if it is kept."""
        batch, hashes = self._measure(documents)
        decisions = _BatchDecisions(documents, self.counts)
        for rule in self.filters:
            values = rule.measure(batch)
            decisions.drop(rule.name, rule.drops(values, self.limits), values)
        if self.copies is not None:
            copies = self.copies.find([documents[number].text for number in np.flatnonzero(decisions.kept).tolist()])
            decisions.drop_similar("copy", copies, 1.0)
        if self.near_copies is not None:
            similarities = self.near_copies.find(hashes[decisions.kept])
            decisions.drop_similar("near-copy", similarities, self.limits.similarity)
        return decisions.reasons

    def _measure(self, documents: Sequence[Document]) -> tuple[MeasuredBatch, MinHashes]:
        texts = [document.text for document in documents]
        counts, owners, hashes = [], [], []
        for measures, words, owner in measure_documents(texts):
            counts.append(measures)
            owners.append(owner)
            if self.near_copies is not None:
                hashes.append(min_hashes(words, len(owner)))
        owner = np.concatenate(owners)
        characters = np.array([document.characters for document in documents])
        batch = MeasuredBatch(texts, characters, document_totals(counts, owner))
        no_hashes = np.zeros((0, 0), dtype=np.uint32)
        return batch, document_min_hashes(np.concatenate(hashes), owner) if hashes else no_hashes


class _BatchDecisions:
    """Which documents of one batch are kept so far, and why the others were dropped."""

    def __init__(self, documents: Sequence[Document], counts: dict[str, FilterCount]) -> None:
        self.documents, self.counts = documents, counts
        self.sizes = np.array([document.bytes for document in documents])
        self.kept = np.ones(len(documents), dtype=bool)
        self.reasons: list[Reason | None] = [None] * len(documents)

    def drop_similar(self, name: str, similarities: Values | Mask, threshold: float) -> None:
        """Drop documents whose similarity to earlier ones is at least `threshold`; one value per kept document."""
        values = np.zeros(len(self.documents))
        values[self.kept] = similarities
        self.drop(name, values >= threshold, values)

    def drop(self, name: str, failed: Mask, values: Values) -> None:
        count = self.counts[name]
        count.documents += int(self.kept.sum())
        count.bytes += int(self.sizes[self.kept].sum())
        dropped = np.flatnonzero(self.kept & failed).tolist()
        count.dropped_documents += len(dropped)
        count.dropped_bytes += int(self.sizes[dropped].sum())
        self.kept[dropped] = False
        for number in dropped:
            self.reasons[number] = Reason(name, float(values[number]))
            if len(count.examples) < EXAMPLES:
                example = display_name(excerpt(self.documents[number].text, EXAMPLE_LENGTH))
                count.examples += [example] if example not in count.examples else []


@dataclass
class CleaningReport:
    filters: tuple[FilterCount, ...]
    documents: int = 0
    bytes: int = 0
    kept_documents: int = 0
    kept_bytes: int = 0
    read_back: Documents | None = None
    """The `documents` option that reads back the .txt that was written."""
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
    progress: Progress = no_progress,
) -> CleaningReport:
    """Write the documents that pass to `out` and the others to `dropped`; if none passes, `out` is not created."""
    with standard_input.receive_once(corpus) as piped:
        parts = CorpusFiles.of(corpus, piped, whole=True, progress=progress, writes=True)
        for path in (out, dropped):
            _require_not_read(path, parts.files)
        stamp, findings = Stamp.of(parts.files), Findings()
        chain = FilterChain(limits, skip)
        report = CleaningReport(tuple(chain.counts.values()))
        pieces = parts.read(parts.files, findings, byte_counter(progress, "cleaning"))
        with document_file(out, corpus.documents) as kept, document_file(dropped, corpus.documents) as rest:
            for batch in batches(pieces, limits.max_characters):
                for document, reason in zip(batch, chain.decide(batch), strict=True):
                    report.count(document, reason)
                    if reason is None and kept is not None:
                        kept.add(document.text)
                    elif reason is not None and rest is not None:
                        rest.add(document.text, **_facts(document, reason))
            stamp.require_unchanged()
            if kept is not None:
                kept.wanted = report.kept_documents > 0
        report.read_back = None if kept is None else kept.documents
        report.notes = (*parts.findings.notes(), *findings.notes())
    return report


def _require_not_read(path: Path | None, sources: Sequence[Source | Builtin]) -> None:
    """Refuse to overwrite a file that is read."""
    for source in sources:
        if path is not None and os.path.exists(path) and isinstance(source, Source) and path.samefile(source.path):
            raise InputError(f"{display_name(path)}: is one of the files that are read. Choose another name.")


def _facts(document: Document, reason: Reason) -> dict[str, object]:
    """What is written with a dropped document: the reason, and its length if only its beginning was held."""
    facts: dict[str, object] = {"filter": reason.filter, "value": round(reason.value, 4)}
    if document.characters > len(document.text):
        facts["characters"] = document.characters
    return facts


def batches(pieces: Iterable[DocumentPiece], longest: int) -> Iterator[list[Document]]:
    """Documents in batches; of one that is longer than `longest` characters only the beginning is held."""
    batch: list[Document] = []
    held: list[str] = []
    characters = bytes_beyond = batch_characters = 0
    for text, ends in pieces:
        if characters <= longest:
            held.append(text)
        else:
            bytes_beyond += _bytes(text)
        characters += len(text)
        if ends:
            whole = "".join(held)
            batch.append(Document(whole[:longest], characters, _bytes(whole) + bytes_beyond))
            batch_characters += len(whole)
            held, characters, bytes_beyond = [], 0, 0
        if batch_characters > BATCH_CHARACTERS or len(batch) >= BATCH_DOCUMENTS:
            yield batch
            batch, batch_characters = [], 0
    if batch:
        yield batch


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))

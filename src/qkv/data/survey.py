"""The first pass over a corpus: its statistics, the split, and the corpus's identity.

The identity of a corpus is its bytes and how they are read. It does not depend on file names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from qkv.data.corpus import CorpusConfig, refuse_idle_filter, refuse_unused
from qkv.data.documents.extract import DocumentTexts, extraction_version
from qkv.data.files.decode import decode, require_encoding
from qkv.data.files.decompress import CHUNK_SIZE
from qkv.data.files.magic import allows_nul_bytes
from qkv.data.files.unpack import (
    Builtin,
    Source,
    changed_error,
    read_bytes,
    require_no_hole,
    require_not_sparse,
    unreadable_error,
)
from qkv.data.findings import Caution, Findings, OnRead, Progress, byte_counter, no_progress
from qkv.data.formats.text import DocumentPiece, read_documents
from qkv.data.near_copies import NearCopies
from qkv.data.split import DocumentCensus, DocumentSplit, SplitText
from qkv.data.text_files import catalog_validation_files, find_text_files
from qkv.data.tokens import Cutter
from qkv.text.vocabulary import Statistics, TextCounter


@dataclass(frozen=True)
class CorpusFiles:
    """The files of a corpus: those to train on or to split, and those to validate on."""

    corpus: CorpusConfig
    files: tuple[Source | Builtin, ...]
    valid: tuple[Source | Builtin, ...]
    findings: Findings
    extracted: DocumentTexts = field(default_factory=DocumentTexts)

    @classmethod
    def of(
        cls,
        corpus: CorpusConfig,
        piped: Path | None = None,
        whole: bool = False,
        progress: Progress = no_progress,
        writes: bool = False,
    ) -> CorpusFiles:
        """Find files. `piped`: a copy of standard input; `whole`: no validation; `writes`: documents are written."""
        findings = Findings()
        if piped is not None:
            files: Sequence[Source | Builtin] = [Source(piped, name="standard input")]
        else:
            files = find_text_files(corpus.files, corpus.filter, findings, progress)
            refuse_idle_filter(corpus)
            formats = {"text" if isinstance(file, Builtin) or file.is_document else file.format for file in files}
            if formats == {"text"}:
                refuse_unused(corpus, ("text",), f"{files[0].display_name} has no columns")
            elif "text" not in formats and not writes:
                refuse_unused(corpus, ("documents",), f"a row of {files[0].display_name} is a document")
        valid: Sequence[Source | Builtin] = [] if whole else catalog_validation_files(corpus, findings, progress)
        if corpus.valid and not whole:
            valid = find_text_files(corpus.valid, corpus.filter, findings, progress)
        return cls(corpus, tuple(files), tuple(valid), findings)

    @property
    def sources(self) -> tuple[Source | Builtin, ...]:
        return (*self.files, *self.valid)

    def read(
        self, files: Sequence[Source | Builtin], findings: Findings, on_read: OnRead | None = None
    ) -> Iterator[DocumentPiece]:
        """The documents of some of these files; the texts of documents such as .pdf are extracted once."""
        return read_documents(files, self.corpus, findings, on_read, self.extracted)

    def moved(self, path: Path) -> CorpusFiles:
        """The same with the copy of standard input at its final path."""
        return replace(self, files=(Source(path, name="standard input"),))


@dataclass(frozen=True)
class Survey:
    parts: CorpusFiles
    statistics: Statistics
    """Statistics of all text, held out or not: `auto` must not depend on the split."""
    census: DocumentCensus
    findings: Findings
    near_copies: NearCopies | None = None

    @property
    def characters(self) -> int:
        return self.statistics.characters

    def split_texts(self, whole: bool = False) -> Iterator[SplitText]:
        """Read all documents again, each piece with its split; `whole`: nothing is held out."""
        pieces = self.parts.read(self.parts.files, Findings())  # the findings were reported before
        if not self.parts.valid and not whole:
            return self.document_split.split(pieces)
        held_out = () if whole else self.parts.read(self.parts.valid, Findings())
        texts = ((False, pieces), (True, held_out))
        return (SplitText(valid, text, ends) for valid, part in texts for text, ends in part)

    @cached_property
    def document_split(self) -> DocumentSplit:
        return self.census.choose_split(self.parts.corpus.valid_fraction, self.near_copies)

    def notes(self) -> Iterator[str]:
        yield from self.findings.notes()
        documents = self.census.documents
        copies = documents - self.census.distinct()
        if copies:
            yield Caution(f"exact copies: {copies:,} of {documents:,} documents repeat others.")

    def held_out(self, train: Mapping[str, int], valid: Mapping[str, int]) -> Iterator[str]:
        """A note on what was held out, from the counts of the two streams."""
        if self.parts.valid:
            return
        share = f"{valid['characters'] / (train['characters'] + valid['characters']):.1%}"
        documents, whole = self.census.documents, int(self.document_split.valid.sum())
        if documents == 1:
            yield f"one document: its last {share} is held out for validation."
        elif self.document_split.cut.any():
            held = f"{whole:,} of them and the end of the longest" if whole else "the end of the longest"
            yield f"{documents:,} documents: {held} ({share} of the text) is held out for validation."
        else:
            verb = "is" if whole == 1 else "are"
            yield f"{documents:,} documents: {whole:,} of them ({share} of the text) {verb} held out for validation."


def survey(
    parts: CorpusFiles, progress: Progress, observe: Callable[[str, bool], None] = lambda text, ends: None
) -> Survey:
    """Read everything once; `observe` gets every piece, and whether a document ends with it."""
    findings, counter, census, cutter = Findings(), TextCounter(), DocumentCensus(), Cutter()
    near_copies = NearCopies() if parts.corpus.near_copies == "together" and not parts.valid else None
    on_read = byte_counter(progress, "reading")
    for text, ends in parts.read(parts.files, findings, on_read):
        observe(text, ends)
        for part, last in cutter.parts(text, ends):
            counter.add(part, last)
            census.add(part, last)
            if near_copies is not None:
                near_copies.add(part, last)
    if parts.valid:  # so that errors are found now, not after the tokenizer is learned
        for text, _ends in parts.read(parts.valid, findings, on_read):
            counter.characters += len(text)
    return Survey(parts, counter.statistics(), census, findings, near_copies)


# increase it when the same bytes would be read as different documents or split differently
READING_VERSION = 2
NEAR_COPIES_VERSION = 1  # increase it when different documents would be near copies


@dataclass(frozen=True)
class Stamp:
    """The size and modification time of each file when it was fingerprinted."""

    files: tuple[tuple[Path, int, int], ...]

    @classmethod
    def of(cls, sources: Sequence[Source | Builtin]) -> Stamp:
        paths = dict.fromkeys(source.path for source in sources if isinstance(source, Source))
        return cls(tuple((path, *_state(path)) for path in paths))

    def require_unchanged(self) -> None:
        """Refuse a corpus that has changed in the meantime: its fingerprint would be wrong."""
        for path, *state in self.files:
            if _state(path) != tuple(state):
                raise changed_error(Source(path).display_name)


def _state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable_error(Source(path).display_name, error) from None
    return status.st_size, status.st_mtime_ns


def fingerprint(parts: CorpusFiles, progress: Progress) -> tuple[str, Stamp]:
    """sha256 of content, order, reading options and split; and the stamp of the files."""
    require_encoding(parts.corpus.encoding)
    stamp = Stamp.of(parts.sources)
    on_read = byte_counter(progress, "fingerprinting", sum(size for _, size, _ in stamp.files))
    for source in parts.sources:
        _require_plausible(source, parts.corpus.encoding)
    hashes: dict[Path, str] = {}
    files, valid = ([_identity(source, hashes, on_read) for source in part] for part in (parts.files, parts.valid))
    stamp.require_unchanged()
    corpus = parts.corpus
    reading = {
        "version": READING_VERSION,
        "files": files,
        "valid": valid,
        "documents": corpus.documents,
        "encoding": corpus.encoding,
        "text": corpus.text,
        "valid_fraction": corpus.valid_fraction,
    }
    if corpus.near_copies == "together":  # the fingerprints of older runs do not contain it
        reading["near_copies"] = NEAR_COPIES_VERSION
    return hashlib.sha256(json.dumps(reading, sort_keys=True).encode()).hexdigest(), stamp


def _require_plausible(source: Source | Builtin, encoding: str | None) -> None:
    """Refuse files whose first bytes are not text, and sparse files, before all bytes are hashed."""
    if isinstance(source, Builtin):
        return
    try:
        require_not_sparse(source.path, source.display_name)
        if source.compression == "plain" and not source.is_read_whole and not source.is_document:
            next(decode(read_bytes(source), source.display_name, encoding, Findings()), None)
            if not allows_nul_bytes(encoding):
                require_no_hole(source.path, source.display_name)
        elif source.compression in ("gz", "zst"):
            next(read_bytes(source), None)
    except OSError as error:
        raise unreadable_error(source.display_name, error) from None


def _identity(source: Source | Builtin, hashes: dict[Path, str], on_read: OnRead) -> list[str]:
    if isinstance(source, Builtin):
        digest = hashlib.sha256()
        for document in source.documents():
            encoded = document.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return ["built in", digest.hexdigest()]
    if source.path not in hashes:
        hashes[source.path] = _file_hash(source, on_read)
    extraction = [extraction_version(source)] if source.is_document else []
    return [source.format, source.compression, source.member or "", hashes[source.path], *extraction]


def _file_hash(source: Source, on_read: OnRead) -> str:
    digest = hashlib.sha256()
    try:
        remaining = source.path.stat().st_size
        with source.path.open("rb") as file:
            while chunk := file.read(CHUNK_SIZE):
                digest.update(chunk)
                on_read(len(chunk))
                remaining -= len(chunk)
                if remaining < 0:
                    raise changed_error(source.display_name)
    except OSError as error:
        raise unreadable_error(source.display_name, error) from None
    return digest.hexdigest()


class WordCounter:
    """Counts the words of documents that come in pieces, and keeps the beginning of the text."""

    def __init__(self, beginning_characters: int) -> None:
        self.beginning, self.count = "", 0
        self._beginning_characters = beginning_characters
        self._in_word = False  # the previous piece ended inside a word

    def add(self, text: str, is_last: bool) -> None:
        self.beginning += text[: self._beginning_characters - len(self.beginning)]
        self.count += len(text.split())
        if text:
            self.count -= self._in_word and not text[0].isspace()
            self._in_word = not text[-1].isspace()
        self._in_word = self._in_word and not is_last

"""The identity of a corpus: its bytes and how they are read. Names do not count, so a copy is the same corpus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.data.files.decode import decode, require_encoding
from qkv.data.files.unpack import (
    CHUNK,
    Builtin,
    Source,
    changed,
    read_bytes,
    require_no_hole,
    require_stored,
    unreadable,
    wide_encoding,
)
from qkv.data.findings import Findings, Progress, Watch, counted
from qkv.data.survey import Parts

# raise when the same bytes would be read as other documents or split otherwise
READING_VERSION = 2


@dataclass(frozen=True)
class Stamp:
    """The size and time of each file when it was fingerprinted."""

    files: tuple[tuple[Path, int, int], ...]

    @classmethod
    def of(cls, sources: Sequence[Source | Builtin]) -> Stamp:
        paths = dict.fromkeys(source.path for source in sources if isinstance(source, Source))
        return cls(tuple((path, *_state(path)) for path in paths))

    def require_unchanged(self) -> None:
        """Refuse to go on with a corpus that changed under our hands: its fingerprint would be a lie."""
        for path, *state in self.files:
            if _state(path) != tuple(state):
                raise changed(Source(path).shown)


def _state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(Source(path).shown, error) from None
    return status.st_size, status.st_mtime_ns


def fingerprint(parts: Parts, progress: Progress) -> tuple[str, Stamp]:
    """sha256 over content, order, reading options and split; and the files' stamps."""
    require_encoding(parts.corpus.encoding)
    stamp = Stamp.of(parts.sources)
    watch = counted(progress, "fingerprinting", sum(size for _, size, _ in stamp.files))
    for source in parts.sources:
        _require_plausible(source, parts.corpus.encoding)
    hashes: dict[Path, str] = {}
    listed = []
    for sources in (parts.files, parts.valid):
        listed.append([_identity(source, hashes, watch) for source in sources])
    stamp.require_unchanged()
    corpus = parts.corpus
    reading = {
        "version": READING_VERSION,
        "files": listed[0],
        "valid": listed[1],
        "documents": corpus.documents,
        "encoding": corpus.encoding,
        "text": corpus.text,
        "valid_fraction": corpus.valid_fraction,
    }
    return hashlib.sha256(json.dumps(reading, sort_keys=True).encode()).hexdigest(), stamp


def _require_plausible(source: Source | Builtin, encoding: str) -> None:
    """Refuse what is no text by its first bytes, and files of holes, before all of their bytes are hashed."""
    if isinstance(source, Builtin):
        return
    try:
        require_stored(source.path, source.shown)
        if source.packing == "plain" and source.format != "parquet":
            next(decode(read_bytes(source), source.shown, encoding, Findings()), None)
            if not wide_encoding(encoding):
                require_no_hole(source.path, source.shown)
        elif source.packing in ("gz", "zst"):
            next(read_bytes(source), None)
    except OSError as error:
        raise unreadable(source.shown, error) from None


def _identity(source: Source | Builtin, hashes: dict[Path, str], watch: Watch) -> list[str]:
    if isinstance(source, Builtin):
        return ["built in", _text_hash(source)]
    if source.path not in hashes:
        hashes[source.path] = _file_hash(source, watch)
    return [source.format, source.packing, source.member or "", hashes[source.path]]


def _file_hash(source: Source, watch: Watch) -> str:
    digest = hashlib.sha256()
    try:
        left = source.path.stat().st_size
        with source.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                watch(len(chunk))
                left -= len(chunk)
                if left < 0:
                    raise changed(source.shown)
    except OSError as error:
        raise unreadable(source.shown, error) from None
    return digest.hexdigest()


def _text_hash(source: Builtin) -> str:
    digest = hashlib.sha256()
    for document in source.documents():
        encoded = document.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()

"""Documents, streamed: every source becomes pieces of text, the last piece of a document marked.

A document may be larger than memory, so nothing here holds one; what is held is a piece, a row or a batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from qkv.data.corpus import CorpusConfig, Documents
from qkv.data.files.decode import decode, require_encoding
from qkv.data.files.unpack import CHUNK, Builtin, Source, read_bytes
from qkv.data.findings import Findings, Watch
from qkv.data.formats import rows
from qkv.errors import DataError


class Piece(NamedTuple):
    text: str
    ends: bool
    """Whether a document ends here."""


def read(
    sources: Sequence[Source | Builtin], corpus: CorpusConfig, findings: Findings, watch: Watch | None = None
) -> Iterator[Piece]:
    """All documents of the sources; empty ones are left out and counted. DataError when nothing is left."""
    require_encoding(corpus.encoding)
    some = False
    for source in sources:
        for piece in read_source(source, corpus, findings, watch):
            some = True
            yield piece
    if not some:
        where = sources[0].shown if len(sources) == 1 else "the corpus"
        raise DataError(where, "holds no text: it is empty or only white space", "Give a file that holds text.")


def read_source(
    source: Source | Builtin, corpus: CorpusConfig, findings: Findings, watch: Watch | None = None
) -> Iterator[Piece]:
    """The documents of one source, which may have none."""
    return _without_empty(_pieces(source, corpus, findings, watch), findings)


def _pieces(source: Source | Builtin, corpus: CorpusConfig, findings: Findings, watch: Watch | None) -> Iterator[Piece]:
    if isinstance(source, Builtin):
        for document in source.documents():
            yield from _documents(iter([document]), corpus.documents)
        return
    if source.format == "table":
        raise DataError(source.shown, "is a table", "For a language model give plain text or .jsonl.")
    if source.format == "parquet":
        yield from (Piece(text, True) for text in rows.parquet(source, corpus.text, findings, watch))
        return
    chunks = _watched(read_bytes(source), watch)
    texts = decode(chunks, source.shown, corpus.encoding, findings)
    if source.format == "text":
        yield from _documents(texts, corpus.documents)
    else:
        found = rows.json_rows if source.format == "json" else rows.json_lines
        yield from (Piece(text, True) for text in found(texts, source.shown, corpus.text, findings))


def _watched(chunks: Iterator[bytes], watch: Watch | None) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        if watch is not None:
            watch(len(chunk))


def _documents(texts: Iterator[str], documents: Documents) -> Iterator[Piece]:
    if documents == "lines":
        yield from lines(texts)
    elif documents == "paragraphs":
        yield from paragraphs(texts)
    else:
        for text in texts:
            yield Piece(text, False)
        yield Piece("", True)


def lines(texts: Iterable[str]) -> Iterator[Piece]:
    """Every line a document; only \\n ends a line."""
    for text in texts:
        *whole, rest = text.split("\n")
        for line in whole:
            yield Piece(line, True)
        if rest:
            yield Piece(rest, False)
    yield Piece("", True)


def paragraphs(texts: Iterable[str]) -> Iterator[Piece]:
    """Lines up to a blank one are a document."""
    inside = False  # a paragraph has begun
    begun = False  # a line of it has begun
    held = ""  # the start of a line that may turn out to be blank
    for text, ends in lines(texts):
        held += text
        if begun or held.strip() or len(held) > CHUNK:
            yield Piece("\n" + held if inside and not begun else held, False)
            inside, begun, held = True, not ends, ""
        elif ends:
            if inside:
                yield Piece("", True)
            inside, held = False, ""
    if inside:
        yield Piece("", True)


def _without_empty(pieces: Iterable[Piece], findings: Findings) -> Iterator[Piece]:
    """Leave out documents of nothing but white space: hold a document's start back until something else is in it."""
    held = ""
    solid = False
    for piece in pieces:
        if solid:
            yield piece
        else:
            held += piece.text
            if len(held) > CHUNK or held.strip():
                yield Piece(held, piece.ends)
                held, solid = "", True
            elif piece.ends:
                findings.empty += 1
        if piece.ends:
            held, solid = "", False

"""Documents, streamed: every source becomes pieces of text, the last piece of a document marked.

A document may be larger than memory, so nothing here holds one; what is held is a piece, a row or a batch of rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from qkv.data.corpus import CorpusConfig, Documents
from qkv.data.files.decode import decode, require_encoding, with_plain_line_ends
from qkv.data.files.unpack import CHUNK, Builtin, Source, read_bytes
from qkv.data.findings import Findings, OnRead
from qkv.data.formats.column_names import DOCUMENT
from qkv.data.formats.rows import HALF_A_PAIR, BadRows, JsonReader, encodable, open_parquet, report_reads
from qkv.errors import DataError


class DocumentPiece(NamedTuple):
    text: str
    ends: bool
    """Whether a document ends here."""


def read(
    sources: Sequence[Source | Builtin], corpus: CorpusConfig, findings: Findings, on_read: OnRead | None = None
) -> Iterator[DocumentPiece]:
    """All documents of the sources; empty ones are left out and counted. DataError when nothing is left."""
    require_encoding(corpus.encoding)
    some = False
    for source in sources:
        for piece in read_source(source, corpus, findings, on_read):
            some = True
            yield piece
    if not some:
        where = sources[0].display_name if len(sources) == 1 else "the corpus"
        raise DataError(where, "holds no text: it is empty or only white space", "Give a file that holds text.")


def read_source(
    source: Source | Builtin, corpus: CorpusConfig, findings: Findings, on_read: OnRead | None = None
) -> Iterator[DocumentPiece]:
    """The documents of one source, which may have none."""
    return _without_empty(_pieces(source, corpus, findings, on_read), findings)


def _pieces(
    source: Source | Builtin, corpus: CorpusConfig, findings: Findings, on_read: OnRead | None
) -> Iterator[DocumentPiece]:
    if isinstance(source, Builtin):
        for document in source.documents():
            yield from _documents(iter([document]), corpus.documents)
        return
    if source.format == "table":
        raise DataError(source.display_name, "is a table", "For a language model give plain text or .jsonl.")
    if source.format == "parquet":
        yield from (DocumentPiece(text, True) for text in _parquet(source, corpus.text, findings, on_read))
        return
    texts = decode(report_reads(read_bytes(source), on_read), source.display_name, corpus.encoding, findings)
    if source.format == "text":
        yield from _documents(texts, corpus.documents)
    else:
        yield from (DocumentPiece(text, True) for text in _json(source, texts, corpus.text, findings))


def _json(source: Source, texts: Iterator[str], column: str | None, findings: Findings) -> Iterator[str]:
    """A list of texts or of objects, or one a line."""
    reader, bad = JsonReader(texts, source.display_name), BadRows(source.display_name, findings)
    if source.format == "json" and (first := reader.peek()) != "{":
        if first != "[":
            remedy = 'Expected ["...", "..."] or one object a line.'
            raise DataError(f"{source.display_name}:1", "not a JSON list of texts", remedy)
        return _row_texts(reader.elements(), bad, column)
    return _row_texts(reader.lines(bad), bad, column)


def _parquet(source: Source, column: str | None, findings: Findings, on_read: OnRead | None) -> Iterator[str]:
    """The text column, batch by batch; no other column is read."""
    with open_parquet(source) as table:
        import pyarrow

        where = source.display_name
        types = {field.name: field.type for field in table.schema_arrow}
        plain = {name: kind.value_type if pyarrow.types.is_dictionary(kind) else kind for name, kind in types.items()}
        is_text = (pyarrow.types.is_string, pyarrow.types.is_large_string)
        texts = {name for name, kind in plain.items() if any(fits(kind) for fits in is_text)}
        chosen = _text_column(where, column, texts, list(types))
        if chosen not in texts:
            raise DataError(where, f"column {chosen!r} holds {types[chosen]}, not text", "Name it with --text NAME.")

        def values() -> Iterator[object]:
            for batch in table.iter_batches(batch_size=1024, columns=[chosen]):
                yield from batch.column(0).to_pylist()
                if on_read is not None:
                    on_read(batch.nbytes)

        yield from _row_texts(enumerate(values(), 1), BadRows(where, findings), column, chosen)


def _row_texts(
    values: Iterable[tuple[int, object]], bad: BadRows, column: str | None, chosen: str | None = None
) -> Iterator[str]:
    """The text of each row, which is an object or the text itself; the column is chosen by the first object."""
    for number, value in values:
        bad.rows += 1
        if isinstance(value, dict):
            if chosen is None:
                texts = {name for name, content in value.items() if isinstance(content, str)}
                chosen = _text_column(f"{bad.where}:{number}", column, texts, list(value))
            value = value.get(chosen)
        if not isinstance(value, str):
            where = f" in {(chosen or column)!r}" if chosen or column else ""
            bad.reject(number, f"expected text{where}, found {'nothing' if value is None else type(value).__name__}")
        elif not encodable(value):
            bad.reject(number, HALF_A_PAIR)
        else:
            yield with_plain_line_ends(value, bad.findings)
    if column is None and chosen is not None:
        bad.findings.columns[bad.where] = chosen
    bad.finish()


def _text_column(where: str, wanted: str | None, texts: set[str], columns: Sequence[str]) -> str:
    """The wanted column, else one that is called as texts are, else the only one with text."""
    listed = ", ".join(columns[:20]) or "none"
    if wanted is not None:
        if wanted in columns:
            return wanted
        near = difflib.get_close_matches(wanted, columns, 1)
        hint = f"Did you mean --text {near[0]}?" if near else "Name it with --text NAME."
        raise DataError(where, f"no column {wanted!r}; there are: {listed}", hint)
    named = [column for name in DOCUMENT for column in columns if column in texts and column.lower() == name]
    if not named and len(texts) != 1:
        raise DataError(where, f"which column holds the text? There are: {listed}", "Name it with --text NAME.")
    return named[0] if named else next(iter(texts))


def _documents(texts: Iterator[str], documents: Documents) -> Iterator[DocumentPiece]:
    if documents == "lines":
        yield from lines(texts)
    elif documents == "paragraphs":
        yield from paragraphs(texts)
    else:
        for text in texts:
            yield DocumentPiece(text, False)
        yield DocumentPiece("", True)


def lines(texts: Iterable[str]) -> Iterator[DocumentPiece]:
    """Every line a document; only \\n ends a line."""
    for text in texts:
        *whole, rest = text.split("\n")
        for line in whole:
            yield DocumentPiece(line, True)
        if rest:
            yield DocumentPiece(rest, False)
    yield DocumentPiece("", True)


def paragraphs(texts: Iterable[str]) -> Iterator[DocumentPiece]:
    """Lines up to a blank one are a document."""
    inside = False  # a paragraph has begun
    begun = False  # a line of it has begun
    held = ""  # the start of a line that may turn out to be blank
    for text, ends in lines(texts):
        held += text
        if begun or held.strip() or len(held) > CHUNK:
            yield DocumentPiece("\n" + held if inside and not begun else held, False)
            inside, begun, held = True, not ends, ""
        elif ends:
            if inside:
                yield DocumentPiece("", True)
            inside, held = False, ""
    if inside:
        yield DocumentPiece("", True)


def _without_empty(pieces: Iterable[DocumentPiece], findings: Findings) -> Iterator[DocumentPiece]:
    """Leave out documents of nothing but white space: hold a document's start back until something else is in it."""
    held = ""
    solid = False
    for piece in pieces:
        if solid:
            yield piece
        else:
            held += piece.text
            if len(held) > CHUNK or held.strip():
                yield DocumentPiece(held, piece.ends)
                held, solid = "", True
            elif piece.ends:
                findings.empty += 1
        if piece.ends:
            held, solid = "", False

"""Documents as a stream: the text of every source in pieces, and whether each is the last of its document.

A document may be larger than the memory, so only a piece, a row or a batch of rows is held at a time.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from qkv.data.corpus import CorpusConfig, Documents
from qkv.data.documents.extract import DocumentTexts, UnreadableDocumentError
from qkv.data.files.decode import normalize_line_ends, require_encoding
from qkv.data.files.decompress import CHUNK_SIZE
from qkv.data.files.unpack import Builtin, Source
from qkv.data.findings import Findings, OnRead
from qkv.data.formats.arrow_tables import open_arrow
from qkv.data.formats.column_names import DOCUMENT
from qkv.data.formats.json_rows import read_json
from qkv.data.formats.rows import LONE_SURROGATE, BadRows, JsonReader
from qkv.errors import DataError
from qkv.visible import counted, encodable


class DocumentPiece(NamedTuple):
    text: str
    is_last: bool
    """Whether the document ends with this piece."""


def read_documents(
    sources: Sequence[Source | Builtin],
    corpus: CorpusConfig,
    findings: Findings,
    on_read: OnRead | None = None,
    extracted: DocumentTexts | None = None,
) -> Iterator[DocumentPiece]:
    """Read the documents of all sources. Empty documents are left out and counted; DataError if all are empty."""
    require_encoding(corpus.encoding)
    empty, extracted = True, extracted or DocumentTexts()
    for source in sources:
        for piece in read_source_documents(source, corpus, findings, on_read, extracted):
            empty = False
            yield piece
    if empty:
        if findings.unread_documents:
            first, *others = findings.unread_documents
            more = f", and {counted(len(others), 'more document')} cannot be read either" if others else ""
            raise DataError(first.where, first.problem + more, first.remedy)
        where = sources[0].display_name if len(sources) == 1 else "the corpus"
        raise DataError(where, "holds no text: it is empty or only white space", "Give a file that holds text.")


def read_source_documents(
    source: Source | Builtin,
    corpus: CorpusConfig,
    findings: Findings,
    on_read: OnRead | None,
    extracted: DocumentTexts,
) -> Iterator[DocumentPiece]:
    """Read the documents of one source. Empty documents are left out and counted; all may be empty.

    A document that cannot be read is left out and counted as well, unless the user named it.
    """
    try:
        yield from _without_empty(
            _read_pieces(source, corpus, findings, on_read, extracted), source.display_name, findings
        )
    except UnreadableDocumentError as error:
        if not isinstance(source, Source) or is_named(source, (*corpus.files, *corpus.valid)):
            raise
        findings.unread_documents.append(error)


def is_named(source: Source, names: Iterable[str]) -> bool:
    """Whether the user named a file, and not its folder or archive."""
    return source.member is None and any(source.path == Path(name) for name in names)


def _read_pieces(
    source: Source | Builtin,
    corpus: CorpusConfig,
    findings: Findings,
    on_read: OnRead | None,
    extracted: DocumentTexts,
) -> Iterator[DocumentPiece]:
    if isinstance(source, Builtin):
        for document in source.documents():
            yield from _split_documents([document], corpus.documents)
        return
    if source.format in ("table", "workbook"):
        raise DataError(source.display_name, "is a table", "For a language model give plain text or .jsonl.")
    if source.format == "tmx":
        remedy = "For a language model give plain text; for translation leave --documents out."
        raise DataError(source.display_name, "is a translation memory", remedy)
    if source.format in ("parquet", "arrow"):
        yield from (DocumentPiece(text, True) for text in _read_arrow(source, corpus.text, findings, on_read))
        return
    if source.format == "text" or source.is_document:
        for texts in extracted.documents(source, corpus.encoding, findings, on_read):
            yield from _split_documents(texts, corpus.documents)
    else:
        texts = extracted.read(source, corpus.encoding, findings, on_read)
        yield from (DocumentPiece(text, True) for text in _read_json(source, texts, corpus.text, findings))


def _read_json(source: Source, texts: Iterator[str], column: str | None, findings: Findings) -> Iterator[str]:
    """The documents of .jsonl, or of .json: a list of texts or of objects, or one object per line."""
    reader, bad_rows = JsonReader(texts, source.display_name), BadRows(source.display_name, findings)
    if source.format == "json" and reader.peek() not in ("[", "{"):
        remedy = 'Expected ["...", "..."] or one object per line.'
        raise DataError(f"{source.display_name}:1", "not a JSON list of texts", remedy)
    return _row_texts(read_json(reader, bad_rows, by_lines=source.format == "jsonl"), bad_rows, column)


def _read_arrow(source: Source, column: str | None, findings: Findings, on_read: OnRead | None) -> Iterator[str]:
    """The text column, batch by batch; no other column is read."""
    with open_arrow(source) as table:
        import pyarrow

        where = source.display_name
        column_types = {field.name: field.type for field in table.schema}
        text_columns: set[str] = set()
        for name, column_type in column_types.items():
            value_type = column_type.value_type if pyarrow.types.is_dictionary(column_type) else column_type
            if pyarrow.types.is_string(value_type) or pyarrow.types.is_large_string(value_type):
                text_columns.add(name)
        chosen = _choose_text_column(where, column, text_columns, list(column_types))
        if chosen not in text_columns:
            problem = f"column {chosen!r} holds {column_types[chosen]}, not text"
            raise DataError(where, problem, "Name it with --text NAME.")

        def values() -> Iterator[object]:
            for size, (cells,) in table.batches([chosen]):
                yield from cells
                if on_read is not None:
                    on_read(size)

        yield from _row_texts(enumerate(values(), 1), BadRows(where, findings), column, chosen)


def _row_texts(
    rows: Iterable[tuple[int, object]], bad_rows: BadRows, column: str | None, chosen: str | None = None
) -> Iterator[str]:
    """The text of each row, which is a text or an object; if no column is given, the first object decides which one."""
    for number, value in rows:
        bad_rows.row_count += 1
        if isinstance(value, dict):
            if chosen is None:
                text_columns = {name for name, cell in value.items() if isinstance(cell, str)}
                chosen = _choose_text_column(f"{bad_rows.where}:{number}", column, text_columns, list(value))
            value = value.get(chosen)
        if not isinstance(value, str):
            key = f" in {(chosen or column)!r}" if chosen or column else ""
            type_name = "nothing" if value is None else type(value).__name__
            bad_rows.reject(number, f"expected text{key}, found {type_name}")
        elif not encodable(value):
            bad_rows.reject(number, LONE_SURROGATE)
        else:
            yield normalize_line_ends(value, bad_rows.findings)
    if column is None and chosen is not None:
        bad_rows.findings.columns[bad_rows.where] = chosen
    bad_rows.finish()


def _choose_text_column(where: str, given: str | None, text_columns: set[str], columns: Sequence[str]) -> str:
    """The given column; by default one with a usual name, or the only column of text."""
    listed = ", ".join(columns[:20]) or "none"
    if given is not None:
        if given in columns:
            return given
        similar = difflib.get_close_matches(given, columns, 1)
        remedy = f"Did you mean --text {similar[0]}?" if similar else "Name it with --text NAME."
        raise DataError(where, f"no column {given!r}; there are: {listed}", remedy)
    for name in DOCUMENT:
        for column in columns:
            if column in text_columns and column.lower() == name:
                return column
    if len(text_columns) != 1:
        raise DataError(where, f"which column holds the text? There are: {listed}", "Name it with --text NAME.")
    return next(iter(text_columns))


def _split_documents(texts: Iterable[str], documents: Documents) -> Iterator[DocumentPiece]:
    """The documents of a plain text: its lines, its paragraphs, or all of it."""
    if documents == "lines":
        yield from line_documents(texts)
    elif documents == "paragraphs":
        yield from paragraph_documents(texts)
    else:
        for text in texts:
            yield DocumentPiece(text, False)
        yield DocumentPiece("", True)


def line_documents(texts: Iterable[str]) -> Iterator[DocumentPiece]:
    """Make every line a document; only \\n ends a line."""
    for text in texts:
        *complete_lines, unfinished_line = text.split("\n")
        for line in complete_lines:
            yield DocumentPiece(line, True)
        if unfinished_line:
            yield DocumentPiece(unfinished_line, False)
    yield DocumentPiece("", True)


def paragraph_documents(texts: Iterable[str]) -> Iterator[DocumentPiece]:
    """Split text into paragraphs, which end at blank lines; each is a document."""
    in_paragraph = False
    in_line = False  # whether a part of a line that is not blank was yielded
    held = ""  # the start of a line that is blank so far
    for text, ends_line in line_documents(texts):
        held += text
        if in_line or held.strip() or len(held) > CHUNK_SIZE:
            yield DocumentPiece("\n" + held if in_paragraph and not in_line else held, False)
            in_paragraph, in_line, held = True, not ends_line, ""
        elif ends_line:
            if in_paragraph:
                yield DocumentPiece("", True)
            in_paragraph, held = False, ""
    if in_paragraph:
        yield DocumentPiece("", True)


def _without_empty(pieces: Iterable[DocumentPiece], where: str, findings: Findings) -> Iterator[DocumentPiece]:
    """Leave out documents of only white space, by holding back each document until it has other characters.

    A document that begins with more than `CHUNK_SIZE` characters of white space is not held back any longer.
    """
    held = ""
    passed = False  # whether the beginning of the current document was yielded
    for piece in pieces:
        if passed:
            yield piece
        else:
            held += piece.text
            if len(held) > CHUNK_SIZE or held.strip():
                yield DocumentPiece(held, piece.is_last)
                held, passed = "", True
            elif piece.is_last:
                findings.empty += 1
                findings.first_empty = findings.first_empty or where
        if piece.is_last:
            held, passed = "", False

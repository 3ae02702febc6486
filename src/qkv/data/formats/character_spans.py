"""Texts with marked spans of characters, as annotation tools export them: read as words with BIO tags.

Rows are objects with a text and a list of spans: [start, end, "TAG"], as in doccano, or {"start": ..., "end": ...,
"label": ...}; or tasks of Label Studio. Positions count characters from 0, the end is not part of the span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from qkv.data.findings import Caution, Findings
from qkv.data.formats.tabular import Table

WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
"""The words of a text that taggers are asked about."""
TEXTS = ("text", "data", "sentence", "content")
SPANS = ("label", "labels", "entities", "spans", "ner", "annotations")
_TAGS = ("label", "tag", "type", "entity", "labels")
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")


class CharacterSpan(NamedTuple):
    start: int
    end: int
    tag: str


def span_columns(table: Table) -> tuple[str, str] | None:
    """The columns of text and spans, if the first rows hold both; None for any other table."""
    texts = [name for name in TEXTS if name in table.columns]
    for name in (name for name in SPANS if name in table.columns):
        cells = [cell for cell in table.sample_column(table.columns.index(name)) if cell]
        if texts and cells and all(isinstance(cell, list) and parse_spans(cell) is not None for cell in cells[:50]):
            return texts[0], name
    return None


def parse_spans(cell: object) -> list[CharacterSpan] | None:
    """The spans in a cell, none where it is empty; None for anything but a list of spans."""
    if cell is None or cell == []:
        return []
    if not isinstance(cell, list):
        return None
    spans = list[CharacterSpan]()
    for item in cell:
        if isinstance(item, dict) and isinstance(item.get("result"), list):  # an annotation of Label Studio
            results = [result.get("value") for result in item["result"] if isinstance(result, dict)]
            inner = parse_spans([value for value in results if isinstance(value, dict) and "start" in value])
            if inner is None:
                return None
            if not item.get("was_cancelled"):
                return inner  # of several annotators, the first
            continue
        if (span := _parse_span(item)) is None:
            return None
        spans.append(span)
    return spans


def _parse_span(item: object) -> CharacterSpan | None:
    if isinstance(item, dict):
        start, end, tag = (next((item[key] for key in keys if key in item), None) for keys in (_STARTS, _ENDS, _TAGS))
        tag = tag[0] if isinstance(tag, list) and tag else tag
    elif isinstance(item, list) and len(item) == 3:
        start, end, tag = item
    else:
        return None
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(tag, str):
        return None
    return CharacterSpan(start, end, tag.strip()) if tag.strip() else None


def tagged_sentences(table: Table, findings: Findings) -> Iterator[list[tuple[int, str, str]]]:
    """The words of each row, each with the number of the row and its tag. Rows with bad spans are counted."""
    columns = span_columns(table)
    assert columns is not None
    text_index, span_index = map(table.columns.index, columns)
    findings.add_note(f"{table.where}: text: {columns[0]!r}, spans: {columns[1]!r}, read as BIO tags of words.")
    widened = overlapping = total = 0
    for line, row in table.rows:
        text, spans = row[text_index], parse_spans(row[span_index])
        text = next((text[name] for name in TEXTS if name in text), None) if isinstance(text, dict) else text
        if not isinstance(text, str):
            table.bad_rows.reject(line, f"expected text in {columns[0]!r}, found {type(text).__name__}")
            continue
        if spans is None:
            table.bad_rows.reject(line, f"expected spans such as [0, 4, TAG] in {columns[1]!r}")
            continue
        if wrong := next((span for span in spans if not 0 <= span.start < span.end <= len(text)), None):
            table.bad_rows.reject(line, f"a span from {wrong.start} to {wrong.end} in a text of {len(text)} characters")
            continue
        words = [(match.start(), match.end()) for match in WORDS.finditer(text)]
        tags = ["O"] * len(words)
        total += len(spans)
        for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
            inside = [n for n, (start, end) in enumerate(words) if start < span.end and end > span.start]
            if any(tags[n] != "O" for n in inside):
                overlapping += 1
                continue
            if inside and (words[inside[0]][0] < span.start or words[inside[-1]][1] > span.end):
                widened += 1
            for n in inside:
                tags[n] = f"{'B' if n == inside[0] else 'I'}-{span.tag}"
        if words:
            yield [(line, text[start:end], tag) for (start, end), tag in zip(words, tags, strict=True)]
    table.bad_rows.finish()
    if widened:
        findings.add_note(Caution(f"{table.where}: {widened:,} of {total:,} spans cut a word and are widened to it."))
    if overlapping:
        note = f"{overlapping:,} of {total:,} spans overlap a longer one and are left out"
        findings.add_note(Caution(f"{table.where}: {note}."))

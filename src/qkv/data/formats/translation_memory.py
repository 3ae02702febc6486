"""Translation memories (.tmx): the translation units of a file as rows, with one column for each language.

A file may have gigabytes, so its units are cut out of the stream of its text one by one, and each is parsed alone. A
unit cannot declare entities, because declarations come before the first element: nothing can expand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from xml.etree import ElementTree

from qkv.data.formats.rows import BadRows
from qkv.errors import DataError

SUFFIX = ".tmx"
MAX_UNIT = 2**20
"""The largest unit, in characters; it is held in memory."""
_CODES = frozenset(("bpt", "ept", "ph", "it", "ut"))
"""Inline elements that hold codes of the original format, not text."""
_LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")
_START, _END = re.compile(r"<tu(?=[\s>])"), "</tu>"
_SOURCE_LANGUAGE = re.compile(r"""\ssrclang\s*=\s*["']([^"'*]+)["']""")


def read_memory(
    texts: Iterable[str], bad_rows: BadRows, sample_size: int
) -> tuple[list[str], Iterator[tuple[int, list[object]]]]:
    """The languages in the first units, the source language first, and a row for each unit: its line and its texts,
    None for a language that it does not have."""
    units = _Units(texts, bad_rows)
    rows = units.rows()
    sample = list(islice(rows, sample_size))
    spellings: dict[str, str] = {}
    for _, found in sample:
        for language in found:
            spellings.setdefault(language.lower(), language)
    source = units.source_language
    keys = sorted(spellings, key=lambda key: key != source)
    if source and keys and source not in keys:  # en for en-US
        keys.sort(key=lambda key: key.split("-")[0] != source.split("-")[0])

    def cells() -> Iterator[tuple[int, list[object]]]:
        for part in (sample, rows):
            for line, found in part:
                by_key = {language.lower(): text for language, text in found.items()}
                yield line, [by_key.get(key) for key in keys]

    return [spellings[key] for key in keys], cells()


class _Units:
    def __init__(self, texts: Iterable[str], bad_rows: BadRows) -> None:
        self.texts, self.bad_rows = texts, bad_rows
        self.source_language = ""
        """That of the header; known as soon as the first unit is."""

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """The line of each unit, and its texts by language."""
        for line, unit in self._sources():
            self.bad_rows.row_count += 1
            try:
                yield line, _texts(ElementTree.fromstring(unit))
            except (ElementTree.ParseError, RecursionError, ValueError) as error:
                self.bad_rows.reject(line, f"a translation unit that is not valid XML: {str(error).split(':')[0]}")

    def _sources(self) -> Iterator[tuple[int, str]]:
        """The XML of each unit, and the line where it begins."""
        buffer, line, searched = "", 1, 0
        for text in self.texts:
            buffer += text
            while (end := buffer.find(_END, searched)) >= 0:
                end += len(_END)
                if (start := _START.search(buffer, 0, end)) is not None:
                    self._read_header(buffer[: start.start()])
                    yield line + buffer.count("\n", 0, start.start()), buffer[start.start() : end]
                line += buffer.count("\n", 0, end)
                buffer, searched = buffer[end:], 0
            searched = max(0, len(buffer) - len(_END))
            if len(buffer) > MAX_UNIT + len(text):
                problem = f"more than {MAX_UNIT:,} characters without the end of a translation unit, </tu>"
                raise DataError(f"{self.bad_rows.where}:{line}", problem, "Export the memory again as TMX 1.4.")
        if (start := _START.search(buffer)) is not None:
            self.bad_rows.row_count += 1
            line += buffer.count("\n", 0, start.start())
            self.bad_rows.reject(line, "the file ends inside of this translation unit: it is cut short")

    def _read_header(self, head: str) -> None:
        if not self.source_language and (found := _SOURCE_LANGUAGE.search(head)) is not None:
            self.source_language = found[1].lower()


def _texts(unit: ElementTree.Element) -> dict[str, str]:
    """The text of a unit in each of its languages; the first one, if a language has several."""
    texts: dict[str, str] = {}
    for variant in unit.iter("tuv"):
        language = next((variant.attrib[name] for name in _LANGUAGE if name in variant.attrib), "")
        segment = variant.find("seg")
        if language and segment is not None:
            text = re.sub(r"[ \t\r\n]+", " ", "".join(_plain(segment))).strip(" ")
            texts.setdefault(language.replace("_", "-"), text)
    return texts


def _plain(element: ElementTree.Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag not in _CODES:
            yield from _plain(child)
        yield child.tail or ""

"""The text of Word documents (.docx) and electronic books (.epub): XML in a zip archive.

Both are read with lxml: python-docx leaves out the text of tracked insertions, content controls and text boxes, and
the libraries for .epub are under the AGPL. No DTD is loaded and no entity is expanded.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import unquote

from lxml import etree

from qkv.data.documents.plain_text import PlainText
from qkv.data.documents.unreadable import UnreadableError
from qkv.data.documents.web_pages import read_page

MAX_PART = 2**28
"""The largest unpacked size of a part of a document, in bytes."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_PARSING = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}


class _Archive:
    def __init__(self, content: bytes, kind: str) -> None:
        if content.startswith(_OLD_OFFICE):
            problem = "it is encrypted, or in the old binary format of Office"
            raise UnreadableError(problem, f"Save it as .{kind} without a password.")
        if not content.startswith(b"PK"):
            raise UnreadableError(f"is named .{kind} but holds no {kind} data", "Rename it to match its content.")
        self._zip = zipfile.ZipFile(BytesIO(content))
        self.names = frozenset(self._zip.namelist())

    def open(self, name: str) -> _Bounded:
        if name not in self.names:
            raise ValueError(f"its part {name[:80]!r} is missing")
        if self._zip.getinfo(name).flag_bits & 1:
            raise UnreadableError("it is encrypted", "Save it without a password.")
        return _Bounded(self._zip, name)

    def read(self, name: str) -> bytes:
        with self.open(name) as part:
            return part.read()

    def tree(self, name: str) -> etree._Element:
        return etree.fromstring(self.read(name), etree.XMLParser(**_PARSING))


class _Bounded:
    """A part of an archive; unpacking more than MAX_PART bytes is refused."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._part, self._size = archive.open(name), 0

    def read(self, size: int = -1) -> bytes:
        content = self._part.read(size if size >= 0 else MAX_PART + 1)
        self._size += len(content)
        if self._size > MAX_PART:
            raise UnreadableError(f"a part of it unpacks to more than {MAX_PART:,} bytes", "Give its text instead.")
        return content

    def __enter__(self) -> _Bounded:
        return self

    def __exit__(self, *error: object) -> None:
        self._part.close()


def read_word(content: bytes, text: PlainText) -> None:
    """Write the paragraphs, lists and tables of a Word document, and its foot- and endnotes."""
    archive = _Archive(content, "docx")
    body = _main_part(archive)
    folder = posixpath.dirname(body)
    styles = _styles(archive, f"{folder}/styles.xml")
    for part in (body, f"{folder}/footnotes.xml", f"{folder}/endnotes.xml"):
        if part == body or part in archive.names:
            with archive.open(part) as file:
                _write_word(file, styles, text)
            text.end_line(2)


def _main_part(archive: _Archive) -> str:
    if "_rels/.rels" in archive.names:
        for relation in archive.tree("_rels/.rels"):
            if relation.get("Type", "").endswith("/officeDocument"):
                name = relation.get("Target", "").lstrip("/")
                if not name.startswith("word/"):
                    raise UnreadableError(f"it holds {name[:80]!r}, not text", "Expected a Word document.")
                return name
    return "word/document.xml"


def _styles(archive: _Archive, part: str) -> dict[str, int]:
    """The heading level of each style, by its id; 0 for styles of list items.

    The names of Word's own styles are English in all languages of Word; their ids are not.
    """
    styles = {f"Heading{level}": level for level in range(1, 7)} | {"Title": 1}
    if part not in archive.names:
        return styles
    for style in archive.tree(part).iter("{*}style"):
        name = style.find("{*}name")
        style_name = "" if name is None else _attribute(name, "val").lower()
        if (level := re.fullmatch(r"(?:heading ([1-6])|title)", style_name)) is not None:
            styles[_attribute(style, "styleId")] = int(level[1] or 1)
        elif style.find("{*}pPr/{*}numPr") is not None:
            styles[_attribute(style, "styleId")] = 0
    return styles


def _attribute(element: etree._Element, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


# properties; the second of two forms of a drawing; moved text at its old position; field codes; deleted text
_LEFT_OUT = frozenset(("pPr", "rPr", "tblPr", "sectPr", "Fallback", "moveFrom", "instrText", "delText"))
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}


def _write_word(file: _Bounded, styles: dict[str, int], text: PlainText) -> None:
    skipped: etree._Element | None = None
    first_cell = True
    for event, element in etree.iterparse(
        file, events=("start", "end"), remove_comments=True, remove_pis=True, **_PARSING
    ):
        tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if event == "start":
            if skipped is None and (tag in _LEFT_OUT or _is_line_between_notes(tag, element)):
                skipped = element
            elif skipped is None and tag == "tr":
                text.end_line(1)
                first_cell = not text.open_cells
            elif skipped is None and tag == "tc":
                if not first_cell:
                    text.end_cell()
                first_cell = False
                text.open_cells += 1
            elif skipped is None and tag in ("p", "tbl"):
                text.end_line(2)
            continue
        if element is skipped:
            skipped = None
            if tag == "pPr":
                _begin_paragraph(element, styles, text)
        elif skipped is None:
            if tag == "t":
                text.preformatted(element.text or "")
            elif tag in _BREAKS:
                text.preformatted(_BREAKS[tag])
            elif tag == "tc":
                text.open_cells -= 1
            elif tag == "p":
                text.end_marked()
            elif tag == "tbl":
                text.end_line(2)
        if skipped is None:
            element.clear(keep_tail=True)


def _is_line_between_notes(tag: str, element: etree._Element) -> bool:
    return tag in ("footnote", "endnote") and _attribute(element, "type") not in ("", "normal")


def _begin_paragraph(properties: etree._Element, styles: dict[str, int], text: PlainText) -> None:
    style = properties.find("{*}pStyle")
    level = None if style is None else styles.get(_attribute(style, "val"))
    if level:
        text.begin_heading(level)
    elif level == 0 or properties.find("{*}numPr") is not None:
        depth = properties.find("{*}numPr/{*}ilvl")
        indent = "" if depth is None else _attribute(depth, "val")
        text.begin_item(None, int(indent) if indent.isdecimal() else 0)


def read_book(content: bytes, text: PlainText) -> None:
    """Write the chapters of an electronic book in their order, without its table of contents."""
    archive = _Archive(content, "epub")
    container = archive.tree("META-INF/container.xml")
    package_name = next((_attribute(file, "full-path") for file in container.iter("{*}rootfile")), "")
    package = archive.tree(package_name)
    encrypted = _encrypted(archive)
    chapters = list(_chapters(package, posixpath.dirname(package_name)))
    if not chapters:
        raise ValueError("it names no chapters")
    for name in chapters:
        if name in encrypted:
            raise UnreadableError("it is encrypted (DRM)", "Give a book without it.")
        read_page(archive.read(name), text)


def _chapters(package: etree._Element, folder: str) -> Iterator[str]:
    items = {
        item.get("id"): (item.get("href", ""), item.get("media-type", ""))
        for item in package.iter("{*}item")
        if "nav" not in item.get("properties", "").split()
    }
    for reference in package.iter("{*}itemref"):
        href, kind = items.get(reference.get("idref"), ("", ""))
        if href and "html" in kind:
            yield posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _encrypted(archive: _Archive) -> set[str]:
    if "META-INF/encryption.xml" not in archive.names:
        return set()
    references = archive.tree("META-INF/encryption.xml").iter("{*}CipherReference")
    return {unquote(_attribute(reference, "URI")) for reference in references}

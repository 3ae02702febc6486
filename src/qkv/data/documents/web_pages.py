"""The text of a web page, or of a chapter of an electronic book.

Scripts, styles, form controls, and parts that the page marks as hidden or as navigation are left out; if a page has one
<main> element, only that element is read.
"""

from __future__ import annotations

import re

from lxml import etree

from qkv.data.documents.plain_text import PlainText
from qkv.data.documents.unreadable import UnreadableError

_WITHOUT_TEXT = """
script style noscript template head nav svg canvas audio video object embed iframe select option datalist textarea
button input annotation annotation-xml menu dialog
"""
_LEFT_OUT = frozenset(_WITHOUT_TEXT.split())
_ROLES_WITHOUT_TEXT = "navigation search menu menubar toolbar tablist banner contentinfo dialog alertdialog"
_LEFT_OUT_ROLES = frozenset(_ROLES_WITHOUT_TEXT.split())
_HIDDEN_STYLE = re.compile(r"(?i)display\s*:\s*none|visibility\s*:\s*hidden")
_LINES = "br caption dd div dt legend summary td th tr"
_PARAGRAPHS = """
address article aside blockquote body center details dl fieldset figcaption figure footer form header hr html main ol p
pre section table ul
"""
_LINE_ENDS = {**dict.fromkeys(_LINES.split(), 1), **dict.fromkeys(_PARAGRAPHS.split(), 2)}
"""How many line ends separate an element from the text around it; other elements are parts of a line."""
_CELLS = ("td", "th")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LAYOUT = ("table", "p", "div", "ul", "ol", "section", "article", "form", *_HEADINGS)
"""Elements that do not occur in the cells of data tables; tables that contain one are used for layout."""
_TOO_DEEP = "Excessive depth"


def read_page(content: bytes, text: PlainText) -> None:
    """Write the text of a page in UTF-8."""
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, huge_tree=True, remove_comments=True, remove_pis=True, recover=True
    )
    root = etree.fromstring(content, parser)
    if any(_TOO_DEEP in entry.message for entry in parser.error_log):
        raise UnreadableError("its elements are nested more than 2,000 deep", "Give its text instead.")
    if root is None:
        return
    main = root.findall(".//main")
    _Page(text).write(main[0] if len(main) == 1 and not _is_left_out(main[0]) else root)
    text.end_line(2)


class _Page:
    """Writes the text of a page while its elements start and end."""

    def __init__(self, text: PlainText) -> None:
        self.text = text
        self._preformatted = 0
        self._numbers: list[int | None] = []  # of the next item of each open list; None if unnumbered
        self._tables: list[bool] = []  # for each open table, whether it is a data table

    def write(self, root: etree._Element) -> None:
        left_out: etree._Element | None = None
        for event, element in etree.iterwalk(root, events=("start", "end")):
            tag = _name(element)
            if left_out is None and event == "start" and not _is_left_out(element):
                self._start(tag, element)
                self._add(element.text)
            elif left_out is None and event == "start":
                left_out = element
            elif event == "end" and left_out in (None, element):
                if left_out is None:
                    self._end(tag)
                left_out = None
                if element is not root:
                    self._add(element.tail)

    def _add(self, text: str | None) -> None:
        if text:
            self.text.preformatted(text) if self._preformatted else self.text.text(text)

    def _start(self, tag: str, element: etree._Element) -> None:
        if tag in _HEADINGS:
            self.text.begin_heading(_HEADINGS[tag])
        elif tag == "li":
            number = self._numbers[-1] if self._numbers else None
            self.text.begin_item(number, len(self._numbers) - 1)
            if number is not None:
                self._numbers[-1] = number + 1
        elif tag in ("ol", "ul"):
            self._numbers.append(_first_number(element) if tag == "ol" else None)
        elif tag == "table":
            self.text.end_line(2)
            self._tables.append(not self.text.open_cells and next(element.iterdescendants(*_LAYOUT), None) is None)
        elif tag in _CELLS and self._in_data_table:
            if element.getprevious() is not None:
                self.text.end_cell()
            self.text.open_cells += 1
        elif tag in _LINE_ENDS:
            self.text.end_line(_LINE_ENDS[tag])
        self._preformatted += tag == "pre"

    def _end(self, tag: str) -> None:
        if tag in _CELLS and self._in_data_table:
            self.text.open_cells = max(0, self.text.open_cells - 1)
        elif tag in _HEADINGS or tag == "li":
            self.text.end_marked()
        elif tag in _LINE_ENDS and tag != "br":
            self.text.end_line(_LINE_ENDS[tag])
        if tag in ("ol", "ul"):
            self._numbers.pop()
        if tag == "table":
            self._tables.pop()
        self._preformatted -= tag == "pre"

    @property
    def _in_data_table(self) -> bool:
        return bool(self._tables) and self._tables[-1]


def _name(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _first_number(element: etree._Element) -> int:
    start = element.get("start", "1")
    return int(start) if re.fullmatch(r"\d{1,9}", start) else 1


def _is_left_out(element: etree._Element) -> bool:
    return (
        _name(element) in _LEFT_OUT
        or element.get("role", "").lower() in _LEFT_OUT_ROLES
        or element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(element.get("style", "")))
    )

"""Converts marked-up text to plain text: paragraphs, headings, lists and tables, written as in Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable

_BLANKS = re.compile("[ \t\n\r\f\u00a0]+")
_SOFT_HYPHEN = "\u00ad"


class PlainText:
    """Writes text piece by piece; between the pieces of a line, runs of white space become one blank."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._line_ends = 0  # line ends to write before the next text
        self._blank = False  # whether to write a blank before the next text
        self._mark = ""  # the mark of a heading or an item, to write before its first text
        self._mark_is_of_item = self._after_item = False
        self._begun = False
        self.open_cells = 0
        """In how many nested table cells the text is; paragraphs in a cell stay on one line."""

    def text(self, text: str) -> None:
        text = _BLANKS.sub(" ", text.replace(_SOFT_HYPHEN, ""))
        if not text.strip():
            self._blank = self._blank or bool(text)
            return
        self._put(text.strip(" "), self._blank or text[0] == " ")
        self._blank = text[-1] == " "

    def preformatted(self, text: str) -> None:
        """Write text that keeps its blanks and line ends."""
        if self.open_cells:
            self.text(text)
            return
        text = text.removeprefix("\n") if self._line_ends else text
        solid = text.rstrip("\n")
        if solid:
            self._put(solid, self._blank)
            self._blank = False
        self._line_ends += len(text) - len(solid)

    def end_line(self, line_ends: int = 1) -> None:
        """End the line or, with 2 line ends, the paragraph. In a table cell, both become a blank."""
        if self.open_cells:
            self._blank = True
        elif not self._mark:
            self._line_ends, self._blank = max(self._line_ends, line_ends), False

    def begin_heading(self, level: int) -> None:
        self.end_line(2)
        if not self.open_cells:
            self._mark, self._mark_is_of_item = "#" * level + " ", False

    def begin_item(self, number: int | None, depth: int) -> None:
        """Begin a list item; there is no blank line between the items of a list."""
        self.end_line(2)
        if not self.open_cells:
            if self._after_item:
                self._line_ends = 1
            self._mark = "  " * min(depth, 9) + ("- " if number is None else f"{number}. ")
            self._mark_is_of_item = True

    def end_marked(self) -> None:
        """End a heading or an item."""
        self._mark = ""
        self.end_line(2)

    def end_cell(self) -> None:
        """Write what separates two cells of a row."""
        self._put("|", True)
        self._blank = True

    def _put(self, text: str, blank: bool) -> None:
        if self._line_ends and self._begun:
            self._write("\n" * self._line_ends)
        if self._line_ends:
            blank, self._after_item = False, False
        if self._mark:
            self._write(self._mark)
            blank, self._after_item = False, self._mark_is_of_item
        self._write(f" {text}" if blank and self._begun else text)
        self._line_ends, self._mark, self._begun = 0, "", True

"""Printing for all verbs: lines, tables, the sections of a report, JSON.

Answers go to standard output; notes and progress go to standard error. On a terminal, lines wrap at spaces; in a pipe
or a file every sentence is one line, and tables are as wide as COLUMNS, by default 80.
"""

from __future__ import annotations

import json as json_module
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from qkv.safe_json import without_nonfinite
from qkv.tasks.report import LinesSection, ReportSection, TableSection
from qkv.visible import visible, visible_json, visible_lines

if TYPE_CHECKING:
    from rich.console import Console

OUTPUT_GROUP = Group("Output", sort_key=3)
Json = Annotated[
    bool,
    Parameter(
        name="--json", negative="", show_default=False, group=OUTPUT_GROUP, help="One JSON document on standard output."
    ),
]


def program_name() -> str:
    """The command that starts this program: `qkv` if the shell finds it, else the path or module it was started by."""
    if shutil.which("qkv"):
        return "qkv"
    path = Path(sys.argv[0])
    if path.stem != "qkv":
        return f"{Path(sys.executable).name} -m qkv"
    return os.path.relpath(path) if path.is_absolute() and path.is_relative_to(Path.cwd()) else str(path)


def stderr_console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


_SPACE_IN_INTERVAL = re.compile(r"(?<=\d) (?=to [-+\d])|(?<=\d to) (?=[-+\d])|(?<=\d) (?=%)")
_UNBREAKABLE_SPACE = "\ue000"  # replaces a space while a line is wrapped


def wrapped(line: str, width: int | None) -> list[str]:
    """Split a line at spaces into lines of this width; paths, numbers and intervals are never split."""
    if width is None or len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    wrapper = textwrap.TextWrapper(width, "", indent, break_long_words=False, break_on_hyphens=False)
    parts = wrapper.wrap(_SPACE_IN_INTERVAL.sub(_UNBREAKABLE_SPACE, line))
    return [part.replace(_UNBREAKABLE_SPACE, " ") for part in parts] or [""]


def _terminal_width() -> int:
    return max(20, shutil.get_terminal_size().columns)


def _escaped_lines(lines: Iterable[object], *, wrap: bool) -> list[str]:
    return [part for line in lines for part in wrapped(visible(str(line)), _terminal_width() if wrap else None)]


def print_answer(*lines: object, end: str = "\n", flush: bool = False) -> None:
    """Print each argument as a line on standard output: the answer of the command.

    Verbs print only with the functions of this module. Control characters in names and values are escaped, so that
    they neither break a line nor change the terminal: see `qkv.visible`.
    """
    print(*_escaped_lines(lines, wrap=sys.stdout.isatty()), sep="\n", end=end, file=sys.stdout, flush=flush)


def print_message(*lines: object, end: str = "\n") -> None:
    """Print each argument as a line on standard error."""
    print(*_escaped_lines(lines, wrap=sys.stderr.isatty()), sep="\n", end=end, file=sys.stderr, flush=True)


def print_rows(rows: Iterable[Iterable[str]]) -> None:
    """Print tab-separated rows for other programs; tabs and line ends within a cell are escaped."""
    for row in rows:
        print("\t".join(map(visible, row)), file=sys.stdout)
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Print what a model wrote: unchanged to files and pipes, to a terminal with control characters escaped."""
    print(visible_lines(text) if sys.stdout.isatty() else text, end="", file=sys.stdout, flush=True)


def print_notes(*notes: str) -> None:
    """Print notes, for example on changes to the input or on choices for the user."""
    for note in notes:
        print_message(f"note: {note}")


def print_json(values: Mapping[str, Any]) -> None:
    """Print the only document of `--json`. Numbers that are not finite are written as null."""
    print(_json(values), file=sys.stdout)


class StreamedJson:
    """A JSON document that is printed while it is computed: `header`, then a list item by item, then closing values.

    Every item is printed as a line as soon as it is added, with its comma before it. Nothing is printed before the
    first item. If the command fails before `end`, the output is not valid JSON.
    """

    def __init__(self, header: Mapping[str, Any], list_name: str) -> None:
        self.opening = f"{_json(header).removesuffix('}').rstrip()},\n  {_json(list_name)}: ["
        self.item_count = 0

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Print more items of the list, and flush them."""
        for item in items:
            lead = "  , " if self.item_count else f"{self.opening}\n    "
            print(lead + _json(item, indent=None), file=sys.stdout)
            self.item_count += 1
        sys.stdout.flush()

    def end(self, values: Mapping[str, Any]) -> None:
        lead = "  ]" if self.item_count else f"{self.opening}]"
        print(f"{lead},{_json(values)[1:]}" if values else f"{lead}\n}}", file=sys.stdout, flush=True)


def _json(value: Any, indent: int | None = 2) -> str:
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"  # JSON must survive any pipe
    value = without_nonfinite(value)
    return visible_json(json_module.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False))


def print_sections(*sections: ReportSection) -> None:
    """Print the lines and tables of a report."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for section in sections:
        if isinstance(section, LinesSection):
            print_answer(*section.lines)
            continue
        for line in wrapped(visible(section.title), _terminal_width()) if section.title else ():
            console.print(Text(line, style="italic"))
        header, *rows = table_lines(section, _terminal_width())
        for line in header:
            console.print(Text(line, style="bold"))
        for row in rows:
            print_answer(*row)


def table_lines(section: TableSection, width: int) -> list[list[str]]:
    """Lay out a table and give the lines of each row, the header first. Text columns wrap at spaces, number columns
    never. If the table is still too wide, the last text column is printed on lines of its own below each row."""
    from rich.cells import cell_len

    grid = [[visible(str(cell)) for cell in row] for row in (section.columns, *section.rows)]
    columns = list(zip(*grid, strict=True))
    text_columns = [index for index, name in enumerate(section.columns) if index == 0 or name in section.words]
    widths = [max(map(cell_len, column)) for column in columns]
    min_widths = [
        max(cell_len(part) for cell in column for part in wrapped(cell, 1)) if index in text_columns else widths[index]
        for index, column in enumerate(columns)
    ]
    too_wide = sum(min_widths) + 2 * (len(columns) - 1) > width
    column_below = text_columns.pop() if len(text_columns) > 1 and too_wide else None
    row_columns = [index for index in range(len(columns)) if index != column_below]
    available = width - 2 * (len(row_columns) - 1)
    while sum(widths[index] for index in row_columns) > available:
        shrinkable = [index for index in text_columns if widths[index] > min_widths[index]]
        if not shrinkable:
            break
        widths[max(shrinkable, key=widths.__getitem__)] -= 1
    rows = []
    for row in grid:
        cells = [wrapped(row[index], widths[index]) for index in row_columns]
        lines = []
        for parts in zip_longest(*cells, fillvalue=""):
            padded = []
            for index, part in zip(row_columns, parts, strict=True):
                padding = " " * (widths[index] - cell_len(part))
                padded.append(part + padding if index in text_columns else padding + part)
            lines.append("  ".join(padded).rstrip())
        if column_below is not None:
            lines += [f"    {part}" for part in wrapped(row[column_below], width - 4)]
        rows.append(lines)
    return rows

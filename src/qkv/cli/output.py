"""What verbs print: lines, tables, the sections of a report, JSON.

Answers go to standard output; notes, progress and pictures go to standard error. On a terminal lines wrap at blanks; a
pipe or a file gets every sentence as one line, and tables of 80 columns or of COLUMNS.
"""

from __future__ import annotations

import json as json_module
import os
import re
import shutil
import sys
import textwrap
import time
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

STARTED = time.perf_counter()  # of this program: minutes that a verb is given count from here

OUTPUT = Group("Output", sort_key=3)
Json = Annotated[
    bool,
    Parameter(
        name="--json", negative="", show_default=False, group=OUTPUT, help="One JSON document on standard output."
    ),
]


def program() -> str:
    """How to call this program again: by its name where the shell finds it, else as it was called."""
    if shutil.which("qkv"):
        return "qkv"
    called = Path(sys.argv[0])
    if called.stem != "qkv":
        return f"{Path(sys.executable).name} -m qkv"
    return os.path.relpath(called) if called.is_absolute() and called.is_relative_to(Path.cwd()) else str(called)


def console() -> Console:
    """Where people look: standard error, so that standard output stays clean for pipes."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


_WITHIN_INTERVAL = re.compile(r"(?<=\d) (?=to [-+\d])|(?<=\d to) (?=[-+\d])|(?<=\d) (?=%)")
_KEPT = "\ue000"  # stands for a blank that is not broken at


def wrapped(line: str, width: int | None) -> list[str]:
    """A line in parts of this width, broken at blanks: never inside a path, a number or an interval."""
    if width is None or len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    whole = textwrap.TextWrapper(width, "", indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace(_KEPT, " ") for part in whole.wrap(_WITHIN_INTERVAL.sub(_KEPT, line))] or [""]


def _columns() -> int:
    return max(20, shutil.get_terminal_size().columns)


def _parts(lines: Iterable[object], *, wrap: bool) -> list[str]:
    return [part for line in lines for part in wrapped(visible(str(line)), _columns() if wrap else None)]


def print_answer(*lines: object, end: str = "\n", flush: bool = False) -> None:
    """Lines on standard output, one an argument: what the command was called for.

    Verbs print through the four functions here only. Whatever names and values hold, a line stays one line, and
    nothing in it steers a terminal: see `qkv.visible`.
    """
    print(*_parts(lines, wrap=sys.stdout.isatty()), sep="\n", end=end, file=sys.stdout, flush=flush)


def print_message(*lines: object, end: str = "\n") -> None:
    """Lines on standard error, one an argument: what a person wants to know meanwhile."""
    print(*_parts(lines, wrap=sys.stderr.isatty()), sep="\n", end=end, file=sys.stderr, flush=True)


def print_rows(rows: Iterable[Iterable[str]]) -> None:
    """Lines of cells with tabs between them, for other programs: a tab or a line end within a cell is an escape."""
    for row in rows:
        print("\t".join(map(visible, row)), file=sys.stdout)
    sys.stdout.flush()


def print_text(text: str) -> None:
    """What a model wrote: to files and pipes as it is, to a terminal without what could steer it."""
    print(visible_lines(text) if sys.stdout.isatty() else text, end="", file=sys.stdout, flush=True)


def notes(lines: Iterable[str]) -> None:
    """Things that were done to the input or decided for the user, one line each."""
    for line in lines:
        print_message(f"note: {line}")


def note(line: str) -> None:
    """One of them."""
    notes([line])


def document(values: Mapping[str, Any]) -> None:
    """The one JSON document of `--json`. Not-a-number is written as null: JSON has no other word for it."""
    print(_json(values), file=sys.stdout)


class Growing:
    """The same document, written while its answers come: `before`, a list that grows, and what is known at its end.

    An answer is a line, whole as soon as it is there: commas stand before the next. Nothing is held, and nothing is
    printed before the first one. What ends early, by whatever failure, is not JSON.
    """

    def __init__(self, before: Mapping[str, Any], name: str) -> None:
        self.opening = f"{_json(before).removesuffix('}').rstrip()},\n  {_json(name)}: ["
        self.items = 0

    def add(self, values: Iterable[Mapping[str, Any]]) -> None:
        """More of the list, at once where somebody waits for it."""
        for value in values:
            lead = "  , " if self.items else f"{self.opening}\n    "
            print(lead + _json(value, indent=None), file=sys.stdout)
            self.items += 1
        sys.stdout.flush()

    def end(self, after: Mapping[str, Any]) -> None:
        lead = "  ]" if self.items else f"{self.opening}]"
        print(f"{lead},{_json(after)[1:]}" if after else f"{lead}\n}}", file=sys.stdout, flush=True)


def _json(value: Any, indent: int | None = 2) -> str:
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"  # JSON must survive any pipe
    value = without_nonfinite(value)
    return visible_json(json_module.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False))


def show(*sections: ReportSection) -> None:
    """Print the lines and tables of a report in their order."""
    from rich.console import Console
    from rich.text import Text

    screen = Console(soft_wrap=True)
    for section in sections:
        if isinstance(section, LinesSection):
            print_answer(*section.lines)
            continue
        for line in wrapped(visible(section.title), _columns()) if section.title else ():
            screen.print(Text(line, style="italic"))
        header, *rows = table_lines(section, _columns())
        for line in header:
            screen.print(Text(line, style="bold"))
        for row in rows:
            print_answer(*row)


def table_lines(section: TableSection, width: int) -> list[list[str]]:
    """The lines of each row of a table, the header first. Words wrap at blanks, numbers and intervals never; where that
    is not enough, the last column of words stands on lines of its own, below its row."""
    from rich.cells import cell_len

    grid = [[visible(str(cell)) for cell in row] for row in (section.columns, *section.rows)]
    columns = list(zip(*grid, strict=True))
    words = [number for number, name in enumerate(section.columns) if number == 0 or name in section.words]
    widths = [max(map(cell_len, column)) for column in columns]
    least = [
        max(cell_len(part) for cell in column for part in wrapped(cell, 1)) if number in words else widths[number]
        for number, column in enumerate(columns)
    ]
    below = words.pop() if len(words) > 1 and sum(least) + 2 * (len(columns) - 1) > width else None
    beside = [number for number in range(len(columns)) if number != below]
    room = width - 2 * (len(beside) - 1)
    while sum(widths[number] for number in beside) > room:
        wide = [number for number in words if widths[number] > least[number]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    rows = []
    for row in grid:
        cells = [wrapped(row[number], widths[number]) for number in beside]
        lines = []
        for parts in zip_longest(*cells, fillvalue=""):
            blanks = [" " * (widths[number] - cell_len(part)) for number, part in zip(beside, parts, strict=True)]
            both = zip(beside, parts, blanks, strict=True)
            lines.append("  ".join(p + b if number in words else b + p for number, p, b in both).rstrip())
        rows.append([*lines, *([] if below is None else (f"    {part}" for part in wrapped(row[below], width - 4)))])
    return rows

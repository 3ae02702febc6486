"""What verbs print: lines, tables, the sections of a report, JSON.

Answers go to standard output; notes, progress and pictures go to standard error.
"""

from __future__ import annotations

import json as json_module
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from qkv.visible import visible, visible_json, visible_lines

if TYPE_CHECKING:
    from rich.console import Console

    from qkv.tasks.report import Section

STARTED = time.perf_counter()  # of this program: minutes that a verb is given count from here

OUTPUT = Group("Output", sort_key=3)
Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        group=OUTPUT,
        help="One JSON document on standard output.",
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


def print_answer(*lines: object, end: str = "\n", flush: bool = False) -> None:
    """Lines on standard output, one an argument: what the command was called for.

    Verbs print through the four functions here only. Whatever names and values hold, a line stays one line, and
    nothing in it steers a terminal: see `qkv.visible`.
    """
    print(*(visible(str(line)) for line in lines), sep="\n", end=end, file=sys.stdout, flush=flush)


def print_message(*lines: object, end: str = "\n") -> None:
    """Lines on standard error, one an argument: what a person wants to know meanwhile."""
    print(*(visible(str(line)) for line in lines), sep="\n", end=end, file=sys.stderr, flush=True)


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
    return visible_json(json_module.dumps(_finite(value), ensure_ascii=ascii_only, indent=indent, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], words: Collection[str] = ()) -> None:
    """A table on standard output; the first column and those of `words` read left, numbers read right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        side: Literal["left", "right"] = "left" if index == 0 or column in words else "right"
        numbers = side == "right"  # an interval is never broken; words wrap at blanks
        grid.add_column(Text(visible(column)), justify=side, overflow="fold", no_wrap=numbers)
    for row in rows:
        grid.add_row(*(Text(visible(str(cell))) for cell in row))
    shown = Console(highlight=False)
    if title:  # as rich's own title it would be cut to the table's width
        shown.print(Text(visible(title), style="italic"), soft_wrap=True)
    shown.print(grid)


def show(sections: Iterable[Section]) -> None:
    """Print the lines and tables of a report in their order."""
    from qkv.tasks.report import LinesSection

    for section in sections:
        if isinstance(section, LinesSection):
            print_answer(*section.lines)
        else:
            table(section.title, section.columns, section.rows, words=section.words)

"""Verbs print through `print_answer` and `print_message` only: one place decides how text is shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PRINTERS = {"cli/output.py", "cli/app.py", "cli/streams.py", "library/progress_display.py"}
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}


def printed(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of every way past the printers."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield node.lineno, "print"
            case ast.Attribute() if ast.unparse(node) in STREAMS:
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="Console")):
                yield node.lineno, "Console"
            case ast.ImportFrom(module="sys", names=names):
                yield from ((node.lineno, f"sys.{name.name}") for name in names if f"sys.{name.name}" in STREAMS)


def test_only_the_printers_print(source: Path) -> None:
    hits = [
        f"{path.relative_to(source)}:{line}: {name}"
        for path in sorted(source.rglob("*.py"))
        if path.relative_to(source).as_posix() not in PRINTERS
        for line, name in printed(path.read_text(encoding="utf-8"))
    ]
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize(
    "text",
    ["print('a')", "import sys\nsys.stdout.write('a')", "from sys import stderr", "with Console() as c: pass"],
)
def test_the_check_sees(text: str) -> None:
    assert list(printed(text))

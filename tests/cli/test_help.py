"""`--help` of every verb, at the width of a terminal: no line is cut, and none ends before it is full."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

from cli.commands import run
from cli.verbs import every_verb
from qkv.cli.app import help_text
from qkv.cli.helping import joined

CALLS = [*every_verb(), ["data"]]
BOX = "│"


def too_short(lines: list[str], columns: int) -> list[str]:
    """Lines that end although the first word of the next, which goes on with them, had room."""
    found = []
    for line, following in pairwise(lines):
        boxed = line.startswith(BOX) and following.startswith(BOX)
        here, after = (line[2:-2].rstrip(), following[2:-2]) if boxed else (line.rstrip(), following)
        if line.startswith(BOX) != following.startswith(BOX) or line[:1] in "╭╰" or following[:1] in "╭╰":
            continue
        goes_on = after.startswith(" " * 6) if boxed else bool(here) and bool(after)
        if not goes_on or (not boxed and any(each.startswith(("qkv ", "cat ")) for each in (here, after))):
            continue
        room = columns - (4 if boxed else 0)
        if len(here) + 1 + len(after.split()[0]) <= room:
            found.append(f"{here}|{after.strip()}")
    return found


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_every_verb(
    words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delitem(sys.modules, "qkv.cli.data", raising=False)  # its application keeps the width it began with
    assert run([*words, "--help"], False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: qkv {' '.join(words)}")
    assert [line for line in lines if len(line) > columns] == []
    assert "…" not in "".join(lines)
    assert too_short(lines, columns) == []


def test_the_list_of_verbs_fits() -> None:
    assert [line for line in help_text().splitlines() if len(line) > 80] == []


def test_commands_keep_their_lines() -> None:
    text = "One\nparagraph of\nlines.\n\nqkv train a.txt\ncat b | qkv tag MODEL -\n\nThe\nend."
    assert joined(text) == "One paragraph of lines.\n\nqkv train a.txt\ncat b | qkv tag MODEL -\n\nThe end."

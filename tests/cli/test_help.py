"""`--help` of every verb: at most 60 lines of 100 columns; no line is cut, and none ends before it is full."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

from cli.commands import run
from cli.verbs import every_verb
from qkv.cli.app import help_text
from qkv.cli.help import MODELS, unwrapped
from qkv.models import bert, gpt, transformer
from qkv.models.registry import LANGUAGE_MODELS
from qkv.tasks.classification import systems

CALLS = [*every_verb(), ["data"]]
LINES = 60


def too_short(lines: list[str], columns: int) -> list[str]:
    """Lines that end although the first word of the next, which continues them, had room."""
    short = []
    for line, following in pairwise(lines):
        indented = following.startswith(" " * 6)  # a row of a table, continued
        paragraph = (
            bool(line)
            and bool(following)
            and not any(each.startswith((" ", "qkv ", "cat ")) for each in (line, following))
        )
        heading = line.endswith(":")
        if (indented or paragraph) and not heading and len(line) + 1 + len(following.split()[0]) <= columns:
            short.append(f"{line}|{following.strip()}")
    return short


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_every_verb(
    words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delitem(sys.modules, "qkv.cli.data", raising=False)  # its application keeps the width it began with
    assert run([*words, "--help"], False) == 0
    text = capsys.readouterr().out
    lines = text.rstrip().splitlines()
    assert lines[0].startswith(f"Usage: qkv {' '.join(words)}")
    assert [line for line in lines if len(line) > columns] == []
    assert "…" not in text
    assert "nothing is said" not in text
    assert too_short(lines, columns) == []
    if columns >= 100:
        assert len(lines) <= LINES


def test_the_list_of_verbs_fits() -> None:
    assert [line for line in help_text().splitlines() if len(line) > 80] == []


def test_commands_keep_their_lines() -> None:
    text = "One\nparagraph of\nlines.\n\nqkv train a.txt\ncat b | qkv tag MODEL -\n\nThe\nend."
    assert unwrapped(text) == "One paragraph of lines.\n\nqkv train a.txt\ncat b | qkv tag MODEL -\n\nThe end."


def test_the_table_of_models_is_true() -> None:
    """It is a list of its own, because help must not import torch."""
    presets = {*bert.PRESETS, *gpt.PRESETS}
    expected = {
        "text": set(gpt.PRESETS),
        "masked text": set(bert.PRESETS),
        "labelled texts": set(systems.TEXT_SYSTEMS),
        "tagged words": {name for name in systems.system_names("tagging") if name not in presets},
        "images": set(systems.IMAGE_SYSTEMS),
        "numbers": set(systems.NUMBER_SYSTEMS),
        "parallel text": {"transformer", *transformer.PRESETS, "rnn-translator"},
    }
    assert {task: set(names) for task, names in MODELS.items()} == expected
    assert (next(iter(LANGUAGE_MODELS)), MODELS["numbers"][0]) == ("modern", systems.DEFAULT_NUMBER_SYSTEM)

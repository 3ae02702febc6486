"""Output at 80 columns: lines end at blanks, never inside a path, a number or an interval."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import small_pairs
import small_tasks
from cli.commands import run
from data.bad_inputs import prose
from qkv.cli.output import table_lines, wrapped
from qkv.tasks.report import TableSection

COLUMNS = 80
# what each verb prints, and what no line end may stand in: regular expressions that match somewhere
CALLS: dict[str, tuple[list[str], list[str]]] = {
    "inspect": (["inspect", "{gpt}", "the river keeps the stone"], [r"blocks/attention\.py:\d+", "{gpt_name}"]),
    "inspect heads": (["inspect", "{gpt}", "the river keeps", "--heads", "--ablate", "1"], [r"\d\.\d{3}-\d\.\d{3}"]),
    "inspect others": (["inspect", "{gpt}", "the river keeps", "--lens", "--why", "--decks", "--head", "1.1"], []),
    "embed": (["embed", "{gpt}", "the river keeps the stone and the book", "the stone", "--layer", "1"], []),
    "embed tokens": (["embed", "{gpt}", "the river keeps the stone", "--tokens"], []),
    "embed among": (["embed", "{gpt}", "the river", "--among", "{book}"], []),
    "embed probe": (["embed", "{gpt}", "--probe", "{table}"], [r"\d\.\d{4} to \d\.\d{4}"]),
    "tokenize": (["tokenize", "the river keeps the stone", "--tokenizer", "{gpt}"], []),
    "tokenize and save": (["tokenize", "--train", "{book}", "--save", "{here}/t.json"], [r"{here}/t\.json"]),
    "generate": (["generate", "{gpt}", "the river", "--next", "5"], []),
    "evaluate": (["evaluate", "{gpt}", "{book}"], [r"\d\.\d+ to \d\.\d+|\d\.\d+-\d\.\d+"]),
    "evaluate labels": (["evaluate", "{classifier}", "{table}"], [r"\d\.\d{4} to \d\.\d{4}"]),
    "verify": (["verify", "{gpt}"], []),
    "export": (["export", "{gpt}", "{here}/a-folder-of-a-rather-long-name/copy"], [r"{here}/a-folder[\w-]+/copy"]),
    "import": (["import", "{gpt}", "--to", "{here}/a-folder-of-a-rather-long-name"], [r"{here}/a-folder[\w-]+"]),
    "data list": (["data", "list"], ["UniversalDependencies/UD_English-EWT"]),
    "data describe": (["data", "describe", "{table}"], ["{table}"]),
    "data describe pairs": (["data", "describe", "{source}", "{target}"], ["{target}"]),
    "data check": (["data", "check", "{book}"], []),
    "data clean": (["data", "clean", "{book}", "--out", "{here}/corpus.jsonl"], [r"{here}/corpus\.jsonl"]),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("a-folder-with-a-name-that-takes-half-of-a-line-of-eighty-columns")
    (folder / "book.txt").write_text(prose())
    table = small_tasks.write(folder, "classification")
    small = {"model": {"kind": "gru", "width": 16}, "training": {"steps": 3}}
    small_tasks.trained(table, folder / "classifier", "classification", **small)
    small_tasks.origin(folder / "gpt", "gpt")
    source, target = small_pairs.write(folder)
    names = {"gpt": folder / "gpt", "book": folder / "book.txt", "table": table, "classifier": folder / "classifier"}
    return {**{name: str(path) for name, path in names.items()}, "source": source, "target": target, "gpt_name": "gpt"}


@pytest.mark.parametrize("call", CALLS)
def test_lines_end_at_blanks(
    call: str,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line longer than the terminal holds nothing but one word that is longer, and its indent."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    words, whole = CALLS[call]
    named = {**places, "here": str(tmp_path)}
    capsys.readouterr()
    assert run([word.format(**named) for word in words], False) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > COLUMNS and " " in line.strip()] == []
    for pattern in whole:
        for name, place in named.items():
            pattern = pattern.replace(f"{{{name}}}", re.escape(place))
        assert re.search(pattern, text), text


def test_a_sentence() -> None:
    text = "The best has 0.1234 to 0.2345 (95 %) in /a/path-with-hyphens/and a name"
    for width in range(1, 80):
        parts = wrapped(text, width)
        assert " ".join(parts) == text
        assert not any(part.endswith((" to", "0.1234", "95")) for part in parts)
    assert wrapped("    indented words", 12) == ["    indented", "    words"]


def test_a_table_that_does_not_fit() -> None:
    """Words wrap; then the last column of words goes below its row; numbers are never broken, and nothing is lost."""
    section = TableSection(
        "", ("name", "score", "place"), [("a b", "0.1-0.2", "one/two/three"), ("c", 3, "x")], ("place",)
    )
    assert table_lines(section, 40)[1] == ["a b   0.1-0.2  one/two/three"]
    assert table_lines(section, 24) == [
        ["name    score", "    place"],
        ["a b   0.1-0.2", "    one/two/three"],
        ["c           3", "    x"],
    ]
    words = TableSection("", ("name", "text"), [("a", "several words that wrap")], ("text",))
    assert table_lines(words, 20)[1] == ["a     several words", "      that wrap"]

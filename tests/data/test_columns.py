"""Columns of text, labels, identifiers, dates and addresses are told apart by their cells, where names tell nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from data.zoo.shapes import delimited, news, write
from qkv.data.corpus import ExamplesConfig
from qkv.data.read_examples import read_examples

NEWS = news(0, 100)
LEVELS = ("A1", "A2", "B1")
CODES = [f"iPhone{number}-{'bx'[number % 2]}" for number in range(100)]
TABLES: dict[str, tuple[Sequence[str], list[Sequence[object]], str, str]] = {
    "no header": (
        (),
        [
            (f"a{n:05}", f"2019-01-{n % 28 + 1:02}", f"https://news.example/{n}/a-long-title-{n}", *row)
            for n, row in enumerate(NEWS)
        ],
        "4",
        "5",
    ),
    "unknown names": (
        ("pid", "when", "link", "words", "verdict"),
        [
            (f"x{n:x}f", f"1/2/20{n % 5 + 10} 10:{n % 60:02}", f"www.a.org/{n}-and-more-of-it", *row)
            for n, row in enumerate(NEWS)
        ],
        "words",
        "verdict",
    ),
    "labels with digits": (
        ("answer", "essay", "level"),
        [(f"{n:x}9", text, LEVELS[n % 3]) for n, (text, _) in enumerate(NEWS)],
        "essay",
        "level",
    ),
    "names of products": ((), [(code, label) for code, (_, label) in zip(CODES, NEWS, strict=True)], "1", "2"),
    "addresses of senders": (
        ("from", "subject", "sort"),
        [(f"u{n % 9}@mail.example", text, "ab"[n % 2]) for n, (text, _) in enumerate(NEWS)],
        "subject",
        "sort",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_by_their_cells(name: str, tmp_path: Path) -> None:
    header, rows, text, label = TABLES[name]
    write(tmp_path / "table.csv", delimited([header, *rows] if header else rows))
    found = read_examples(ExamplesConfig(files=(str(tmp_path / "table.csv"),)), purpose="describe")
    assert (found.columns["text"], found.columns["label"]) == (text, label)


def test_other_columns_that_could_be_the_label_are_named(tmp_path: Path) -> None:
    rows = [(text, label, "xyz"[n % 3], n % 3) for n, (text, label) in enumerate(NEWS)]
    write(tmp_path / "table.csv", delimited([("text", "Emotion", "Sentiment", "season"), *rows]))
    found = read_examples(ExamplesConfig(files=(str(tmp_path / "table.csv"),)), purpose="describe")
    assert found.columns["label"] == "Sentiment"
    assert any("'Emotion' could be the label, too: --label Emotion." in note for note in found.notes)

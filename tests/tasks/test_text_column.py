"""The texts of a table that --file names, for models that tag or translate."""

from __future__ import annotations

from pathlib import Path

import pytest

from qkv.data.findings import Findings
from qkv.errors import DataError
from qkv.tasks.text_column import column_texts

ROWS = [
    ("1", "The river is warm today", "The other text is here"),
    ("2", "A cold stone lies there", "It is another one"),
]


def texts(path: Path, *trained: str, given: str | None = None) -> list[str] | None:
    found = column_texts(str(path), Findings(), given, trained)
    return None if found is None else list(found)


def csv(folder: Path, *names: str) -> Path:
    path = folder / "new.csv"
    path.write_text("".join(";".join(row) + "\n" for row in [names, *ROWS]), encoding="utf-8")
    return path


def test_the_column_of_training_is_read(tmp_path: Path) -> None:
    table = csv(tmp_path, "Nr", "Deutsch (DE)", "English (US)")
    assert texts(table, "English (US)") == [row[2] for row in ROWS]
    assert texts(table, "source", "Deutsch (DE)") == [row[1] for row in ROWS]
    assert texts(table, "English (US)", given="Deutsch (DE)") == [row[1] for row in ROWS]
    with pytest.raises(DataError, match="no column 'Spanish'"):
        texts(table, given="Spanish")


def test_without_it_the_column_that_looks_like_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text('{"id": 1, "text": "one river"}\n{"id": 2, "text": null}\n{"id": 3, "text": "a\\nb"}\n')
    assert texts(path) == ["one river", "", "a\nb"]


def test_other_files_have_a_text_in_each_line(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("one\ntwo\n")
    assert texts(tmp_path / "new.txt", "text") is None


def test_a_row_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text('{"text": "one river"}\n{"text": \n')
    with pytest.raises(DataError, match="Every row is answered"):
        texts(path)

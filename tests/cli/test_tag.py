"""`qkv tag`: a word and its tag a line."""

from __future__ import annotations

from pathlib import Path

import pytest

import qkv
from cli.commands import run
from small_tasks import trained, write


def test_a_word_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"kind": "gru", "width": 16}
    trained(write(tmp_path, "tagging"), tmp_path / "run", "tagging", model=said, training={"steps": 6})
    model = str(tmp_path / "run")
    texts = ["The river keeps, and", "Stay"]
    assert run(["tag", model, *texts], False) == 0
    expected = qkv.load(model).tag(texts)
    shown = "\n".join("".join(f"{each.word}\t{each.tag}\n" for each in row) for row in expected) + "\n"
    assert capsys.readouterr().out == shown
    assert run(["tag", model, "river, keeps", "--words"], False) == 0
    assert capsys.readouterr().out.startswith("river,\t")
    assert run(["tag", model, "Stay", "--probabilities"], False) == 0
    word, sure, tag = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (word, tag) == ("Stay", expected[1][0].tag)
    assert float(sure) == pytest.approx(expected[1][0].probability, abs=1e-4)
    table = tmp_path / "new.jsonl"
    table.write_text('{"id": 7, "text": "The river keeps, and"}\n{"id": 8, "text": "Stay"}\n', encoding="utf-8")
    assert run(["tag", model, "--file", str(table)], False) == 0
    assert capsys.readouterr().out == shown

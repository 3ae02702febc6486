"""`qkv classify`: texts in, labels out, in their order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import qkv
from cli.commands import run
from small_tasks import sentences, trained, write

TEXTS = [text for text, _ in sentences(12)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("work")
    said = {"kind": "gru", "width": 16}
    trained(write(folder, "classification"), folder / "run", "classification", model=said, training={"steps": 6})
    return str(folder / "run")


def test_a_line_a_text(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = qkv.load(model).classify(TEXTS)
    assert run(["classify", model, *TEXTS], False) == 0
    typed = capsys.readouterr().out
    rows = [line.split("\t") for line in typed.splitlines()]
    assert [row[0] for row in rows] == [each.label for each in expected]
    assert [row[-1] for row in rows] == TEXTS
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    assert run(["classify", model, "--file", str(tmp_path / "texts.txt")], False) == 0
    assert capsys.readouterr().out == typed


def test_as_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["classify", model, TEXTS[0], "--json"], False) == 0
    found = json.loads(capsys.readouterr().out)["texts"][0]
    assert found["text"] == TEXTS[0]
    assert sum(found["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)


def test_mistakes_exit_with_two(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["classify", model, "a", "--top", "0"], False) == 2
    assert "--top 0: expected at least 1" in capsys.readouterr().err
    assert run(["tag", model, "a"], False) == 2
    assert "`qkv tag` needs a tagger" in capsys.readouterr().err

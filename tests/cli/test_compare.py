"""`qkv compare`: its words, its JSON, its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import run
from studies import tables


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_one_document_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tables.pictures(tmp_path / "halves.npz")
    words = ["compare", path, "--minutes", "0.15", "--models", "cnn", "--picture", "halves.svg", "--json"]
    assert run(words, True) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["system"] for each in found["systems"]} == {"majority", "naive Bayes", "logistic on pixels", "cnn"}
    assert Path("halves.svg").is_file()
    assert Path("runs/compare-halves/compare.json").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no data was given"),
        (["x.csv", "--minutes", "0"], "--minutes 0.0: expected a number above 0"),
        (["x.csv", "--seeds", "0"], "--seeds 0: expected 1 to"),
        (["x.csv", "--picture", "x.gif"], "ends in .svg or .png"),
        (["x.csv", "--modles", "bag"], "--models"),
        (["x.csv"], "x.csv: no such file"),
        (["here.csv", "--from", "nowhere"], "nowhere: no such model"),
    ],
)
def test_refusals_leave_nothing(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("here.csv").write_text("text,label\n" + "".join(f"film {i},{i % 2}\n" for i in range(50)))
    assert run(["compare", *words], False) == 2
    assert said in capsys.readouterr().err
    assert not list(Path().glob("runs/*"))

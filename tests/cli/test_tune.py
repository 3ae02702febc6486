"""`qkv tune`: its words and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import run
from studies import tables

pytest.importorskip("optuna")


def test_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = tables.table(tmp_path / "reviews.csv", 120)
    assert run(["tune", path, "--trials", "1", "--model", "linear", "--json"], True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["finished"] == 1
    assert Path(found["recipe"]) == Path("runs/tune-reviews-linear/best.toml")
    assert run(["tune", path, "--trials", "1", "--model", "linear"], True) == 0
    out = capsys.readouterr().out
    assert "qkv train --recipe runs/tune-reviews-linear/best.toml" in " ".join(out.split()) or "train --recipe" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no data was given"),
        (["x.csv", "--trials", "0"], "--trials 0: expected 1 to"),
        (["x.csv", "--minutes", "-1"], "--minutes -1.0: expected a number above 0"),
        (["x.csv"], "Give --minutes or --trials"),
        (["x.csv", "--trials", "1"], "x.csv: no such file"),
    ],
)
def test_refusals(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", *words], False) == 2
    assert said in capsys.readouterr().err

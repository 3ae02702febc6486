"""`qkv finetune`: from a model and a table to a classifier."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import qkv
from cli.commands import run
from small_tasks import origin, write


def test_a_classifier_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, data = origin(tmp_path / "bert", "bert"), write(tmp_path, "classification")
    words = ["finetune", str(start), str(data), "--steps", "4", "--lora", "2", "--run", str(tmp_path / "run"), "--json"]
    assert run([*words, "--set", "training.threads=1"], False) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["encoder"], found["steps"]) == ("classifier", "bert", 4)
    assert len(qkv.load(tmp_path / "run").classify("The warm river")) == 1
    assert run(["finetune", str(start), "--run", str(tmp_path / "run"), "--resume", "--json"], False) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--freeze", "--lora", "2"], "expected one of them"), (["--lora", "0"], "--lora 0: expected 1 to")],
)
def test_mistakes_exit_with_two(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["finetune", str(tmp_path / "gone"), str(write(tmp_path, "classification")), *more], False) == 2
    assert message in capsys.readouterr().err


def test_metrics_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, data = origin(tmp_path / "bert", "bert"), write(tmp_path, "classification")
    (tmp_path / "share.py").write_text(
        "def share(true, said):\n    return sum(map(str.__eq__, true, said)) / len(true)\n"
    )
    words = ["finetune", str(start), str(data), "--steps", "2", "--run", str(tmp_path / "run"), "--json"]
    assert run([*words, "--metric", str(tmp_path / "share.py"), "--set", "training.threads=1"], False) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["validation"]["share"] == found["validation"]["accuracy"]
    assert run([*words, "--metric", "bleu"], False) == 2
    assert "--metric bleu: does not apply" in capsys.readouterr().err

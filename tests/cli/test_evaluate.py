"""`qkv evaluate` of models that decide, tag and fill gaps; text without labels stays a language model's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import small_pairs
from cli.commands import run
from cli.test_fill import built
from data.bad_examples import FILMS, conll, csv
from data.bad_inputs import prose
from qkv.recipe import bundle
from text.kinds import tokenizer

SMALL = ["--set", "training.threads=1"]


def trained(folder: Path, *words: str) -> str:
    assert run(["train", *words, *SMALL, "--run", str(folder)], True) == 0
    return str(folder)


def scored(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert run(["evaluate", *words, "--json"], True) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_classifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "films.csv", tmp_path / "other.csv"
    path.write_bytes(csv([(n, text, label) for n, (text, label) in enumerate(FILMS)], "number,remark,stars"))
    other.write_bytes(
        csv([(label, text, "a longer remark of somebody else") for text, label in FILMS], "stars,remark,more")
    )
    folder = trained(tmp_path / "run", str(path), "--model", "bag", "--steps", "30", "--text", "remark")
    found = scored(capsys, folder, str(path))
    assert found["examples"] == len(FILMS)
    assert {"accuracy", "macro_f1", "confusion", "calibration", "mistakes", "loss"} <= found.keys()
    assert scored(capsys, folder, str(other))["accuracy"] == found["accuracy"]  # by the columns it learned from
    assert run(["evaluate", folder, str(path)], True) == 0
    assert "columns:" in capsys.readouterr().out
    assert run(["classify", folder, "--file", str(other)], True) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(FILMS)
    (tmp_path / "strange.csv").write_bytes(csv([(text, "xy"[label]) for text, label in FILMS]))
    (tmp_path / "tags.conll").write_bytes(conll())
    (tmp_path / "prose.txt").write_text(prose())
    for name, mention in (
        ("strange.csv", "none of the labels here (x, y) is the model's (0, 1)"),
        ("tags.conll", "words with tags"),
        ("prose.txt", "is text without labels"),
        ("gone.csv", "no such file"),
    ):
        assert run(["evaluate", folder, str(tmp_path / name)], False) == 2
        assert mention in capsys.readouterr().err
    assert run(["evaluate", folder, *small_pairs.write(tmp_path)], False) == 2
    assert "look like a text and its translation, without labels; the model is a classifier" in capsys.readouterr().err
    assert run(["evaluate", folder, str(path), "--documents", "lines"], False) == 2
    assert "is scored on labelled examples" in capsys.readouterr().err


def test_a_tagger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tags.conll"
    path.write_bytes(conll())
    folder = trained(tmp_path / "run", str(path), "--model", "cnn", "--steps", "3", "--set", "model.width=24")
    found = scored(capsys, folder, str(path))
    assert found["metric"] == "span_f1"
    assert "types" in found


def test_a_model_that_fills_gaps(tmp_path: Path, capsys: pytest.CaptureFixture[str], book: str) -> None:
    folder = str(tmp_path / "masked")
    bundle.save(tmp_path / "masked", bundle.Bundle(*built(), tokenizer("wordpiece"), documents=3))
    found = scored(capsys, folder, book)
    assert {"accuracy", "baseline_accuracy", "perplexity", "pseudo_perplexity"} <= found.keys()
    assert run(["evaluate", folder, book], True) == 0
    said = capsys.readouterr()
    assert "masked-token accuracy" in said.out
    assert "the baseline uses the token frequencies of the text that is scored" in said.err
    assert run(["evaluate", folder, book, "--label", "x"], False) == 2
    assert "is scored on plain text" in capsys.readouterr().err

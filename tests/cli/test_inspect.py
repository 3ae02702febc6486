"""`qkv inspect` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import small_pairs
from cli.commands import run
from qkv.models.modern import ModernConfig
from qkv.recipe import bundle
from text.kinds import tokenizer

TEXT = "the river keeps the stone"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = tokenizer("words")
    config = ModernConfig(vocabulary=words.vocabulary, layers=2, heads=2, width=8, context=32)
    torch.manual_seed(0)
    built = config.build()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    bundle.save(folder, bundle.Bundle(built, config, words, documents=1))
    return str(folder)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run(["inspect", *words], True) == 0
    return capsys.readouterr().out


def test_anatomy_and_essentials(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    found = said(capsys, model, TEXT)
    assert "modern, 2 layers, 2 heads, width 8" in found
    assert "5 tokens: the | river | keeps | the | stone" in found
    assert "MultiHeadAttention" in found
    assert "blocks/attention.py:" in found
    assert "temperature 0.8" in found


def test_a_worked_head(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, model, TEXT, "--head", "2.1", "--token", "1")
    assert "layer 2, head 1: query 'river'; scale 0.5000" in found
    assert found.count("masked") == 3
    assert "output of the head:" in found


def test_heads_lens_and_why(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, model, TEXT, "--heads", "--lens", "--why", "--ablate", "1")
    assert "heads, the clearest first" in found
    assert "after each layer" in found
    assert "occlusion" in found


def test_pictures(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg, png = tmp_path / "head.svg", tmp_path / "heads.png"
    capsys.readouterr()
    assert run(["inspect", model, TEXT, "--head", "2.1", "--svg", str(svg)], True) == 0
    assert run(["inspect", model, TEXT, "--png", str(png)], True) == 0
    shown = capsys.readouterr()
    assert "layer 2, head 1" in svg.read_text(encoding="utf-8")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert f"the picture is {svg}" in shown.err
    assert shown.out == ""


def test_json_is_the_pages_document(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(said(capsys, model, TEXT, "--json", "--head", "2.2"))
    assert found["format"] == "qkv-inspect/1"
    assert found["worked"]["layer"] == 2
    assert "why" not in found, "it is asked for by --why"
    assert [each["text"] for each in found["tokens"]] == TEXT.split()


def test_texts_from_a_file(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the river keeps the stone\nnobody knows the river\n")
    found = said(capsys, model, "--heads", "--data", str(lines), "--ablate", "0", "--json")
    assert len(json.loads(found)["heads"]) == 4


def test_a_translator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = small_pairs.write(tmp_path)
    settings = small_pairs.settings("transformer")
    where = str(tmp_path / "run")
    assert run(["train", *files, *settings, "--run", where, "--tokenizer", "words", "--steps", "2"], True) == 0
    found = said(capsys, where, "one two three", "--head", "1.2")
    assert "output:" in found
    made = json.loads(said(capsys, where, "one two three", "--target", "eins zwei", "--json"))
    assert [each["name"] for each in made["attention"]] == ["encoder", "decoder", "cross"]
    assert len(made["tokens"]) == 3
    assert len(made["source_tokens"]) == 4


def test_texts_without_words(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", model, "", "--why"], False) == 2
    shown = capsys.readouterr()
    assert "the text is empty" in shown.err
    assert "no word that the answer could come from" in shown.err
    found = said(capsys, model, "river", "--why")
    assert "river" in found
    assert "inf" not in found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--head", "3.1"], "--head 3.1: expected LAYER.HEAD, counted from 1"),
        (["--head", "x"], "this model has 2 layers of 2 heads"),
        (["--head", "1.1", "--token", "77"], "token 77 of"),
        (["--target", "x"], "does not translate"),
        (["--second", "x"], "reads one text at a time"),
        (["--heads", "--data", "missing.txt"], "missing.txt: cannot be read"),
        (["--heads", "--ablate", "-1"], "--ablate -1: expected"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", model, TEXT, *words], False) == 2
    assert message in capsys.readouterr().err

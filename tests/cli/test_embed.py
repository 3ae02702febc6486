"""`qkv embed`: texts in, vectors out, to the terminal or a file."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import data_at_hand
import qkv
from cli.commands import run
from qkv.models.modern import ModernConfig
from qkv.recipe import bundle
from text.kinds import tokenizer

TEXTS = ["the river keeps", "the stone", "nobody knows the river nobody knows"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = tokenizer("words")
    config = ModernConfig(vocabulary=words.vocabulary, layers=2, heads=2, width=8, context=16)
    torch.manual_seed(0)
    built = config.build()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    bundle.save(folder, bundle.Bundle(built, config, words, documents=1))
    return str(folder)


def vectors(model: str, **options: object) -> torch.Tensor:
    return qkv.load(model).embed(TEXTS, **options)  # type: ignore[call-overload]


def test_a_table_of_cosines(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["embed", model, *TEXTS], False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cosines")
    assert lines[2].split()[-3] == "1.000"
    found = torch.nn.functional.normalize(vectors(model))
    assert lines[2].split()[-2] == f"{found[0] @ found[1]:.3f}"


def test_one_text_has_no_cosine(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["embed", model, TEXTS[0]], False) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["text", "width", "length"]


@pytest.mark.parametrize("layer", ["-1", "0", "1", "-2", "mean", "sum", "concat"])
def test_json_by_layer(model: str, layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["embed", model, *TEXTS, "--layer", layer, "--pool", "max", "--json"], False) == 0
    found = json.loads(capsys.readouterr().out)
    chosen = int(layer) if layer.lstrip("-").isdecimal() else layer
    expected = vectors(model, layer=chosen, pool="max")
    assert found["layer"] == chosen
    assert [row["text"] for row in found["texts"]] == TEXTS
    torch.testing.assert_close(torch.tensor([row["vector"] for row in found["texts"]]), expected)


def test_tokens(model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["embed", model, *TEXTS, "--tokens", "--json"], False) == 0
    rows = json.loads(capsys.readouterr().out)["texts"]
    assert rows[0]["pieces"] == ["the", "river", "keeps"]
    assert np.array(rows[0]["vectors"]).shape == (3, 8)
    assert run(["embed", model, *TEXTS, "--tokens"], False) == 0
    assert "'river'" in capsys.readouterr().out
    assert run(["embed", model, *TEXTS, "--tokens", "--out", str(tmp_path / "all.npy")], False) == 0
    assert np.load(tmp_path / "all.npy").shape == (3 + 2 + 6, 8)


def test_files(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(TEXTS) + "\n")
    expected = vectors(model).numpy()
    for name in ("a.npy", "a.parquet", "a.jsonl"):
        out = tmp_path / name
        assert run(["embed", model, "--file", str(source), "--out", str(out)], False) == 0
        assert f"3 texts -> {out}" in capsys.readouterr().out
        match out.suffix:
            case ".npy":
                found = np.load(out)
            case ".parquet":
                found = np.array(pyarrow.parquet.read_table(out)["vector"].to_pylist(), dtype=np.float32)
            case _:
                found = np.array([json.loads(line)["vector"] for line in out.read_text().splitlines()], np.float32)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.npy", "a.parquet", "texts.txt"]


def test_standard_input(model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\r\n".join(TEXTS).encode())))
    assert run(["embed", model, "-", "--json"], False) == 0
    assert [row["text"] for row in json.loads(capsys.readouterr().out)["texts"]] == TEXTS


def test_what_was_done_is_said(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["embed", model, "the river " * 20, "zyzzyva"], False) == 0
    said = capsys.readouterr().err
    assert "1 of 2 texts are longer than the context of 16 tokens; truncated" in said
    assert "1 tokens of the texts are not in the vocabulary" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no text was given"),
        (["a", "--layer", "7"], "layer 7: this model has 0"),
        (["a", "--layer", "top"], "--layer top: expected a number"),
        (["a", "--out", "x.csv"], "expected a name that ends in .npy, .parquet, .jsonl"),
        (["a", "--out", "nowhere/x.npy"], "there is no folder nowhere"),
        (["a", "--file", "b.txt"], "were given; expected one of them"),
        (["--file", "absent.txt"], "absent.txt: cannot be read"),
        (["a", "--pool", "median"], "pool"),
        (["a", "--lyaer", "1"], "did you mean --layer"),
    ],
)
def test_mistakes_exit_with_two(
    model: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["embed", model, *words], False) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_minilm(capsys: pytest.CaptureFixture[str]) -> None:
    """A Hugging Face folder as it is; the published cosines."""
    texts = ["That is a happy person", "That is a very happy person", "That is a happy dog", "Today is a sunny day"]
    assert run(["embed", str(data_at_hand.minilm()), *texts], False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[-4:] == ["1.000", "0.943", "0.695", "0.257"]
    assert run(["embed", str(data_at_hand.minilm()), "river bank", "--tokens", "--layer", "2", "--json"], False) == 0
    found = json.loads(capsys.readouterr().out)["texts"][0]
    assert found["pieces"] == ["[CLS]", "river", "bank", "[SEP]"]
    assert found["tokens"] == [101, 2314, 2924, 102]


def test_the_nearest_texts_of_a_file(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "many.txt"
    source.write_text("\n".join([*TEXTS, "nobody knows the stone", ""]) + "\n")
    assert run(["embed", model, TEXTS[1], "--among", str(source), "--top", "2", "--json"], False) == 0
    near = json.loads(capsys.readouterr().out)["texts"][0]["near"]
    assert near[0]["text"] == TEXTS[1]
    assert near[0]["cosine"] == pytest.approx(1.0, abs=1e-6)
    assert len(near) == 2
    assert near[1]["cosine"] < 1
    assert run(["embed", model, TEXTS[1], "--among", str(source)], False) == 0
    assert "Nearest to 'the stone'" in capsys.readouterr().out


def test_one_word_in_two_texts(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["embed", model, "--word", "river", TEXTS[0], TEXTS[2], "--json"], False) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert len(layers) == 3
    assert layers[0][0][1] == pytest.approx(1.0, abs=1e-5)  # no context yet, and no positions in the vectors
    assert layers[2][0][1] < 0.999
    assert run(["embed", model, "--word", "bank"], False) == 0  # the lectures' own
    assert "1 and 2" in capsys.readouterr().out


def test_a_probe_of_every_layer(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + "".join(f"the {'river' if i % 2 else 'stone'} {i},{i % 2}\n" for i in range(80)))
    picture = tmp_path / "layers.svg"
    assert run(["embed", model, "--probe", str(path), "--picture", str(picture), "--json"], False) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["layer"] for each in found["layers"]] == [0, 1, 2]
    assert found["layers"][0]["value"] > 0.9
    assert picture.read_text().startswith("<svg")
    assert run(["embed", model, "--probe", str(path)], False) == 0
    assert "Best: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--among", "a.txt", "--word", "river"], "--among a.txt: does not apply, because --word"),
        (["--picture", "a.svg"], "only --probe DATA uses it"),
        (["the stone", "--among", "missing.txt"], "missing.txt: cannot be read"),
        (["--word", "river", "the river"], "at least two texts"),
        (["--word", "river", "the stone", "the river"], "does not occur in 'the stone'"),
        (["--probe", "missing.csv"], "no such file"),
        (["--top", "0", "x"], "--top 0"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: str, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["embed", model, *words], False) == 2
    assert said in capsys.readouterr().err

"""`qkv tokenize`, as a user calls it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cli.commands import run
from data.bad_inputs import prose
from qkv.text.tokenizer import Tokenizer


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(["tokenize", *words, "--json"], False) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "wordpiece"])
def test_train_save_use(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path, kind: str) -> None:
    saved = tmp_path / "tokenizer.json"
    learned = answer(capsys, "--train", book, "--kind", kind, "--save", str(saved))
    assert learned["tokenizer"]["saved"] == str(saved)
    cut = answer(capsys, "The river 7.", "--tokenizer", str(saved))
    assert cut["tokenizer"]["kind"] == kind
    assert cut["tokenizer"]["fingerprint"] == learned["tokenizer"]["fingerprint"]
    assert len(cut["text"]["ids"]) == len(cut["text"]["pieces"]) == cut["text"]["tokens"]
    assert cut["text"]["decoded"] == "The river 7."
    counted = answer(capsys, "--file", book, "--tokenizer", str(saved))["file"]
    assert counted["characters"] == len(prose())
    assert counted["tokens"] == len(Tokenizer.load(saved).encode(prose()))


def test_a_model_folder_is_a_tokenizer(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path) -> None:
    for inside in ("run/best", "model"):
        (tmp_path / inside).mkdir(parents=True)
        answer(capsys, "--train", book, "--kind", "bpe", "--size", "300", "--save", str(tmp_path / inside))
    for name in ("run", "run/best", "model"):
        assert answer(capsys, "The stone", "--tokenizer", str(tmp_path / name))["tokenizer"]["vocabulary"] == 300


def test_strangers_are_named(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "tokenizer.json")
    answer(capsys, "--train", book, "--kind", "characters", "--save", saved)
    assert run(["tokenize", "The ✈", "--tokenizer", saved], False) == 0
    shown = capsys.readouterr()
    assert "'✈'" in shown.err
    assert "<|unk|>" in shown.out


def test_a_kind_alone_learns_from_the_text(capsys: pytest.CaptureFixture[str], book: str) -> None:
    assert answer(capsys, "banana", "--tokenizer", "characters")["text"]["pieces"] == list("banana")
    assert answer(capsys, "a dog. A cat.", "--kind", "words")["text"]["pieces"] == ["a", "dog", ".", "A", "cat", "."]
    assert answer(capsys, "--file", book, "--tokenizer", "characters")["file"]["characters"] == len(prose())


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("one\r\ntwo é".encode())))
    assert answer(capsys, "-", "--kind", "characters")["text"]["decoded"] == "one\ntwo é"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\n" * 2000 + bytes(8000))))
    assert run(["tokenize", "-", "--kind", "characters"], False) == 2
    assert "standard input:2001:8000" in capsys.readouterr().err


def test_a_saved_file_is_not_replaced(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("precious")
    assert run(["tokenize", "--train", book, "--save", str(path)], False) == 2
    assert path.read_text() == "precious"
    assert "--force" in capsys.readouterr().err
    assert run(["tokenize", "--train", book, "--save", str(path), "--force"], False) == 0
    Tokenizer.load(path)


@pytest.mark.parametrize(
    ("words", "code", "mention"),
    [
        ([], 2, "nothing to do"),
        (["a", "--tokenizer", "gone.json"], 2, "no tokenizer here"),
        (["a", "--kind", "bpe", "--tokenizer", "words"], 2, "give one of them"),
        (["a", "--kind", "letters"], 2, "letters"),
        (["a", "--kind", "bpe", "--size", "10"], 2, "at least 257"),
        (["--train", "gone.txt"], 2, "no such file"),
        (["a", "--tokneizer", "words"], 2, "--tokneizer"),
        (["a\udcff", "--kind", "characters"], 2, "not valid UTF-8"),
        (["--file", "gone.txt", "--kind", "words"], 2, "no such file"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], words: list[str], code: int, mention: str) -> None:
    assert run(["tokenize", *words], False) == code
    assert mention in capsys.readouterr().err


def test_a_damaged_tokenizer_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"type": "BPE"}}')
    assert run(["tokenize", "a", "--tokenizer", str(path)], False) == 5
    assert "tokenizer.json: version" in capsys.readouterr().err

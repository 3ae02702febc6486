"""`qkv data`, as a user calls it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cli.commands import run
from data.bad_inputs import prose
from data_at_hand import folder, real
from qkv.recipe.resolve import context_for


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run([*words, "--json"], False) == 0
    return json.loads(capsys.readouterr().out)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "list"], False) == 0
    assert "tinyshakespeare" in capsys.readouterr().out
    sets = answer(capsys, "data", "list")["sets"]
    assert all({"name", "what", "task", "terms", "source", "train", "at_hand", "bytes"} <= each.keys() for each in sets)


def test_get(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real("names/names.txt")
    monkeypatch.setenv("QKV_DATA", str(folder()))
    assert run(["data", "get", "names"], False) == 0
    shown = capsys.readouterr()
    assert shown.out.strip().endswith("names.txt")
    assert "MIT" in shown.err
    assert answer(capsys, "data", "get", "python-docs")["built_in"]
    assert run(["data", "get", "nmaes"], False) == 2
    assert "Did you mean 'names'" in capsys.readouterr().err


def test_describe(capsys: pytest.CaptureFixture[str], book: str) -> None:
    found = answer(capsys, "data", "describe", book)
    text = Path(book).read_text()
    assert found["characters"] == len(text)
    assert found["lines"] == text.count("\n")
    assert found["words"] == len(text.split())
    assert found["longest_line"] == max(map(len, text.split("\n")))
    assert found["tokenizer"]["kind"] == "characters"
    assert found["beginning"] == text[:400]
    assert "validation_characters" not in found
    assert answer(capsys, "data", "describe", book, "--valid", book)["validation_characters"] == len(text)
    assert run(["data", "describe", book], False) == 0
    shown = capsys.readouterr().out
    assert found["plan"]["sentence"] in shown
    assert "5 examples as the model gets them" in shown
    assert all(example["text"] in text for example in found["plan"]["examples"])


def test_kinds_of_files_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.jsonl"):
        line = "the river runs by the old mill"
        (tmp_path / name).write_text(f"{line}\n" * 9 if name.endswith("txt") else f'{{"text": "{line}"}}\n' * 9)
    assert answer(capsys, "data", "describe", str(tmp_path / "a.txt"))["kind"] == "text"
    assert answer(capsys, "data", "describe", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))["kind"] == (
        "text (2 files)"
    )
    found = answer(capsys, "data", "describe", *(str(tmp_path / name) for name in ("a.txt", "b.txt", "c.jsonl")))
    assert found["kind"] == "text (2 files), jsonl (c.jsonl)"


def test_an_empty_document_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the river runs by the old mill\n" * 9)
    (tmp_path / "blank.txt").write_text(" \n\n")
    notes = answer(capsys, "data", "describe", str(tmp_path))["notes"]
    assert any(note.endswith("1 empty document was left out: " + str(tmp_path / "blank.txt") + ".") for note in notes)


def test_describe_parallel_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As `qkv train` reads it: a table of two texts is for translation."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"the river number {n} is here\tder Fluss Nummer {n} ist da\n" for n in range(40)))
    found = answer(capsys, "data", "describe", str(path))
    assert found["task"] == "translation"
    assert found["splits"] == {"train": 40}
    assert found["beginning"][0] == {"source": "the river number 0 is here", "target": "der Fluss Nummer 0 ist da"}
    assert run(["data", "describe", str(path)], False) == 0
    shown = capsys.readouterr()
    assert "column 1 to column 2" in shown.out
    assert "for both sides; choose another" in shown.err
    assert "languages" not in shown.err
    assert run(["data", "describe", str(path), "--text", "1"], False) == 2
    assert "--text 1" in capsys.readouterr().err


def test_questions_and_answers_are_no_two_languages(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"question": f"How much is {n} and 7?", "answer": f"{n} and 7 are {n + 7}."} for n in range(60)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["data", "describe", str(tmp_path / "sums.jsonl")], False) == 0
    shown = capsys.readouterr()
    assert "translation: question to answer" in shown.out
    assert "for both sides; choose another" in shown.err


def test_describe_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one two\r\nthree\n")))
    found = answer(capsys, "data", "describe", "-")
    assert found["words"] == 3
    assert any("CRLF" in note for note in found["notes"])


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("hello \x1b[31mred\x07\n" * 10)
    assert run(["data", "describe", str(path)], False) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_check_says_what_it_finds(capsys: pytest.CaptureFixture[str], book: str) -> None:
    found = answer(capsys, "data", "check", book, "--context", "32")
    assert found["problems"] == []
    assert found["train"]["tokens"] > found["valid"]["tokens"] > 0
    assert run(["data", "check", book, "--context", "32"], False) == 0
    assert "ready to train" in capsys.readouterr().out


def test_check_refuses(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path) -> None:
    assert run(["data", "check", book, "--context", "100000"], False) == 2
    assert "needs at least 100,001 tokens" in capsys.readouterr().err
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"caf\xe9\n" * 200)
    assert run(["data", "check", str(bad), "--encoding", "utf-8", "--json"], False) == 2
    shown = capsys.readouterr()
    assert "bad.txt:1:3" in json.loads(shown.out)["problems"][0]
    assert "bad.txt:1:3" in shown.err


def test_check_chooses_the_context_as_training_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text(prose()[:400])
    found = answer(capsys, "data", "check", str(page))
    assert found["context"] == context_for(found["train"]["tokens"]) < 128
    assert run(["data", "check", str(page), "--context", "5000"], False) == 2
    said = capsys.readouterr().err
    assert "smaller --context" in said
    assert "--set" not in said


def test_check_goes_on_after_a_bad_file(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    for number in range(3):
        (bad / f"{number}.txt").write_bytes(b"caf\xe9\n" * 200)
    (bad / "odd.txt").write_text("a private \ue000 character\n")
    assert (
        run(
            ["data", "check", str(bad), book, "gone.txt", "--valid", "lost.txt", "--encoding", "utf-8", "--json"], False
        )
        == 2
    )
    found = json.loads(capsys.readouterr().out)
    for name in ("0.txt:1:3", "1.txt:1:3", "2.txt:1:3", "gone.txt", "lost.txt"):
        assert sum(name in problem for problem in found["problems"]) == 1, name
    assert any("private-use" in warning for warning in found["warnings"])
    for number in range(30):
        (bad / f"{number}.txt").write_bytes(b"caf\xe9\n" * 200)
    assert run(["data", "check", str(bad), "--encoding", "utf-8"], False) == 2
    said = capsys.readouterr().err
    assert said.count("the byte e9") == 20
    assert "and 10 more problems" in said


def test_check_with_several_validation_texts(capsys: pytest.CaptureFixture[str], book: str, tmp_path: Path) -> None:
    texts = [tmp_path / name for name in ("first.txt", "second.txt")]
    for path in texts:
        path.write_text(f"{path.name} is a text of its own.\n" * 20)
    found = answer(capsys, "data", "check", book, "--valid", str(texts[0]), "--valid", str(texts[1]))
    assert found["valid"]["documents"] == 2


def test_check_of_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((prose() + "\ue000").encode())))
    assert any("private-use" in warning for warning in answer(capsys, "data", "check", "-")["warnings"])


def test_check_with_a_validation_text(capsys: pytest.CaptureFixture[str], book: str) -> None:
    found = answer(capsys, "data", "check", book, "--valid", book, "--context", "32", "--documents", "lines")
    assert any("overlap: 100" in warning for warning in found["warnings"])


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["describe"], "no data was given"),
        (["check", "--contxt", "3"], "--contxt"),
        (["check", "gone.txt"], "no such file"),
        (["check", "python-docs", "--context", "0"], "expected 1 to"),
        (["check", "python-docs", "--tokenizer", "gone.json"], "no tokenizer here"),
        (["describe", "python-doc"], "python-docs"),
        (["describe", "python-docs", "--encoding", "utf-9"], "is not known"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], words: list[str], mention: str) -> None:
    assert run(["data", *words], False) == 2
    assert mention in capsys.readouterr().err

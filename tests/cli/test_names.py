"""Names and texts that the system or UTF-8 does not take: refused with exit code 2, and before anything is done."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from cli.commands import run
from data.bad_inputs import prose
from interop import tiny_folder
from qkv.cli.app import VERBS
from qkv.errors import InputError
from qkv.training.run_folder import create_run_folder

NOT_UTF8 = os.fsdecode(b"a\xff\xfeb")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_folder.write(tmp_path_factory.mktemp("model") / "llama"))


@pytest.mark.parametrize("verb", VERBS)
def test_text_that_is_not_utf8(verb: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, model, "a\0b"], False) == 2
    assert "zero byte" in capsys.readouterr().err
    for words in ([verb, model, NOT_UTF8], [verb, model, f"--text={NOT_UTF8}"], [verb, NOT_UTF8]):
        assert run(words, False) == 2, words
        said = capsys.readouterr().err
        assert "not valid UTF-8" in said
        assert r"\udcff" in said


def test_piped_text_that_is_not_utf8(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What somebody types in a chat is UTF-8; text that is piped in is read in its own encoding, with a note."""
    for words in (["chat", model], ["generate", model, "-"], ["embed", model, "-"], ["tokenize", "-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a caf\xe9\n"), encoding="utf-8"))
        assert run(words, False) == (2 if words[0] == "chat" else 0), words
        shown = capsys.readouterr()
        assert "UTF-8" in shown.err
        assert words[0] != "generate" or "café" in shown.out


@pytest.mark.parametrize("kind", ["deep", "long", "link", "process", "zero", "bytes"])
def test_run_folders_that_cannot_be(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text(prose())
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    names = {
        "long": tmp_path / ("x" * 300),
        "deep": tmp_path / "/".join(["y" * 200] * 30),
        "link": tmp_path / "link",
        "process": Path("/proc/x"),
        "zero": tmp_path / "a\0b",
        "bytes": tmp_path / NOT_UTF8,
    }
    words = ["train", str(tmp_path / "book.txt"), "--steps", "1", "--run", str(names[kind])]
    assert run(words, False) == 2
    said = capsys.readouterr().err
    assert {"bytes": "UTF-8", "zero": "zero byte"}.get(kind, "Choose another --run") in said
    with pytest.raises(InputError, match="Choose another --run"):
        create_run_folder(names[kind], numbered=False)


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_data_of_a_name_that_is_not_utf8(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / f"{NOT_UTF8}.{ending}")
    rows = {"csv": "text,label\n" + "a,b\nc,d\n" * 50, "jsonl": '{"text": "one two"}\n' * 50}
    Path(path).write_text(rows.get(ending, prose()))
    assert run(["train", path, "--steps", "1", "--run", str(tmp_path / "run")], False) == 2
    said = capsys.readouterr().err
    assert "is not UTF-8" in said
    assert "Rename" in said


def test_resume_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "book.txt").write_text(prose())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    quick = ["--set", "model.width=16", "--set", "model.layers=1", "--set", "training.threads=1"]
    assert run(["train", "book.txt", "--model", "gru", "--steps", "1", "--run", "run", *quick], True) == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    assert run(["train", "--run", "../run", "--resume"], False) == 2
    said = capsys.readouterr().err
    assert said.startswith("qkv: book.txt: no such file. The run was started with this relative path")
    assert f"exists relative to {tmp_path}" in said
    monkeypatch.chdir(tmp_path)
    assert run(["train", "--run", "run", "--resume"], True) == 0


WRITES = {
    "inspect html": ["inspect", "MODEL", "ab", "--html", "PLACE.html"],
    "inspect svg": ["inspect", "MODEL", "ab", "--svg", "PLACE.svg"],
    "inspect png": ["inspect", "MODEL", "ab", "--png", "PLACE.png"],
    "embed": ["embed", "MODEL", "ab", "--out", "PLACE.npy"],
    "tokenize": ["tokenize", "--train", "BOOK", "--kind", "characters", "--save", "PLACE.json"],
    "clean": ["data", "clean", "BOOK", "--out", "PLACE.jsonl"],
    "export": ["export", "MODEL", "PLACE"],
    "import": ["import", "MODEL", "--to", "PLACE"],
}


@pytest.mark.parametrize("verb", WRITES)
def test_places_that_cannot_be_written_to(
    verb: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is too long, a folder that is a file, one that is not there: never a fault."""
    (tmp_path / "book.txt").write_text(prose())
    for place in ("é" * 200, "x" * 300, "book.txt/x", "nowhere/[red]x[/red]"):
        named = {"MODEL": model, "BOOK": str(tmp_path / "book.txt")}
        words = [named.get(word, word.replace("PLACE", f"{tmp_path}/{place}")) for word in WRITES[verb]]
        code, said = run(words, False), capsys.readouterr().err
        made = place.startswith("nowhere") and verb in ("export", "import")  # which make the folders above theirs
        assert code == (0 if made else 2), (place, said)
        assert made or "bug in qkv" not in said

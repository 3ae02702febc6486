"""`qkv data clean`, as a user calls it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.commands import run
from data.rubbish import good, planted
from qkv.data.clean.filters import Limits


@pytest.fixture
def crawl(tmp_path: Path) -> str:
    """Ten good documents, two copies and four pieces of rubbish."""
    rubbish = [planted()[kind][0][0] for kind in ("html", "base64", "home row", "terminal")]
    texts = [*good()[:5], *rubbish, *good()[:2], *good()[5:10]]
    path = tmp_path / "crawl.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def clean(*words: object) -> int:
    return run(["data", "clean", *map(str, words)], False)


def test_a_crawl_becomes_a_corpus(capsys: pytest.CaptureFixture[str], crawl: str, tmp_path: Path) -> None:
    out, dropped, report = tmp_path / "corpus.jsonl", tmp_path / "dropped.jsonl", tmp_path / "report.json"
    assert clean(crawl, "--out", out, "--keep-dropped", dropped, "--report", report) == 0
    shown = capsys.readouterr()
    assert [row["text"] for row in rows(out)] == good()[:10]
    assert [row["filter"] for row in rows(dropped)] == ["markup", "long-words", "noise", "broken", "copy", "copy"]
    assert "kept 10 of 16 documents" in shown.out
    assert "markup: <div" in shown.out
    assert f"wrote {out}." in shown.out
    assert "\x1b[31m" not in shown.out + shown.err
    found = json.loads(report.read_text())
    assert (found["documents"], found["kept_documents"], found["out"]) == (16, 10, str(out))
    assert [each["name"] for each in found["filters"]][-2:] == ["copy", "near-copy"]
    assert sum(each["dropped_documents"] for each in found["filters"]) == 6
    assert "the text was taken from 'text'" in shown.err
    names = ["corpus.jsonl", "crawl.jsonl", "dropped.jsonl", "report.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_json(capsys: pytest.CaptureFixture[str], crawl: str, tmp_path: Path) -> None:
    out = tmp_path / "corpus.txt.gz"
    assert clean(crawl, "--out", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kept_documents"] == 10
    assert found["read_with_documents"] == "paragraphs"
    markup = next(each for each in found["filters"] if each["name"] == "markup")
    assert markup["limit"] == Limits().max_markup
    assert (markup["documents"], markup["dropped_documents"], len(markup["examples"])) == (13, 1, 1)
    assert markup["share"] == 1 / 13
    assert run(["data", "describe", str(out), "--documents", "paragraphs", "--json"], False) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 10


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str], crawl: str, tmp_path: Path) -> None:
    assert clean(crawl, "--dry-run", "--out", tmp_path / "corpus.jsonl") == 0
    assert "kept 10 of 16" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.jsonl"]


def test_limits_and_filters_are_the_users(capsys: pytest.CaptureFixture[str], crawl: str) -> None:
    assert clean(crawl, "--dry-run", "--json", "--min-words", "85", "--skip", "markup", "--skip", "copy") == 0
    found = json.loads(capsys.readouterr().out)
    long = [text for text in good()[:10] if len(text.split()) >= 85]
    assert found["kept_documents"] <= len(long) + 2
    lost = {each["name"]: each["dropped_documents"] for each in found["filters"]}
    assert "markup" not in lost
    assert lost["too-short"] >= 10 - len(long)


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str], crawl: str, tmp_path: Path) -> None:
    out = tmp_path / "corpus.jsonl"
    out.write_text("mine")
    assert clean(crawl, "--out", out) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert clean(crawl, "--out", out, "--force") == 0
    assert len(rows(out)) == 10


def test_nothing_left(capsys: pytest.CaptureFixture[str], crawl: str, tmp_path: Path) -> None:
    out = tmp_path / "corpus.jsonl"
    assert clean(crawl, "--out", out, "--min-words", "5000") == 2
    said = capsys.readouterr().err
    assert "nothing is left of 16 documents: too-short dropped" in said
    assert "--skip too-short" in said
    assert not out.exists()
    book = tmp_path / "book.txt"
    book.write_text("one word " * 100)
    assert clean(book, "--out", out, "--json") == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["out"] is None
    assert "--documents paragraphs" in shown.err


def test_one_document_is_said(capsys: pytest.CaptureFixture[str], book: str) -> None:
    assert clean(book, "--dry-run") == 0
    assert "one document, kept or dropped in full; --documents paragraphs" in capsys.readouterr().err


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "\n\n".join(good()[:4])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    out = tmp_path / "corpus.txt"
    assert clean("-", "--documents", "paragraphs", "--out", out) == 0
    assert out.read_text() == text + "\n"
    assert "read it with --documents paragraphs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["CRAWL"], "--out corpus.jsonl"),
        (["--dry-run"], "no data was given"),
        (["CRAWL", "--out", "corpus.csv"], ".jsonl.gz"),
        (["CRAWL", "--out", "gone/corpus.txt"], "the folder gone does not exist"),
        (["CRAWL", "--out", "a.jsonl", "--keep-dropped", "a.jsonl"], "named twice"),
        (["CRAWL", "--out", "a.jsonl", "--keep-dropped", "a.txt"], "a.txt: cannot be written"),
        (["CRAWL", "--out", "CRAWL", "--force"], "is one of the files that are read"),
        (["CRAWL", "--dry-run", "--report", "a.json"], "--dry-run writes nothing"),
        (["CRAWL", "--dry-run", "--min-word", "3"], "did you mean --min-words?"),
        (["CRAWL", "--dry-run", "--skipp", "copy"], "did you mean --skip?"),
        (["CRAWL", "--dry-run", "--skip", "copies"], "copies"),
        (["CRAWL", "--dry-run", "--min-words", "x"], "expected a whole number"),
        (["CRAWL", "--dry-run", "--similarity", "0.1"], "0.7 to 1"),
        (["gone.txt", "--dry-run"], "no such file"),
    ],
)
def test_usage(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    crawl: str,
    tmp_path: Path,
    words: list[str],
    mention: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert clean(*(crawl if word == "CRAWL" else word for word in words)) == 2
    assert mention in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.jsonl"]


def started(tmp_path: Path, size: int) -> tuple[subprocess.Popen[str], Path]:
    """The command at work on a large text, its output begun."""
    source, folder = tmp_path / "large.txt", tmp_path / "out"
    folder.mkdir(exist_ok=True)
    line = " ".join(good()[0].split())
    source.write_text("".join(f"{number} {line}\n" for number in range(size)))
    words = [sys.executable, "-m", "qkv", "data", "clean", source, "--documents", "lines", "--out", folder / "c.txt"]
    process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while process.poll() is None and not list(folder.iterdir()):
        time.sleep(0.005)
    return process, folder


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals here")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_signal_leaves_nothing_under_the_name(tmp_path: Path, name: str) -> None:
    for attempt in range(4):
        place = tmp_path / str(attempt)
        place.mkdir()
        process, folder = started(place, 4000 * 4**attempt)
        process.send_signal(getattr(signal, name))
        _, said = process.communicate(timeout=1800)
        if process.returncode:
            break
    assert not (folder / "c.txt").exists()
    if name == "SIGTERM":
        assert process.returncode == 143
        assert "nothing was left half-written" in said
        assert list(folder.iterdir()) == []


def test_a_full_disk(crawl: str, tmp_path: Path) -> None:
    """A file that may not grow: exit code 4, and nothing is left."""
    resource = pytest.importorskip("resource")
    words = [sys.executable, "-m", "qkv", "data", "clean", crawl, "--out", str(tmp_path / "corpus.jsonl")]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limited, env=environment, timeout=1800)
    assert done.returncode == 4, done.stderr
    assert "corpus.jsonl: File too large" in done.stderr
    assert "bytes are free" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.jsonl"]


def test_what_killed_commands_left_is_swept(crawl: str, tmp_path: Path) -> None:
    old, new = (tmp_path / f".corpus.jsonl.{number}.partial" for number in (1, 2))
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (0, 0))
    assert clean(crawl, "--out", tmp_path / "corpus.jsonl") == 0
    assert not old.exists()
    assert new.exists()

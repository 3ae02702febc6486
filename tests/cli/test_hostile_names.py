"""Every verb with labels, tags, columns, names and texts that would steer a terminal or forge rows of its output."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import small_pairs
from cli import hostile_names
from cli.commands import run
from cli.hostile_names import FORGES, QUICK, STEERS
from qkv.cli.app import VERBS

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
WRITES = ("generate", "chat", "translate", "fill")  # what the model wrote goes to a pipe as it is
LABEL = ("--label", "label")
SILENT = ("chat", "translate", "verify")  # show nothing of their input
Models = dict[str, str]
Commands = Callable[[Models, Path], list[list[str]]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return hostile_names.models(tmp_path_factory.mktemp("hostile"))


def to(folder: Path) -> str:
    return str(folder / FORGES.replace("/", ""))


COMMANDS: dict[str, Commands] = {
    "train": lambda m, f: [
        ["train", hostile_names.labelled(f), *LABEL, "--model", "gru", "--run", to(f), *QUICK],
        ["train", hostile_names.text(f), "--model", "gru", "--run", f"{to(f)}text", *QUICK],
    ],
    "finetune": lambda m, f: [
        ["finetune", m["language"], hostile_names.text(f), "--run", to(f), *QUICK[:4]],
    ],
    "generate": lambda m, f: [
        ["generate", m["language"], FORGES, "--length", "3"],
        ["generate", m["language"], FORGES, "--length", "3", "--samples", "2"],
        ["generate", m["language"], FORGES, "--next", "3"],
    ],
    "chat": lambda m, f: [["chat", m["language"], FORGES, "--length", "3"]],
    "evaluate": lambda m, f: [
        ["evaluate", m["classifier"], hostile_names.labelled(f), *LABEL],
        ["evaluate", m["language"], hostile_names.text(f)],
    ],
    "compare": lambda m, f: [
        [
            "compare",
            hostile_names.labelled(f),
            "--label",
            "label",
            "--models",
            "linear",
            "--minutes",
            "0.3",
            "--run",
            to(f),
        ],
    ],
    "tune": lambda m, f: [
        [
            "tune",
            hostile_names.labelled(f),
            "--label",
            "label",
            "--trials",
            "1",
            "--each",
            "0.01",
            "--model",
            "linear",
            "--run",
            to(f),
        ],
    ],
    "embed": lambda m, f: [
        ["embed", m["language"], FORGES, STEERS],
        ["embed", m["language"], FORGES, "--tokens"],
        ["embed", m["language"], FORGES, "--out", f"{to(f)}.jsonl"],
    ],
    "classify": lambda m, f: [["classify", m["classifier"], FORGES, STEERS]],
    "tag": lambda m, f: [["tag", m["tagger"], FORGES, f"a {STEERS} b"]],
    "translate": lambda m, f: [
        ["translate", m["translator"], FORGES, STEERS, "--beams", "2"],
        ["translate", m["translator"], FORGES, "--nbest", "2", "--beams", "2", "--alignments"],
    ],
    "fill": lambda m, f: [["fill", m["masked"], f"the [MASK] {FORGES}"]],
    "inspect": lambda m, f: [
        ["inspect", m["language"], FORGES, "--lens", "--why", "--heads", "--head", "1.1"],
        ["inspect", m["classifier"], FORGES, "--why"],
    ],
    "import": lambda m, f: [["import", m["language"], "--to", to(f)]],
    "export": lambda m, f: [["export", m["language"], to(f)]],
    "verify": lambda m, f: [["verify", m["language"]]],
    "tokenize": lambda m, f: [
        ["tokenize", FORGES, "--tokenizer", m["language"]],
        ["tokenize", "--train", hostile_names.text(f), "--kind", "characters", "--save", f"{to(f)}.json"],
    ],
    "data": lambda m, f: [
        ["data", "list"],
        ["data", "describe", hostile_names.text(f)],
        ["data", "describe", hostile_names.labelled(f), *LABEL],
        ["data", "check", hostile_names.text(f)],
        ["data", "clean", hostile_names.text(f), "--out", f"{to(f)}.txt", "--documents", "lines"],
    ],
}


def test_every_verb_is_tried() -> None:
    assert set(COMMANDS) == set(VERBS)


@pytest.mark.parametrize(("verb", "place"), [*((verb, "terminal") for verb in VERBS), ("train", "pipe")])
def test_nothing_steers(
    verb: str,
    place: str,
    models: Models,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if place == "terminal":
        monkeypatch.setenv("TERM", "dumb")  # without colours of our own: what is left was in the input
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)
    escaped = False
    for words in COMMANDS[verb](models, tmp_path):
        assert run(words, True) == 0, words
        shown = capsys.readouterr()
        assert not STEERING.findall(shown.err), (words, shown.err)
        if place == "terminal" or verb not in WRITES:
            assert not STEERING.findall(shown.out), (words, shown.out)
        escaped |= r"\x1b" in shown.out + shown.err
    assert escaped or verb in SILENT


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_steers_in_json(
    verb: str, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document is ASCII where it must be, and holds the values as they are."""
    monkeypatch.chdir(tmp_path)
    if verb in ("train", "finetune", "compare", "tune"):  # the same writer; nothing of theirs needs another training
        pytest.skip("written as all other documents are")
    for words in COMMANDS[verb](models, tmp_path):
        assert run([*words, "--json"], True) == 0, words
        shown = capsys.readouterr()
        assert not STEERING.findall(shown.out + shown.err), words
        json.loads(shown.out)


def test_rows_are_not_forged(models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a text or a word, and its cells; the label is in its cell, escaped."""
    assert run(["classify", models["classifier"], "one", FORGES, "three", "--top", "2"], True) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [len(row) for row in rows] == [5, 5, 5]
    assert {r"\x1b]0;PWNED" in row[0] and r"\nfake\t0.99\tline" in row[0] for row in rows} == {True}
    assert run(["tag", models["tagger"], "one two three", "four", "--probabilities"], True) == 0
    lines = capsys.readouterr().out.split("\n")
    assert [len(line.split("\t")) for line in lines] == [3, 3, 3, 1, 3, 1, 1]
    assert run(["translate", models["translator"], "one", "two", "--nbest", "2", "--beams", "2"], True) == 0
    assert [len(line.split("\t")) for line in capsys.readouterr().out.split("\n")[:-1]] == [2, 2, 2, 2]
    assert run(["classify", models["classifier"], FORGES, "--json"], True) == 0
    found = json.loads(capsys.readouterr().out)["texts"][0]
    assert found["text"] == FORGES
    assert all(label.endswith(FORGES) for label in found["probabilities"])


def test_a_pipe_gets_what_was_written(models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", models["language"], FORGES, "--length", "2"], True) == 0
    assert capsys.readouterr().out.startswith(FORGES)


def test_cards_are_not_steered(models: Models, tmp_path: Path) -> None:
    card = (Path(models["classifier"]) / "card.md").read_text()
    assert not STEERING.findall(card)
    assert card.count("PWNED") >= 3
    assert not [line for line in card.splitlines() if line.startswith("fake")]
    files = small_pairs.write(tmp_path, STEERS.replace("/", ""), 60)
    words = [*files, *small_pairs.settings("rnn-translator"), "--languages", "en", "de", "--steps", "2"]
    assert run(["train", *words, "--run", str(tmp_path / "run")], True) == 0
    assert not STEERING.findall((tmp_path / "run" / "card.md").read_text())

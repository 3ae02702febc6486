"""Output that cannot be written: exit 4 where it is the answer, no matter where it is not, and a model is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import small_pairs
import small_tasks
from cli.verbs import every_verb
from data.bad_inputs import prose
from interop import tiny_folder
from qkv.storage import verify_files
from reliability.nursery import SOURCE, Done, Nursery

GPT = ["--model", "gpt", "--tokenizer", "characters", "--steps", "3"]
SHAPE = ["model.layers=1", "model.heads=2", "model.width=16", "model.context=16", "training.batch=2"]
# an answer of every verb; {data} holds what the fixture below made, {here} is the test's own folder
CALLS = {
    "train": ["train", "{data}/book.txt", "--run", "{here}/made", *GPT, *(w for s in SHAPE for w in ("--set", s))],
    "finetune": ["finetune", "{data}/gpt", "{data}/table.csv", "--steps", "2", "--run", "{here}/made"],
    "generate": ["generate", "{data}/gpt", "the river", "--length", "5"],
    "chat": ["chat", "{data}/chat", "he", "--length", "4"],
    "evaluate": ["evaluate", "{data}/gpt", "{data}/book.txt"],
    "compare": ["compare", "{data}/table.csv", "--models", "bag", "--minutes", "0.15", "--run", "{here}/made"],
    "tune": ["tune", "{data}/table.csv", "--model", "bag", "--trials", "1", "--each", "0.01", "--run", "{here}/made"],
    "embed": ["embed", "{data}/bert", "the river"],
    "classify": ["classify", "{data}/classifier", "the fine river"],
    "tag": ["tag", "{data}/tagger", "the river keeps the stone"],
    "translate": ["translate", "{data}/translator", "one two"],
    "fill": ["fill", "{data}/bert", "the [MASK] keeps the stone"],
    "inspect": ["inspect", "{data}/gpt", "the river"],
    "import": ["import", "{data}/chat", "--to", "{here}/made"],
    "export": ["export", "{data}/gpt", "{here}/made"],
    "verify": ["verify", "{data}/gpt"],
    "tokenize": ["tokenize", "the river", "--tokenizer", "{data}/gpt"],
    "data list": ["data", "list"],
    "data get": ["data", "get", "python-docs"],
    "data describe": ["data", "describe", "{data}/table.csv"],
    "data check": ["data", "check", "{data}/book.txt"],
    "data clean": ["data", "clean", "{data}/book.txt", "--out", "{here}/made.txt"],
}
VERBS = [" ".join(words) for words in every_verb()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "book.txt").write_text(prose())
    table = small_tasks.write(folder, "classification")
    small = {"model": {"kind": "gru", "width": 16}, "training": {"steps": 3}}
    small_tasks.trained(table, folder / "classifier", "classification", **small)
    small_tasks.trained(small_tasks.write(folder, "tagging"), folder / "tagger", "tagging", **small)
    small_tasks.origin(folder / "gpt", "gpt")
    small_tasks.origin(folder / "bert", "masked")
    tiny_folder.write(folder / "chat")
    words = ["train", *small_pairs.write(folder), *small_pairs.settings("rnn-translator"), "--steps", "2"]
    assert nursery.qkv(*words, "--run", folder / "translator").code == 0
    return folder


def call(nursery: Nursery, words: list[str], **streams: str) -> Done:
    return nursery.call("guarded", words=words, streams=streams)


def words_of(verb: str, data: Path, here: Path) -> list[str]:
    assert verb in CALLS, f"{verb}: a new verb needs its words in CALLS"
    return [word.format(data=data, here=here) for word in CALLS[verb]]


@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_that_cannot_be_written(verb: str, data: Path, nursery: Nursery, tmp_path: Path) -> None:
    """Full for a person; without a reader for a program. What the verb makes is made all the same."""
    made, words = any("{here}" in word for word in CALLS[verb]), words_of(verb, data, tmp_path)
    done = call(nursery, words, stdout="full")
    assert done.code == 4, done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("qkv: standard output: No space left on device")
    assert "Traceback" not in done.err
    assert not made or list(tmp_path.glob("made*"))
    if verb in ("train", "finetune"):
        verify_files(tmp_path / "made" / "best")
        assert str(tmp_path / "made" / "best") in last
    if verb == "compare":  # as long again: it takes the time that it is given
        return
    again = tmp_path / "again"
    again.mkdir()
    done = call(nursery, [*words_of(verb, data, again), "--json"], stdout="pipe", stderr="pipe")
    assert done.code == 0
    assert not made or list(again.glob("made*"))


@pytest.mark.parametrize("state", ["full", "closed", "pipe"])
def test_a_training_needs_no_standard_error(state: str, data: Path, nursery: Nursery, tmp_path: Path) -> None:
    done = call(nursery, [*words_of("train", data, tmp_path), "--json"], stderr=state)
    assert done.code == 0
    assert json.loads(done.out)["steps"] == 3
    verify_files(tmp_path / "made" / "best")


@pytest.mark.parametrize(("state", "code"), [("full", 4), ("closed", 4), ("pipe", 0)])
def test_help_of_every_verb(state: str, code: int, nursery: Nursery) -> None:
    done = {verb: call(nursery, [*verb.split(), "--help"], stdout=state) for verb in VERBS}
    assert {verb: each.code for verb, each in done.items()} == dict.fromkeys(VERBS, code)
    assert {len(each.err.splitlines()) for each in done.values()} == {int(code > 0)}


@pytest.mark.parametrize("words", ["--help", "--version", "train --help", "data list"])
@pytest.mark.parametrize(
    ("streams", "code"),
    [(">/dev/full", 4), (">&-", 4), ("2>&-", 0), ("<&-", 0), (">&- 2>&- <&-", 4), ("2>/dev/full >/dev/full", 4)],
)
def test_a_real_process(words: str, streams: str, code: int) -> None:
    """Started by a shell, with streams as it leaves them."""
    order = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "qkv", *words.split()]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(order, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == code, done.stderr
    heard = code > 0 and "2>" not in streams
    start = f"qkv: standard output: {'No space' if 'full' in streams else 'closed'}"
    assert [line[: len(start)] for line in done.stderr.splitlines()] == [start] * heard


def test_a_pipe_that_does_not_block() -> None:
    """Full for now is not full: whoever shares the pipe may have made it so."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    code = "from qkv.cli import streams; streams.install(); print('x' * 300_000)"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, env=environment)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"x" * 300_000 + b"\n"
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, b"")

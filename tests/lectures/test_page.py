"""docs/lectures.md: every command runs, every block of Python holds, every source and recipe is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import qkv
import small_tasks
from data_at_hand import folder, minilm, real
from lectures import reader
from qkv.recipe.recipe import SHIPPED
from reliability.nursery import Nursery

# What a command must have said, by what stands in it: the slide's numbers, not only an end without a fault.
SAID = {
    "--decks": ["0.018", "0.982", "heads of d/h, no W_O", "softmax(X U Uᵀ Xᵀ) X U"],
    "--head": ["q·k", "output of the head:"],
    "--next": ["probability"],
    "--heads": ["baseline"],
    "--alignments": ["-0 "],
    "--word": ["layer"],
    "--probe": ["Best:"],
}


def settle(home: Path, deck: str, *, whole: bool) -> None:
    """What a reader of this deck has."""
    words = reader.commands(f"Deck {deck}")
    said = {word for command in words for word in command}
    for name in reader.named_sets(words):
        reader.whole(name) if whole else reader.cut(name, home)
    (home / "bench").symlink_to(reader.ROOT / "bench")
    if "MINILM" in said and whole:
        (home / "MINILM").symlink_to(minilm())
    elif "MINILM" in said:
        small_tasks.origin(home / "MINILM", "bert")
    if "dev.conllu" in said:
        reader.sentences(home / "dev.conllu")
    if "gpt2/" in "".join(reader.blocks(f"Deck {deck}")):
        (home / "gpt2").symlink_to(real("tokenizers/gpt2/vocab.bpe").parent)


def fault(nursery: Nursery, words: list[str], home: Path) -> str | None:
    """What is wrong with a command: how it ended, or what it did not say."""
    short, shown = reader.shortened(words), shlex.join(words)
    if words[1] == "examples/lightning.py":
        assert words[1].removeprefix("examples/") in (reader.ROOT / "tests" / "test_examples.py").read_text(), shown
        return None  # tests/test_examples.py runs it
    environment = {"QKV_DATA": str(folder()), "COLUMNS": "200"}
    if words[0] == "python":
        environment = {**os.environ, **environment, "PYTHONPATH": str(reader.ROOT / "src")}
        done = subprocess.run([sys.executable, *short[1:]], capture_output=True, text=True, cwd=home, env=environment)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        code, out, err = nursery.qkv(*short[1:], seconds=1800, cwd=home, environment=environment)
    if code:
        return f"{shown}: {err[-2000:]}"
    wanted = [fragment for option, fragments in SAID.items() if option in words for fragment in fragments]
    missing = [fragment for fragment in wanted if fragment not in out]
    return f"{shown} did not say {missing}: {out[-2000:]}" if missing else None


def read(nursery: Nursery, home: Path, deck: str, patch: pytest.MonkeyPatch, *, whole: bool) -> None:
    patch.chdir(home)
    settle(home, deck, whole=whole)
    for block in (*reader.blocks(""), *reader.blocks(f"Deck {deck}")):
        exec(compile(block, f"lectures.md, deck {deck}", "exec"), {})
    faults = [fault(nursery, words, home) for words in reader.commands(f"Deck {deck}")]
    assert not any(faults), "\n".join(each for each in faults if each)


@pytest.mark.parametrize("deck", reader.DECKS)
def test_a_deck(nursery: Nursery, tmp_path: Path, deck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a hurry: the first lines of each set, two steps, a small random BERT."""
    read(nursery, tmp_path, deck, monkeypatch, whole=False)
    if deck == "003":
        order_is_seen(tmp_path / "runs")


def order_is_seen(runs: Path) -> None:
    """Deck 003's two sentences: one vector without positions, two with them."""
    sentences = ["The food was good, not bad at all", "The food was bad, not good at all"]
    seen, unseen = (qkv.load(runs / name).embed(sentences) for name in ("encoder", "nowhere"))
    torch.testing.assert_close(unseen[0], unseen[1], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(seen[0], seen[1], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("deck", reader.DECKS)
def test_a_deck_on_whole_sets(nursery: Nursery, tmp_path: Path, deck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps on whole sets, from MiniLM's real weights."""
    read(nursery, tmp_path, deck, monkeypatch, whole=True)


def test_every_source_is_there() -> None:
    found = reader.sources()
    assert len(found) > 100
    for file, name in dict.fromkeys(found):
        path = reader.ROOT / "src" / "qkv" / file
        assert path.is_file(), f"{file} is not there"
        assert reader.defines(path, name), f"{file} has no {name}"


def test_every_recipe_and_system_is_named() -> None:
    text = reader.PAGE.read_text(encoding="utf-8")
    shipped = {path.stem: path.read_text(encoding="utf-8") for path in SHIPPED.glob("*.toml")}
    assert set(re.findall(r"--recipe ([\w-]+)", text)) <= shipped.keys()
    commands = [words for deck in reader.DECKS for words in reader.commands(f"Deck {deck}")]
    run = {after for words in commands for word, after in pairwise(words) if word == "--recipe"}
    of_decks = {name for name, recipe in shipped.items() if recipe.startswith("# Deck")}
    assert of_decks <= run, "a deck's recipe that no command runs"
    rows = re.findall(r"^\| (\d+) \|", reader.section("The 24 systems"), re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 25))

"""The README's commands and its Python run as they are written; only trainings are cut short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import small_tasks
from reliability.nursery import Nursery

ROOT = Path(__file__).resolve().parents[1]
SHORT = ["--steps", "2", "--set", "training.threads=1"]
QUICK = ["--minutes", "0.6", "--models", "linear"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def commands() -> list[list[str]]:
    """Every line of the README's shell blocks that calls qkv, without its comment."""
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line and Path(line[0]).name == "qkv"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a reader is supposed to have: a book, another text, notes, reviews, pairs, a small BERT."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "book.txt").write_text("Once upon a time there was a dog. The dog had a cat. " * 100)
    (folder / "other.txt").write_text("Once there was a cat. " * 20)
    rows = [f"A {'fine' if good else 'dull'} film number {number},{good}" for number in range(40) for good in (0, 1)]
    (folder / "reviews.csv").write_text("\n".join(["review,label", *rows]) + "\n")
    for language, words in (("en", "the {} dog sees a cat"), ("de", "der {}. Hund sieht eine Katze")):
        (folder / f"train.{language}").write_text("".join(f"{words.format(number)}\n" for number in range(100)))
    small_tasks.origin(folder / "MINILM", "bert")
    (folder / "notes").mkdir()
    for name in ("one.md", "two.md", "three.md"):
        (folder / "notes" / name).write_text(
            f"# {name}\n\nWhat I wanted to write down about the dog and the cat.\n" * 20
        )
    return folder


def shortened(words: list[str]) -> list[str]:
    if words[0] not in ("train", "finetune", "compare") or "--resume" in words:
        return words
    if "--minutes" in words:
        place = words.index("--minutes")
        words = words[:place] + words[place + 2 :]
    return [*words, *(QUICK if words[0] == "compare" else SHORT)]


def test_commands_and_code(nursery: Nursery, place: Path) -> None:
    found = commands()
    assert len(found) >= 7
    for words in found:
        done = nursery.qkv(*shortened(words[1:]), cwd=place)
        assert done.code == 0, f"{shlex.join(words)}: {done.err}"
    code = blocks("python")
    assert code
    for block in code:
        done = nursery.call("python", code=block, cwd=place)
        assert done.code == 0, f"{block}: {done.err}"

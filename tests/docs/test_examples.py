"""The examples of the documentation run, in Python and on the command line; only trainings are cut short."""

from __future__ import annotations

import random
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import small_tasks
from cli.commands import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
TASKS = sorted(path.stem for path in (DOCS / "tasks").glob("*.md") if path.stem != "index")
PAGES = [
    "index",
    "own-model",
    "own-parts",
    "reference/recipe",
    "reference/models/index",
    *(f"tasks/{name}" for name in TASKS),
]
SHORT = ["--steps", "2", "--set", "training.threads=1"]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, also those in a tab."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def commands(page: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for block in blocks(page, "sh") for line in block.splitlines()]
    return [line[1:] for line in lines if line[:1] == ["qkv"]]


def shortened(words: list[str]) -> list[str]:
    if words[0] != "train" or "--resume" in words:
        return words
    for option in ("--minutes", "--steps"):
        if option in words:
            place = words.index(option)
            words = words[:place] + words[place + 2 :]
    return [*words, *SHORT]


def written(folder: Path) -> None:
    """The files that the pages name, as a reader has them."""
    drawn = random.Random(0)
    for name in ("mingru", "deepsets", "syllables", "kappa", "subtitles"):
        shutil.copy(DOCS.parent / "examples" / f"{name}.py", folder)
    (folder / "film.srt").write_text("\n\n".join(f"{n}\n0:01 --> 0:02\nThe dog sat on mat {n}." for n in range(200)))
    (folder / "book.txt").write_text("Once upon a time there was a dog. The dog had a cat. " * 100)
    (folder / "other.txt").write_text("Once there was a cat. " * 20)
    for name, task in (("lines", "classification"), ("rents", "regression"), ("names", "tagging")):
        path = small_tasks.write(folder / "made", task)
        path.rename(folder / f"{name}{path.suffix}")
    kinds = ["setosa", "virginica"] * 40
    rows = [[*(drawn.gauss(len(kind), 0.3) for _ in range(4)), kind] for kind in kinds]
    table = [",".join(map(str, row)) for row in rows]
    (folder / "iris.csv").write_text("\n".join(["x1,x2,x3,x4,label", *table]) + "\n")
    images, labels = np.random.default_rng(0).integers(0, 255, (90, 8, 8), dtype=np.uint8), np.arange(90) % 3
    for name in ("digits", "digits-test"):
        np.savez(folder / f"{name}.npz", images=images, labels=labels)
    dates = [(day, month, drawn.randint(1950, 2050)) for day in range(1, 13) for month in range(1, 13)]
    (folder / "dates.en").write_text("".join(f"{day}/{month} {year}\n" for day, month, year in dates))
    (folder / "dates.iso").write_text("".join(f"{year}-{month}-{day}\n" for day, month, year in dates))


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    code = "\n".join(blocks(page, "python"))
    assert code
    short = re.sub(r"range\(\d{3,}\)", "range(150)", re.sub(r"\b(minutes|steps)=\d+", "steps=2", code))
    exec(compile(short, f"{page}.md", "exec"), {})


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    for words in commands(page):
        assert run(shortened(words), debug=True) == 0, shlex.join(words)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_one_example(name: str) -> None:
    assert len(blocks(f"tasks/{name}", "python")) == 1
    assert commands(f"tasks/{name}")

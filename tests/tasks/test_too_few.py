"""Too few examples are refused with the number needed: every kind of data, every verb that trains or scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.commands import run
from qkv.data.hold_out import fewest_examples
from qkv.errors import DataError
from qkv.recipe.draft import Draft
from qkv.tasks.registry import open_task
from small_tasks import origin, sentences, trained, write

LABELLED = ("classification", "pairs", "regression", "multi-label", "tagging", "images", "numbers")
VERBS: dict[str, list[str]] = {
    "train": ["--steps", "1"],
    "finetune": ["--steps", "1"],
    "compare": ["--minutes", "0.1"],
    "tune": ["--trials", "1"],
}


def few(folder: Path, kind: str, count: int) -> list[str]:
    """Files with so many examples, pairs, or characters of text."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "numbers":
        rows = [f"{number},{number % 7},{number % 5},{number * 1.5}" for number in range(count)]
        (folder / "rows.csv").write_text("\n".join(["a,b,c,price", *rows]) + "\n")
        return [str(folder / "rows.csv")]
    if kind == "translation":
        for language, word in (("en", "the film"), ("de", "der Film")):
            (folder / f"a.{language}").write_text("".join(f"{word} number {row} is here\n" for row in range(count)))
        return [str(folder / "a.en"), str(folder / "a.de")]
    if kind == "text":
        (folder / "a.txt").write_text("The river keeps the stone and the song."[:count] + "\n")
        return [str(folder / "a.txt")]
    path = write(folder / "whole", kind)
    if path.suffix == ".npz":
        with np.load(path) as whole:
            np.savez(folder / "few.npz", images=whole["images"][:count], labels=whole["labels"][:count])
        return [str(folder / "few.npz")]
    text = path.read_text(encoding="utf-8")
    if kind == "tagging":
        kept = "\n\n".join(text.split("\n\n")[:count]) + "\n"
    else:
        kept = "".join(line + "\n" for line in text.splitlines()[: count + 1])
    (folder / path.name).write_text(kept, encoding="utf-8")
    return [str(folder / path.name)]


def opened(files: list[str], kind: str) -> object:
    task = {"task": kind} if kind in ("classification", "multi-label", "regression") else {}
    return open_task(Draft.parse({"corpus": {"files": files, **task}}, "here"), None)


@pytest.mark.parametrize("kind", [*LABELLED, "translation"])
def test_the_number_that_is_named_is_enough_and_one_less_is_not(kind: str, tmp_path: Path) -> None:
    needed = 30 if kind == "translation" else 15
    with pytest.raises(DataError, match=rf"{needed - 1} \w+ that differ are too few .* Give at least {needed}\."):
        opened(few(tmp_path / "less", kind, needed - 1), kind)
    opened(few(tmp_path / "enough", kind, needed), kind)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", [*LABELLED, "text"])
def test_every_verb_refuses_them(kind: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = few(tmp_path / "data", kind, 9)
    start = []
    if verb == "finetune":
        if kind in ("images", "numbers"):
            pytest.skip("models of images and numbers are trained from scratch")
        start = [str(origin(tmp_path / "start", "gpt" if kind == "text" else "bert"))]
    assert run([verb, *start, *files, *VERBS[verb], "--run", str(tmp_path / "run")], False) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "Give at least" in message or "needs at least" in message, message


@pytest.mark.parametrize(("fraction", "splits"), [(0.1, 1), (0.1, 2), (0.05, 1), (0.5, 1), (0.34, 2)])
def test_fewest_is_the_least_number_whose_splits_are_large_enough(fraction: float, splits: int) -> None:
    def is_enough(total: int) -> bool:
        for _ in range(splits):
            if (held_out := round(fraction * total)) < 2:
                return False
            total -= held_out
        return total >= 8

    needed = fewest_examples(fraction, splits)
    assert is_enough(needed)
    assert not any(map(is_enough, range(needed)))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The folder of a run, and the table that it was trained on."""
    folder = tmp_path_factory.mktemp("classifier")
    data = write(folder, "classification")
    trained(data, folder / "run", "classification", model={"kind": "bag", "width": 8}, training={"steps": 2})
    return str(folder / "run"), data


def test_one_example_is_not_scored(
    classifier: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = classifier
    one = tmp_path / "one.csv"
    one.write_text("".join(f"{line}\n" for line in data.read_text().splitlines()[:2]))
    assert run(["evaluate", model, str(one)], False) == 2
    assert "1 example is too few to be scored. Give at least 2 that differ." in capsys.readouterr().err


def test_training_rows_are_recognised_among_those_to_be_scored(
    classifier: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under another name, and among others."""
    model, data = classifier
    lines = data.read_text().splitlines()
    rows: list[Any] = [lines[0], *lines[1:41], *(f"A new {text.lower()},good" for text, _ in sentences(10))]
    (tmp_path / "others.csv").write_text("\n".join(rows) + "\n")
    assert run(["evaluate", model, str(tmp_path / "others.csv")], False) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("note: leak: the model was trained on ")
    assert "of these 50 examples" in first
    (tmp_path / "new.csv").write_text("\n".join([rows[0], *rows[41:]]) + "\n")
    assert run(["evaluate", model, str(tmp_path / "new.csv")], False) == 0
    assert "leak" not in capsys.readouterr().err


def test_a_folder_with_splits_is_scored_on_its_test_split(
    classifier: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = classifier
    head, *lines = data.read_text().splitlines()
    for name, part in (("train", lines[:100]), ("dev", lines[100:130]), ("test", lines[130:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *part]) + "\n")
    assert run(["evaluate", model, str(tmp_path)], False) == 0
    shown = capsys.readouterr()
    assert f"{len(lines) - 130} examples" in " ".join(shown.out.split())  # the title is wrapped where the path is long
    assert "scored on the test split" in shown.err

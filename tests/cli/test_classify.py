"""`qkv classify`: texts in, labels out, in their order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qkv
from cli.commands import run
from qkv.cli.batches import text_batches
from qkv.cli.classify import cells
from qkv.evaluation.decisions import Decision
from small_tasks import sentences, trained, write

TEXTS = [text for text, _ in sentences(12)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("work")
    said = {"kind": "gru", "width": 16}
    trained(write(folder, "classification"), folder / "run", "classification", model=said, training={"steps": 6})
    return str(folder / "run")


def test_a_line_a_text(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = qkv.load(model).classify(TEXTS)
    assert run(["classify", model, *TEXTS], False) == 0
    typed = capsys.readouterr().out
    rows = [line.split("\t") for line in typed.splitlines()]
    assert [row[0] for row in rows] == [each.label for each in expected]
    assert [row[-1] for row in rows] == TEXTS
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    assert run(["classify", model, "--file", str(tmp_path / "texts.txt")], False) == 0
    assert capsys.readouterr().out == typed


def test_as_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["classify", model, TEXTS[0], "--json"], False) == 0
    found = json.loads(capsys.readouterr().out)["texts"][0]
    assert found["text"] == TEXTS[0]
    assert sum(found["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)


def test_mistakes_exit_with_two(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["classify", model, "a", "--top", "0"], False) == 2
    assert "--top 0: expected 1 to" in capsys.readouterr().err
    assert run(["tag", model, "a"], False) == 2
    assert "tagging words needs a tagger" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="there, whether a pipe has more is not known")
def test_a_pipe_is_answered_before_it_ends(model: str) -> None:
    """Who writes a line and waits gets its answer; the order is kept."""
    command = [sys.executable, "-m", "qkv", "classify", model, "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdin
        assert child.stdout
        for text in TEXTS[:3]:
            child.stdin.write(f"{text}\n")
            child.stdin.flush()
            assert child.stdout.readline().rstrip("\n").split("\t")[-1] == text
        child.stdin.write("\n".join(TEXTS[3:]))
        child.stdin.close()
        assert [line.rstrip("\n").split("\t")[-1] for line in child.stdout] == TEXTS[3:]


def test_batches(tmp_path: Path) -> None:
    """Of a file they are full, and no line is lost."""
    texts = [f"text {number}" for number in range(1000)]
    (tmp_path / "texts.txt").write_text("\r\n".join(texts))
    found = list(text_batches([], str(tmp_path / "texts.txt"), "classify", 300))
    assert [len(batch) for batch in found] == [300, 300, 300, 100]
    assert [text for batch in found for text in batch] == texts


def test_several_labels_have_their_probabilities() -> None:
    found = Decision(("drama", "war"), {"comedy": 0.1, "drama": 0.9, "war": 0.75})
    assert cells("a film", found, 1) == ["drama, war", "0.9000, 0.7500", "a film"]
    assert cells("a film", Decision((), {"comedy": 0.1}), 1) == ["-", "-", "a film"]
    both = cells(("a\tfilm", "a  plot"), Decision("yes", {"yes": 0.9, "no": 0.1}), 1)
    assert both == ["yes", "0.9000", "a film", "a plot"]


@pytest.fixture(scope="module")
def image_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("images")
    trained(write(folder, "images"), folder / "run", "images", model={"kind": "cnn"}, training={"steps": 2})
    return str(folder / "run")


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    """Files of images: one in the folder itself, two below it."""
    image = pytest.importorskip("PIL.Image")
    names = [tmp_path / "photos" / name for name in ("a.png", "inner/b.png", "inner/c.png")]
    for number, path in enumerate(names):
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((12, 12), 80 * number, dtype=np.uint8)).save(path)
    (tmp_path / "photos" / "notes.txt").write_text("not an image\n")
    return list(map(str, names))


def test_images_by_name_by_folder_and_by_list(
    image_model: str, images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.txt").write_text("".join(f"{name}\n" for name in images))
    expected = qkv.load(image_model).classify(images)
    for words in (images, [str(tmp_path / "photos")], ["--file", str(tmp_path / "list.txt")]):
        assert run(["classify", image_model, *words], False) == 0
        rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
        assert [(row[0], row[-1]) for row in rows] == [
            (decision.label, name) for decision, name in zip(expected, images, strict=True)
        ]
    assert run(["classify", image_model, images[0], "--json"], False) == 0
    assert json.loads(capsys.readouterr().out)["texts"][0]["image"] == images[0]


def test_texts_for_images_and_images_for_texts(
    model: str, image_model: str, images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for words, message in (
        ([image_model, "a nice film"], "a nice film: no such file; this model classifies images"),
        ([image_model, str(empty)], "no images in this folder"),
        ([image_model, "--file", images[0]], "the name of an image on each line"),
        ([image_model, images[0], "--text", "review"], "this model reads images"),
        ([model, images[0]], "is an image, and this model does not read images"),
    ):
        assert run(["classify", *words], False) == 2, words
        assert message in capsys.readouterr().err
    assert run(["classify", model, str(tmp_path / "photos" / "notes.txt")], False) == 0
    assert "the name itself is classified" in capsys.readouterr().err

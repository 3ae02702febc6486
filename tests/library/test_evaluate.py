"""One call scores every kind of model, on files and on objects, with the numbers of `qkv evaluate`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.cli.app import dispatch
from qkv.errors import InputError
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.perplexity import Score
from qkv.tasks.translation.evaluate import TranslationEvaluation
from small_tasks import sentences

WORDS = {"dog": "Hund", "cat": "Katze", "tree": "Baum", "house": "Haus"}
PAIRS = [(f"the {a} and the {b} {n}", f"{WORDS[a]} und {WORDS[b]} {n}") for a in WORDS for b in WORDS for n in range(9)]
TEXTS = [f"{'warm and bright' if n % 2 else 'cold and dull'} song {n}" for n in range(120)]
LABELS = ["good" if n % 2 else "bad" for n in range(120)]
BOOK = [text for text, _ in sentences(400)]
WORD_LISTS = [["the", "dog", "sees", "Anna", str(n)] for n in range(90)]
TAGS = [["O", "O", "O", "B-PER", "O"]] * 90
RANDOM = np.random.default_rng(0)
NUMBERS = RANDOM.normal(size=(120, 3))
UP = np.where(NUMBERS[:, 0] > 0, "up", "down")
IMAGES = RANDOM.integers(0, 40, size=(120, 8, 8)).astype(np.uint8)
IMAGES[1::2, 2:5, 2:5] += 150
PARITY = np.arange(120) % 2

SMALL = {"model.width": 16, "model.layers": 1}
KINDS: dict[str, tuple[Any, dict[str, Any], type]] = {
    "text": (BOOK, {"model": "gpt-nano"}, Score),
    "masked": (BOOK, {"model": "bert-mini", "settings": {"model.context": 32, "model.layers": 1}}, MaskedScore),
    "classes": ((TEXTS, LABELS), {"model": "bag"}, LabelledScore),
    "numbers": ((NUMBERS, UP), {"model": "linear"}, LabelledScore),
    "images": ((IMAGES, PARITY), {}, LabelledScore),
    "tags": ((WORD_LISTS, TAGS), {}, LabelledScore),
    "pairs": (PAIRS, {"model": "rnn-translator", "settings": SMALL}, TranslationEvaluation),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(kind: str, tmp_path_factory: pytest.TempPathFactory) -> qkv.Model:
    data, options, _ = KINDS[kind]
    return qkv.train(data, run=tmp_path_factory.mktemp("evaluate") / "run", steps=3, **options)


def write(kind: str, folder: Path) -> Path:
    """The same data as a file of a person's."""
    names = {"tags": "data.conll", "images": "data.npz", "numbers": "data.csv"}
    file = folder / names.get(kind, "data.jsonl")
    rows: list[dict[str, str]] = []
    if kind in ("text", "masked"):
        rows = [{"text": text} for text in BOOK]
    elif kind == "classes":
        rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    elif kind == "pairs":
        rows = [{"source": a, "target": b} for a, b in PAIRS]
    elif kind == "images":
        np.savez(file, images=IMAGES, labels=PARITY)
    elif kind == "numbers":
        lines = [",".join(map(str, [*row, label])) for row, label in zip(NUMBERS.tolist(), UP, strict=True)]
        file.write_text("\n".join(["x1,x2,x3,label", *lines]) + "\n")
    else:
        blocks = [
            "".join(f"{w}\t{t}\n" for w, t in zip(*one, strict=True)) for one in zip(WORD_LISTS, TAGS, strict=True)
        ]
        file.write_text("\n".join(blocks))
    if rows:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_it_gives_the_numbers_of_the_command(
    kind: str, model: qkv.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, _, expected = KINDS[kind]
    score = model.evaluate(data)
    assert isinstance(score, expected)
    assert len(repr(score)) < 1200
    assert math.isfinite(score.loss)
    file = write(kind, tmp_path)
    assert model.evaluate(file).values() == score.values() == model.evaluate(str(file)).values()
    capsys.readouterr()
    assert dispatch(["evaluate", str(model.bundle.folder), str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for name, value in score.values().items():
        assert printed[name] == (None if value != value else value), name


@pytest.mark.parametrize("kind", ["text", "classes", "numbers", "pairs"], indirect=True)
def test_a_table_in_memory(kind: str, model: qkv.Model) -> None:
    pandas = pytest.importorskip("pandas")
    tables = {
        "text": {"text": BOOK},
        "classes": {"text": TEXTS, "label": LABELS},
        "numbers": {**{f"x{n + 1}": NUMBERS[:, n] for n in range(3)}, "label": UP},
        "pairs": {"source": [a for a, _ in PAIRS], "target": [b for _, b in PAIRS]},
    }
    expected = model.evaluate(KINDS[kind][0]).loss
    for given in (tables[kind], pandas.DataFrame(tables[kind])):
        assert model.evaluate(given).loss == pytest.approx(expected, rel=1e-6)


def test_options_of_other_models_are_refused(kind: str, model: qkv.Model) -> None:
    wrong: dict[str, Any] = {"beams": 3} if kind != "pairs" else {"window": 8}
    with pytest.raises(InputError, match=f"{next(iter(wrong))}: does not apply"):
        model.evaluate(KINDS[kind][0], **wrong)
    option: dict[str, Any] = {"source": "a"} if kind != "pairs" else {"label": "a"}
    with pytest.raises(InputError, match="does not apply, because a model of kind"):
        model.evaluate(KINDS[kind][0], **option)


def test_a_text_is_scored_by_models_of_text(kind: str, model: qkv.Model) -> None:
    text = " ".join(BOOK)
    if kind in ("text", "masked"):
        assert math.isfinite(model.evaluate(text).loss)
    else:
        with pytest.raises(InputError, match=r"no such file|too long"):
            model.evaluate(text[:60])


@pytest.mark.parametrize("kind", ["pairs"], indirect=True)
def test_a_translator_is_compared_with_another(kind: str, model: qkv.Model) -> None:
    score = model.evaluate(PAIRS[:40], beams=1, compare_with=model)
    assert isinstance(score, TranslationEvaluation)
    assert score.comparison is not None
    assert score.comparison.values["p"] == 1.0
    assert score.beams == 1


@pytest.mark.parametrize("kind", ["images"], indirect=True)
def test_images_in_any_form(kind: str, model: qkv.Model, tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    several = [decision.probabilities for decision in model.classify(IMAGES[:2])]
    for number in range(2):
        image_module.fromarray(IMAGES[number]).save(tmp_path / f"{number}.png")
    files = [tmp_path / f"{number}.png" for number in range(2)]
    for given in ([IMAGES[0], IMAGES[1]], files, [str(f) for f in files], IMAGES[:2, :, :, None], IMAGES[:2] / 255):
        assert [decision.probabilities for decision in model.classify(given)] == several
    with image_module.open(files[0]) as opened:
        for one in (IMAGES[0], files[0], str(files[0]), opened):
            assert model.classify(one)[0].label == model.classify(IMAGES[:1])[0].label
        model.classify(opened.resize((16, 16)))
    assert "resized to 8 x 8" in model.notes[0]
    for wrong, message in {5: "not int", "absent.png": "no such file"}.items():
        with pytest.raises(InputError, match=message):
            model.classify(wrong)
    with pytest.raises(InputError, match=r"of shape \(2, 4, 8\); expected \(8, 8\)"):
        model.classify(IMAGES[:2, :4])


@pytest.mark.parametrize("kind", ["numbers"], indirect=True)
def test_numbers_in_any_form(kind: str, model: qkv.Model) -> None:
    pandas = pytest.importorskip("pandas")
    rows = NUMBERS[:2].astype(np.float32).astype(float)
    several = model.classify(rows.tolist())
    table = {f"x{n + 1}": rows[:, n] for n in (2, 0, 1)}  # by name, in any order
    named = [{name: float(column[row]) for name, column in table.items()} for row in range(2)]
    for given in (rows, pandas.DataFrame(table), table, named, [",".join(map(str, row)) for row in rows.tolist()]):
        assert model.classify(given) == several
    for one in (rows[0], rows[0].tolist(), named[0], ",".join(map(str, rows[0].tolist()))):
        assert model.classify(one) == several[:1]
    with pytest.raises(InputError, match="a row of 2 numbers: expected 3: x1, x2, x3"):
        model.classify([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(TypeError, match="expected rows of numbers"):
        model.classify(5)


def test_cards_name_objects_and_what_was_trained(kind: str, model: qkv.Model) -> None:
    folder = model.bundle.folder
    assert folder is not None
    card = (folder.parent / "card.md").read_text(encoding="utf-8")
    names = {
        "text": "list of 400",
        "classes": "(list of 120, list of 120)",
        "numbers": "(ndarray of 120 x 3, ndarray of 120)",
        "images": "(ndarray of 120 x 8 x 8, ndarray of 120)",
    }
    assert names.get(kind, "list of") in card
    assert "objects/" not in card


def test_a_run_on_images_is_named_after_its_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    model = qkv.train((IMAGES, PARITY), steps=2)
    assert model.bundle.folder is not None
    assert model.bundle.folder.parent.name == "images-cnn"

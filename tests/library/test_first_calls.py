"""What somebody who calls the library for the first time tries, and what the messages answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import qkv
from qkv.errors import InputError, QkvError

SMALL: dict[str, Any] = {"model": "bag", "steps": 1, "settings": {"training.threads": 1}}
FRAME = pd.DataFrame(
    {
        "label": ["ham", "spam"] * 60,
        "text": [f"{'see you at lunch' if number % 2 == 0 else 'win a prize now'} {number}" for number in range(120)],
    }
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> qkv.Model:
    return qkv.train(FRAME, run=tmp_path_factory.mktemp("first") / "run", **SMALL)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> qkv.Model:
    texts = [f"the dog sat on mat {number}" for number in range(80)]
    return qkv.train(texts, model="gpt-nano", steps=1, run=tmp_path_factory.mktemp("first") / "writer")


def test_every_public_call_checks_its_arguments() -> None:
    functions = [getattr(qkv, name) for name in qkv.__all__ if inspect.isfunction(getattr(qkv, name))]
    methods = [value for name, value in inspect.getmembers(qkv.Model, inspect.isfunction) if name[0] != "_"]
    assert len(functions) > 8
    assert len(methods) > 12
    for call in (*functions, *methods):
        with pytest.raises(TypeError, match=rf"{call.__name__}: unknown argument 'minuets'\. Expected one of|Did you"):
            call(minuets=3)


def test_the_model_says_where_it_is_and_how_the_data_were_read(model: qkv.Model) -> None:
    assert model.folder is not None
    assert (model.folder / "card.md").is_file()
    assert any("label: column 'label'" in note for note in model.notes)
    assert qkv.load(model.folder).classify("a prize") == model.classify("a prize")


def test_columns_without_names_go_by_number(model: qkv.Model) -> None:
    numbered = pd.DataFrame({0: FRAME["label"], 1: FRAME["text"]})
    assert model.evaluate(numbered, text=1, label=0).values() == model.evaluate(FRAME).values()


def test_a_column_is_classified(model: qkv.Model) -> None:
    expected = model.classify(FRAME["text"][:3].tolist())
    assert model.classify(FRAME["text"][:3]) == model.classify(FRAME["text"][:3].to_numpy()) == expected


def test_scores_are_printed_one_number_a_line(model: qkv.Model, writer: qkv.Model) -> None:
    lines = dict(line.rsplit(maxsplit=1) for line in str(model.evaluate(FRAME)).splitlines())
    assert lines["metric"] == "accuracy"
    assert lines["count"] == "120"
    shown = str(writer.evaluate("the dog"))
    assert "perplexity" in shown
    assert "nan" not in shown  # the interval of a single window


CLASSIFIER: list[tuple[Callable[[Any], object], str]] = [
    (lambda model: model.classify(FRAME[:2]), r"not DataFrame of 2 x 2\. Give one of its columns"),
    (lambda model: model.classify([None]), r"texts\[0\]: expected str"),
    (lambda model: model.classify([("a", "b")]), r"\('a', 'b'\): this model was trained on single texts"),
    (lambda model: model.evaluate(FRAME, label="lable"), r"^DataFrame of 120 x 2: no column .* label=\"label\"\?"),
    (lambda model: model.evaluate(FRAME, metrics={"none": lambda true, said: None}), r"'none' returned None; expected"),
    (lambda model: qkv.resume(model.folder / "nothing"), r"Start one with qkv\.train"),
    (lambda model: qkv.train(FRAME, run=model.folder, **SMALL), r"Continue it with qkv\.resume, or choose another run"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CLASSIFIER)))
def test_what_does_not_fit_a_classifier(model: qkv.Model, number: int) -> None:
    call, message = CLASSIFIER[number]
    with pytest.raises(InputError, match=message):
        call(model)


def partly(column: str, missing: int) -> pd.DataFrame:
    frame = FRAME.copy()
    frame.loc[5 : 4 + missing, column] = None
    return frame


DATA: list[tuple[dict[str, Any], str]] = [
    ({"data": ""}, r"data='': not the name of a file\. A text is given in a list: \[text\]"),
    ({"data": "A text to train on. " * 50}, r"^data='A text to train on\. .{1,60}': not the name of a file\."),
    ({"data": zip(FRAME["text"], FRAME["label"], strict=True)}, r"not zip\. Make it a list: list\(\.\.\.\)"),
    ({"data": FRAME, "valid": 0.2}, r'not float\. .* settings=\{"corpus\.valid_fraction": 0\.2\}'),
    ({"data": FRAME, "text": "text", "label": "text"}, r'text and label are both the column .* label="NAME"'),
    ({"data": partly("label", 70)}, r"^DataFrame of 120 x 2, row 5: 70 of 120 rows cannot be used, .* no label"),
    ({"data": partly("text", 30)}, r"^DataFrame of 120 x 2, row 5: 30 of 120 rows cannot be used, .* no text"),
]


@pytest.mark.parametrize("number", range(len(DATA)))
def test_what_does_not_fit_training(number: int, tmp_path: Path) -> None:
    options, message = DATA[number]
    with pytest.raises(QkvError, match=message):
        qkv.train(run=tmp_path / "run", **SMALL, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (qkv.train, {"minutes": 0}),
        (qkv.train, {"minutes": -1.0}),
        (qkv.train, {"steps": 0}),
        (qkv.compare, {"minutes": float("nan")}),
        (qkv.compare, {"seeds": 0}),
        (qkv.tune, {"trials": 0}),
    ],
)
def test_numbers_out_of_range(call: Any, options: dict[str, Any]) -> None:
    [(name, value)] = options.items()
    with pytest.raises(InputError, match=rf"^{name} {value}: expected "):
        call(FRAME, **options)


def test_the_name_of_a_missing_file_is_not_scored(writer: qkv.Model) -> None:
    with pytest.raises(InputError, match=r"test\.txt: no such file"):
        writer.evaluate("test.txt")
    assert writer.evaluate("the dog sat. txt").tokens > 3

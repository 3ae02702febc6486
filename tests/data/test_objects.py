"""Objects in memory are read as files are: every kind, what is missing in them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qkv.data.objects import StoredObject, store
from qkv.errors import InputError, WrongTypeError


def rows(stored: StoredObject) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stored.file.read_text(encoding="utf-8").splitlines()]


def test_texts() -> None:
    stored = store(["one\nline", "two 日本"])
    assert rows(stored) == [{"text": "one\nline"}, {"text": "two 日本"}]
    assert stored.options == {"text": "text"}
    assert store(np.array(["one\nline", "two 日本"])).file == stored.file, "the same content is the same file"


@pytest.mark.parametrize("labels", [["x", "y"], ("x", "y"), np.array(["x", "y"])])
def test_texts_and_labels(labels: Any) -> None:
    stored = store((["a", "b"], labels))
    assert rows(stored) == [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    assert stored.options == {"text": "text", "label": "label"}


def test_labels_of_many_kinds() -> None:
    assert [row["label"] for row in rows(store((["a", "b"], np.array([1, 0]))))] == [1, 0]
    assert [row["label"] for row in rows(store((["a", "b"], torch.tensor([0.5, 1.5]))))] == [0.5, 1.5]
    assert [row["label"] for row in rows(store((["a", "b"], [["x"], ["x", "y"]])))] == [["x"], ["x", "y"]]
    assert rows(store(([("a", "b"), ("c", "d")], [1, 0])))[0] == {"text": "a", "text2": "b", "label": 1}
    assert rows(store([("a", 1), ("b", 0)]))[1] == {"text": "b", "label": 0}


def test_pairs() -> None:
    stored = store([("a dog", "ein Hund")])
    assert rows(stored) == [{"source": "a dog", "target": "ein Hund"}]
    assert stored.options == {"source": "source", "target": "target"}


def test_tables() -> None:
    expected = [{"text": "a", "stars": 1}, {"text": "b", "stars": None}]
    assert rows(store({"text": ["a", "b"], "stars": [1, float("nan")]})) == expected
    assert rows(store([{"text": "a", "stars": 1}, {"text": "b", "stars": None}])) == expected


def test_dataframes() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame({"text": ["a", "b", None], "n": [1, 2, 3]}, index=[7, 8, 9]).iloc[1:]
    assert rows(store(frame)) == [{"text": "b", "n": 2}, {"text": None, "n": 3}]
    assert rows(store((frame["text"].fillna("-"), frame["n"])))[0] == {"text": "b", "label": 2}
    other = polars.DataFrame({"text": ["b", None], "n": [2, 3]})
    assert rows(store(other)) == [{"text": "b", "n": 2}, {"text": None, "n": 3}]
    assert rows(store((other["text"].fill_null("-"), other["n"])))[1] == {"text": "-", "label": 3}


def test_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    made = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)
    assert [row["label"] for row in rows(store(made))] == ["pos", "neg", None]
    with pytest.raises(WrongTypeError, match="several splits \\('train'\\)"):
        store(datasets.DatasetDict({"train": made}))


class Listed(torch.utils.data.Dataset[tuple[str, int]]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[str, int]:
        return f"text {index}", index % 2


class Endless(torch.utils.data.IterableDataset[str]):
    def __iter__(self) -> Iterator[str]:
        yield "text"


def test_datasets_of_torch() -> None:
    assert rows(store(Listed())) == [{"text": f"text {i}", "label": i % 2} for i in range(3)]
    with pytest.raises(WrongTypeError, match="not Endless"):
        store(Endless())


def test_numbers_and_images() -> None:
    stored = store((np.array([[1.5, 2.0], [3.25, -4.0]]), ["a", "b"]))
    assert stored.file.read_text().splitlines() == ["x1,x2,label", "1.5,2.0,a", "3.25,-4.0,b"]
    images = store((np.zeros((3, 8, 8), np.uint8), [0, 1, 2]))
    assert np.load(images.file)["labels"].tolist() == [0, 1, 2]


def test_tagged_words() -> None:
    stored = store(([["Anna", "sees"]], [["B-PER", "O"]]))
    assert stored.file.read_text() == "Anna\tB-PER\nsees\tO\n\n"


REFUSED: dict[str, tuple[Any, str]] = {
    "a number": (5, "data: expected a file, .*; not int"),
    "nothing": (None, "not NoneType"),
    "a set": ({"a"}, "not set"),
    "an empty list": ([], "data: empty"),
    "a missing text": (["a", None], "text 1 is missing"),
    "a text that is a number": (["a", 5], r"text 1 is of type int \(5\)"),
    "unequal": ((["a", "b"], [1]), "2 inputs and 1 labels"),
    "unequal columns": ({"a": [1], "b": [1, 2]}, "'a' 1, 'b' 2"),
    "a column that is a number": ({"a": 5}, "column 'a' is of type int"),
    "an array alone": (np.zeros((3, 2)), r"shape \(3, 2\) has no labels"),
    "images of floats": ((np.zeros((2, 8, 8)), [0, 1]), "images of uint8"),
    "objects": ([{"a": object()}], "row 0: .*object"),
    "words with blanks": (([["a b"]], [["O"]]), "'a b'"),
    "unequal tags": (([["a", "b"]], [["O"]]), "sentence 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_anything_else_is_refused_by_name(case: str) -> None:
    data, message = REFUSED[case]
    with pytest.raises((WrongTypeError, InputError), match=message):
        store(data)


def test_nothing_is_left_of_a_refused_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path))
    with pytest.raises(WrongTypeError):
        store(["a", 5])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]

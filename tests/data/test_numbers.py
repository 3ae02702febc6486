"""Tables of numbers: which columns, which target, gaps and words; the same table in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.bad_examples import csv
from qkv.data.corpus import ExamplesConfig
from qkv.data.descriptions import describe_examples
from qkv.data.detect import is_labelled
from qkv.data.examples import NumberExamples, TextExamples
from qkv.data.formats.kinds import FilePreviews
from qkv.data.number_tables import parse_cell
from qkv.data.read_examples import read_examples

ROWS = [(n / 10, 100 - n, "red" if n % 3 else "blue") for n in range(60)]


def read(path: Path, content: bytes | None = None, **options: Any) -> Any:
    if content is not None:
        path.write_bytes(content)
    found = read_examples(ExamplesConfig(files=(str(path),), **options), purpose="describe")
    assert found.numeric == isinstance(found.train, NumberExamples)
    return found


def test_a_table(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", csv(ROWS, "width,height,colour"))
    assert (found.task, found.labels.names, dict(found.columns)) == (
        "classification",
        ("blue", "red"),
        {"label": "colour"},
    )
    assert found.train.columns == ("width", "height")
    np.testing.assert_array_equal(found.train.values, np.array([row[:2] for row in ROWS], dtype=np.float32))
    assert [found.train[n].label for n in range(3)] == ["blue", "red", "red"]
    assert found.train.values.dtype == np.float32


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    names = ("width", "height", "colour")
    lines = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS).encode()
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pyarrow.table({name: [row[n] for row in ROWS] for n, name in enumerate(names)}), tmp_path / "a.parquet"
    )
    prints = {
        read(tmp_path / "a.csv", csv(ROWS, ",".join(names))).fingerprint,
        read(tmp_path / "a.tsv", csv(ROWS, ",".join(names), mark="\t")).fingerprint,
        read(tmp_path / "a.jsonl", lines).fingerprint,
        read(tmp_path / "a.parquet").fingerprint,
    }
    assert len(prints) == 1
    assert is_labelled([str(tmp_path / "a.jsonl")], FilePreviews("utf-8"))
    assert is_labelled([str(tmp_path / "a.parquet")], FilePreviews("utf-8"))


@pytest.mark.parametrize(
    ("header", "target"),
    [("a,b,c", "c"), ("target,b,c", "target"), ("a,y,c", "y"), ("a,b,id", "b"), ("class,b,label", "label")],
)
def test_the_target(tmp_path: Path, header: str, target: str) -> None:
    rows = [(n % 2, (n // 2) % 2, n % 3 % 2 + n % 2) for n in range(40)]
    assert read(tmp_path / "a.csv", csv(rows, header)).columns["label"] == target
    assert read(tmp_path / "a.csv", label="2").columns["label"] == header.split(",")[1]


def test_a_number_to_predict(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", csv([(n, n * n, n / 7) for n in range(50)], "a,b,price"))
    assert found.task == "regression"
    np.testing.assert_allclose(found.train.targets, np.arange(50) / 7, rtol=1e-6)


def test_gaps_and_words(tmp_path: Path) -> None:
    rows = [("mf"[n % 2] if n else "NA", "?" if n == 3 else n, n % 4 // 2) for n in range(40)]
    found = read(tmp_path / "a.csv", csv(rows, "sex,age,class"))
    assert found.train.columns == ("sex=f", "sex=m", "age")
    np.testing.assert_array_equal(
        found.train.values[:4],
        np.array([[np.nan, np.nan, 0], [1, 0, 1], [0, 1, 2], [1, 0, np.nan]], dtype=np.float32),
    )
    assert any("3 numbers are missing (sex: 2, age: 1)" in note for note in found.notes)


def test_another_table_is_matched_by_names(tmp_path: Path) -> None:
    first = read(tmp_path / "a.csv", csv([("mf"[n % 2], n, n % 4 // 2) for n in range(40)], "sex,age,class"))
    content = csv([(n % 4 // 2, 1, n, "mx"[n % 2]) for n in range(40)], "class,more,age,sex")
    other = read(tmp_path / "b.csv", content, columns=first.train.columns)
    np.testing.assert_array_equal(other.train.values[:2], np.array([[0, 1, 0], [0, 0, 1]], dtype=np.float32))
    assert any("20 cells have words" in note for note in other.notes)


def test_text_is_still_text(tmp_path: Path) -> None:
    rows = [(n, f"a film of {n} minutes and more", n % 2) for n in range(40)]
    assert isinstance(read(tmp_path / "a.csv", csv(rows, "length,remark,label")).train, TextExamples)
    assert read(tmp_path / "a.csv", text="none").train.columns == ("length",)
    words = [(f"word{n}", n, n % 2) for n in range(40)]
    assert isinstance(read(tmp_path / "b.csv", csv(words, "word,count,label")).train, TextExamples)


def test_described(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(csv([("" if n == 2 else n, n / 2, "ab"[n % 2]) for n in range(60)], "x,y,class"))
    found = describe_examples(read_examples(ExamplesConfig(files=(str(path),))))
    assert found.unit == "columns"
    assert found.ranges["x"] == {
        "lowest": 0.0,
        "mean": pytest.approx((59 * 30 - 2) / 59),
        "highest": 59.0,
        "missing": 1,
    }
    assert found.beginning[2] == {"label": "a", "numbers": "?, 1"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1.0),
        (" -2.5e3 ", -2500.0),
        (True, 1.0),
        (7, 7.0),
        ("1_000", None),
        ("x", None),
        ("inf", None),
        ([1], None),
    ],
)
def test_numbers_in_cells(value: Any, expected: float | None) -> None:
    assert parse_cell(value) == expected
    assert all(np.isnan(parse_cell(each) or 0) for each in (None, "", "NA", "?", "nan", float("nan")))

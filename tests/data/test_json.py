"""JSON in the ways that people nest it: the rows of each are those that a person sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ExamplesConfig
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats import json_rows
from qkv.data.formats.rows import JsonReader
from qkv.data.formats.tabular import Table, open_table
from qkv.data.read_examples import read_examples
from qkv.errors import DataError

GOOD, BAD, FAIR = ("a good film", "pos"), ("a bad film", "neg"), ("a fair film", "pos")
ROWS = [GOOD, BAD, FAIR]
RECORDS = [{"text": text, "label": label} for text, label in ROWS]
TEXTS = [text for text, _ in ROWS]
LABELS = [label for _, label in ROWS]
UNDER_LABELS = {"pos": [GOOD[0], FAIR[0]], "neg": [BAD[0]]}
PIECES = {label: [{"data": [{"text": text[:5]}, {"text": text[5:], "entity": "x"}]} for text in texts]
          for label, texts in UNDER_LABELS.items()}  # fmt: skip
INTENTS = [{"tag": label, "patterns": texts, "responses": ["Fine."]} for label, texts in UNDER_LABELS.items()]

SHAPES: dict[str, Any] = {
    "list of objects": RECORDS,
    "list of pairs": ROWS,
    "list of pairs under names": [("text", "label"), *ROWS],
    "rows under a key": {"version": "2", "data": RECORDS, "authors": ["A. Bee"]},
    "pairs under a key": {"examples": ROWS},
    "texts under labels": UNDER_LABELS,
    "texts in pieces": PIECES,
    "labels with several texts": {"intents": INTENTS},
    "objects by ids": {str(number): record for number, record in enumerate(RECORDS)},
    "columns": {"text": TEXTS, "label": LABELS},
    "columns of pandas": {"text": dict(enumerate(TEXTS)), "label": dict(enumerate(LABELS))},
    "names and cells": {"columns": ["text", "label"], "index": [0, 1, 2], "data": ROWS},
    "labels of texts": dict(ROWS),
    "objects in objects": {"rows": [{"row_idx": n, "row": record} for n, record in enumerate(RECORDS)]},
    "splits of objects": {"train": RECORDS[:2], "test": RECORDS[2:]},
    "splits of pairs": {"oos_val": ROWS[:1], "oos_train": ROWS[1:]},
    "splits of labels": {"train": {"neg": [BAD[0]], "pos": [GOOD[0]]}, "dev": {"pos": [FAIR[0]]}},
    "splits of columns": {
        "train": {"text": TEXTS[:2], "label": LABELS[:2]},
        "test": {"text": TEXTS[2:], "label": ["pos"]},
    },
}


def table(path: Path, value: object, indent: int | None = None) -> Table:
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=False), encoding="utf-8")
    return open_table(Source(path), None, Findings())


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", SHAPES)
def test_the_rows_of_nested_json(name: str, indent: int | None, tmp_path: Path) -> None:
    opened = table(tmp_path / "film.json", SHAPES[name], indent)
    text, label = ("text", "label") if "text" in opened.columns else ("1", "2")
    label = "tag" if "tag" in opened.columns else label
    places = [opened.columns.index(column) for column in (text, label)]
    found = [tuple(row[place] for place in places) for _, row in opened.rows]
    assert sorted(found) == sorted(ROWS)
    assert (opened.split_column is not None) == name.startswith("splits")


def test_pairs_in_lines(tmp_path: Path) -> None:
    path = tmp_path / "film.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert [tuple(row) for _, row in open_table(Source(path), None, Findings()).rows] == ROWS


def test_one_pass_gives_each_split_its_rows(tmp_path: Path) -> None:
    rows = [(f"a {'good' if n % 2 else 'bad'} film, number {n}", "np"[n % 2]) for n in range(100)]
    (tmp_path / "film.json").write_text(json.dumps({"test": rows[:20], "train": rows[30:], "valid": rows[20:30]}))
    found = read_examples(ExamplesConfig(files=(str(tmp_path / "film.json"),)))
    assert {name: len(split) for name, split in found.splits} == {"train": 70, "valid": 10, "test": 20}
    assert found.test is not None
    assert found.test[0].text == rows[0][0]  # type: ignore[union-attr]
    note = next(note for note in found.notes if "splits by" in note)
    expected = "train: 'train' (70 rows); valid: 'valid' (10 rows); test: 'test' (20 rows)."
    assert note.endswith(f"film.json: splits by the keys of the JSON object: {expected}")


def test_the_keys_of_an_object_are_not_called_columns(tmp_path: Path) -> None:
    rows = [(f"a {'good' if n % 2 else 'bad'} film, number {n}", "np"[n % 2]) for n in range(100)]
    splits = {"train": rows[:60], "oos_train": rows[60:75], "val": rows[75:85], "test": rows[85:]}
    (tmp_path / "film.json").write_text(json.dumps(splits))
    notes = read_examples(ExamplesConfig(files=(str(tmp_path / "film.json"),))).notes
    assert any("train: 'train' (60 rows), 'oos_train' (15 rows); valid: 'val' (10 rows); test:" in n for n in notes)
    note = next(note for note in notes if "text: column" in note)
    assert note.endswith("film.json: text: column '1', label: column '2' (columns without names are numbered from 1).")
    by_label = {name: [text for text, label in rows if label == name] for name in "np"}
    (tmp_path / "film.json").write_text(json.dumps(by_label))
    notes = read_examples(ExamplesConfig(files=(str(tmp_path / "film.json"),))).notes
    assert any("film.json: text: column 'text', label: the keys of the JSON object." in note for note in notes)


def test_a_column_of_splits_is_named_with_what_went_where(tmp_path: Path) -> None:
    names = ["train"] * 60 + ["dev"] * 20 + ["test"] * 20
    rows = [f"a {'good' if n % 2 else 'bad'} film, number {n},{'np'[n % 2]},{names[n]}" for n in range(100)]
    (tmp_path / "film.csv").write_text("\n".join(["text,number,label,split", *rows]))
    notes = read_examples(ExamplesConfig(files=(str(tmp_path / "film.csv"),), label="label")).notes
    expected = "splits by the column 'split': train: 'train' (60 rows); valid: 'dev' (20 rows); test: 'test' (20 rows)."
    assert any(expected in note for note in notes)
    assert not any("not used: 'split'" in note for note in notes)


@pytest.mark.parametrize("value", [{"accuracy": 0.9}, {"name": "x", "version": "2"}, {"a": {"f1": [0.5, 0.6]}}, {}])
def test_settings_and_measurements_hold_no_rows(value: object, tmp_path: Path) -> None:
    with pytest.raises(json_rows.NoRowsError, match="without rows"):
        table(tmp_path / "metrics.json", value)


def test_what_cannot_be_read_is_refused_with_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for broken in ('{"a": [1, 2', '{"a" 1}', '{"a": [1] "b": 2}', '{"a": {"b": ', "{1: 2}", '{"a": 1,}'):
        (tmp_path / "broken.json").write_text(broken)
        with pytest.raises(DataError, match=r"broken.json:1: not JSON"):
            open_table(Source(tmp_path / "broken.json"), None, Findings())
    with pytest.raises(DataError, match="nested too deeply"):
        table(tmp_path / "deep.json", json.loads('{"a":' * 50 + "1" + "}" * 50))
    monkeypatch.setattr(json_rows, "MAX_COLUMN_CHARACTERS", 20)
    with pytest.raises(DataError, match=r"columns of more than 20 characters. Store one object per line, as .jsonl"):
        table(tmp_path / "columns.json", SHAPES["columns"])
    monkeypatch.undo()
    with pytest.raises(DataError, match="columns of different lengths"):
        table(tmp_path / "columns.json", {"text": TEXTS, "label": LABELS[:2]})


def test_an_object_in_small_pieces() -> None:
    text = json.dumps({"train": ROWS, "n": 1234, "more": {"deep": [10, 20, 300], "empty": [], "x": {}}}, indent=1)
    for size in (1, 2, 7, 1000):
        reader = JsonReader([text[start : start + size] for start in range(0, len(text), size)], "f")
        assert reader.peek() == "{"
        found = list(reader.members())
        assert [value for keys, _, value in found if keys[-1] == "deep"] == [10, 20, 300]
        assert [value for keys, in_list, value in found if keys == ("n",) and not in_list] == [1234]
        assert reader.peek() == ""


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_is_read_to_the_end_of_its_file(indent: int | None, tmp_path: Path) -> None:
    rows = [{"text": f"une phrase très élégante, numéro {n}", "label": "no"[n % 2]} for n in range(40)]
    whole = json.dumps(rows, indent=indent, ensure_ascii=False).encode()
    for path, content in (("f.json", whole), ("o.json", b'{"data": ' + whole + b"}\n\n")):
        (tmp_path / path).write_bytes(content.replace("numéro 3".encode(), b"num\xe9ro 3", 1))
        notes = read_examples(ExamplesConfig(files=(str(tmp_path / path),))).notes
        assert any("1 byte in 1 file is in no encoding" in note for note in notes)
    (tmp_path / "f.json").write_bytes(whole.replace("é".encode(), b"\xe9"))
    with pytest.raises(DataError, match="cannot be read in this encoding"):
        read_examples(ExamplesConfig(files=(str(tmp_path / "f.json"),), encoding="utf-8"))


@pytest.mark.parametrize("more", ["]", "x", '[{"text": "good", "label": "pos"}]', "{}"])
@pytest.mark.parametrize("value", [RECORDS, {"data": RECORDS}])
def test_text_after_a_list_or_object_is_refused(value: object, more: str, tmp_path: Path) -> None:
    (tmp_path / "film.json").write_text(json.dumps(value, indent=1) + more)
    with pytest.raises(DataError, match=r"film.json:\d+: not JSON: text after the end"):
        open_table(Source(tmp_path / "film.json"), None, Findings())

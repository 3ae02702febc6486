"""Spans of characters, as annotation tools export them, are read as words with BIO tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ExamplesConfig
from qkv.data.detect import detect
from qkv.data.examples import Labelled
from qkv.data.read_examples import read_examples
from qkv.errors import DataError

TEXTS = [f"In São Paulo, John Smith met number {n} of Siemens AG." for n in range(30)]


def spans(text: str) -> list[list[Any]]:
    names = (("São Paulo", "LOC"), ("John Smith", "PER"), ("Siemens AG", "ORG"))
    return [[text.index(name), text.index(name) + len(name), tag] for name, tag in names]


def read(folder: Path, rows: list[dict[str, Any]], name: str = "a.jsonl") -> Labelled:
    path = folder / name
    lines = json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(lines, encoding="utf-8")
    assert detect({"files": [str(path)]}).content == "examples"
    return read_examples(ExamplesConfig(files=(str(path),)), purpose="describe")


def objects(text: str) -> list[dict[str, Any]]:
    return [{"start": start, "end": end, "label": tag} for start, end, tag in spans(text)]


def studio(text: str) -> list[dict[str, Any]]:
    return [{"result": [{"value": {"start": a, "end": b, "labels": [tag]}} for a, b, tag in spans(text)]}]


ROWS = {
    "doccano": ("a.jsonl", [{"id": 1, "text": text, "label": spans(text), "Comments": []} for text in TEXTS]),
    "doccano, older": ("a.jsonl", [{"text": text, "labels": spans(text)} for text in TEXTS]),
    "objects": ("a.jsonl", [{"text": text, "spans": objects(text)} for text in TEXTS]),
    "Label Studio": ("a.json", [{"id": 1, "annotations": studio(text), "data": {"text": text}} for text in TEXTS]),
}


@pytest.mark.parametrize("tool", ROWS)
def test_spans_are_tags_of_words(tmp_path: Path, tool: str) -> None:
    name, rows = ROWS[tool]
    found = read(tmp_path, rows, name)
    assert found.task == "tagging"
    tags = {row.words: row.tags for row in found.train}  # type: ignore[union-attr]
    words = "In São Paulo , John Smith met number 0 of Siemens AG ."
    expected = "O B-LOC I-LOC O B-PER I-PER O O O O B-ORG I-ORG O"
    assert " ".join(tags[tuple(words.split())]) == expected


def test_spans_that_cut_words_or_overlap_are_counted(tmp_path: Path) -> None:
    rows = [{"text": text, "label": spans(text)} for text in TEXTS]
    rows[0]["label"][0][1] -= 2
    rows[1]["label"].append([14, 18, "OTHER"])
    found = read(tmp_path, rows)
    assert any("1 of 91 spans cut a word and are widened" in note for note in found.notes)
    assert any("1 of 91 spans overlap a longer one" in note for note in found.notes)
    assert "B-OTHER" not in found.labels.names


def test_spans_outside_of_the_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a span from 3 to 1012 in a text of 52 characters"):
        read(tmp_path, [{"text": text, "label": [[3, 1012, "LOC"]]} for text in TEXTS])


def test_lists_of_labels_are_still_several_labels(tmp_path: Path) -> None:
    found = read(tmp_path, [{"text": text, "label": ["a", "b"] if n % 2 else ["c"]} for n, text in enumerate(TEXTS)])
    assert found.task == "multi-label"

"""Tables that a package reads from the file itself: Parquet, Arrow, workbooks."""

from __future__ import annotations

import json
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from data.zoo.shapes import captions, news
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.detect import detect
from qkv.data.examples import Labelled
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats import workbook
from qkv.data.formats.tabular import open_table
from qkv.data.formats.text import read_documents
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.errors import DataError

TOPICS = ["world", "sports", "business", "science"]
ROWS = [{"text": text, "label": TOPICS.index(label)} for text, label in news(0, 60)]
README = """---
license: mit
dataset_info:
  features:
  - name: text
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': world
          '1': sports
          '2': business
          '3': "science"
  splits:
  - name: train
---
# News
"""


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    pyarrow = pytest.importorskip("pyarrow")
    path.parent.mkdir(parents=True, exist_ok=True)
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    return str(path)


def write_arrow(path: Path, rows: list[dict[str, Any]], features: Any = None, stream: bool = True) -> str:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(rows)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    with pyarrow.OSFile(str(path), "wb") as file:
        new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
        with new(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    return str(path)


def read(*files: str) -> Labelled:
    return read_examples(ExamplesConfig(files=files), purpose="describe")


def test_names_of_labels_in_the_readme_of_a_set_on_the_hub(tmp_path: Path) -> None:
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", ROWS[:40])
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", ROWS[40:])
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    assert detect({"files": [str(tmp_path)]}).content == "examples"
    found = read(str(tmp_path))
    assert set(found.labels.names) == set(TOPICS)
    assert {name: len(split) for name, split in found.splits if len(split)} == {"train": 40, "test": 20}
    assert found.train[0].label == TOPICS[ROWS[0]["label"]]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_names_of_labels_in_the_schema(stream: bool, several: bool, tmp_path: Path) -> None:
    label: Any = {"names": TOPICS, "_type": "ClassLabel"}
    rows = [{**row, "label": [row["label"]] if several else row["label"]} for row in ROWS]
    features = {"label": {"feature": label, "_type": "Sequence"} if several else label}
    found = read(write_arrow(tmp_path / "data-00000-of-00001.arrow", rows, features, stream))
    assert set(found.labels.names) == set(TOPICS)
    assert found.task == ("multi-label" if several else "classification")
    assert len(found.train) == len(ROWS)


def test_rows_without_a_label_are_no_class(tmp_path: Path) -> None:
    rows = [*ROWS * 3, {"text": "unlabelled", "label": -1}]
    features = {"label": {"names": TOPICS, "_type": "ClassLabel"}}
    found = read(write_arrow(tmp_path / "train.arrow", rows, features))
    assert set(found.labels.names) == set(TOPICS)
    assert any("1 of 181 rows left out" in note for note in found.notes)


def test_arrow_with_pairs_and_with_text(tmp_path: Path) -> None:
    pairs = list(zip(captions("en", 40), captions("de", 40), strict=True))
    rows = [{"translation": {"en": english, "de": german}} for english, german in pairs]
    file = write_arrow(tmp_path / "pairs.arrow", rows)
    assert detect({"files": [file]}).content == "pairs"
    found = read_parallel(ParallelConfig(files=(file,)), purpose="describe")
    assert [(pair.source, pair.target) for pair in found.train] == pairs
    text = Path(write_arrow(tmp_path / "text.arrow", [{"text": text, "n": 1} for text in captions("en", 40)]))
    pieces = read_documents([Source(text)], CorpusConfig(files=(str(text),)), Findings())
    assert [piece.text for piece in pieces] == captions("en", 40)


def test_damaged_arrow_files_are_refused(tmp_path: Path) -> None:
    whole = Path(write_arrow(tmp_path / "train.arrow", ROWS)).read_bytes()
    for number, content in enumerate(
        (b"", whole[:50], whole[: len(whole) // 2], b"text,label\n" * 50, b"ARROW1\0\0abc")
    ):
        path = tmp_path / f"{number}.arrow"
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"not a valid Arrow file|empty"):
            list(open_table(Source(path), None, Findings()).rows)


def write_book(path: Path, **sheets: list[list[Any]]) -> str:
    book = pytest.importorskip("openpyxl").Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return str(path)


NEWS = [
    ["id", "date", "headline", "topic"],
    *([n, date(2024, 1, 1 + n % 28), *row] for n, row in enumerate(news(0, 60))),
]


def test_the_first_sheet_with_rows(tmp_path: Path) -> None:
    file = write_book(tmp_path / "news.xlsx", empty=[], News=NEWS, Notes=[["by", "A. Bee"]])
    assert detect({"files": [file]}).content == "examples"
    found = read(file)
    assert [(example.text, example.label) for example in found.train] == news(0, 60)  # type: ignore[union-attr]
    assert any("the sheet 'News' is read; others have rows, too: Notes" in note for note in found.notes)


def test_sheets_named_for_splits(tmp_path: Path) -> None:
    found = read(write_book(tmp_path / "news.xlsx", train=NEWS[:41], test=[NEWS[0], *NEWS[41:]]))
    assert {name: len(split) for name, split in found.splits if len(split)} == {"train": 40, "test": 20}


def test_workbooks_without_a_header_and_of_numbers(tmp_path: Path) -> None:
    found = read(write_book(tmp_path / "news.xlsx", one=[row[2:] for row in NEWS[1:]]))
    assert len(found.train) == 60
    numbers = [["height", "width", "label"], *([n * 0.5, n % 7, "ab"[n % 2]] for n in range(60))]
    assert read(write_book(tmp_path / "numbers.xlsx", one=numbers)).numeric


def test_workbooks_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path(write_book(tmp_path / "news.xlsx", one=NEWS)).read_bytes()
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<broken")
    contents = {"cut": whole[:2000], "text": b"text,label\n", "other": (tmp_path / "other.xlsx").read_bytes()}
    for name, content in contents.items():
        (tmp_path / f"{name}.xlsx").write_bytes(content)
        with pytest.raises(DataError, match="not a valid workbook"):
            open_table(Source(tmp_path / f"{name}.xlsx"), None, Findings())
    with pytest.raises(DataError, match="the table is empty"):
        open_table(Source(Path(write_book(tmp_path / "empty.xlsx", one=[]))), None, Findings())
    monkeypatch.setattr(workbook, "MAX_UNPACKED", 1000)
    with pytest.raises(DataError, match=r"1,000 at most are read. Save the sheet as .csv"):
        open_table(Source(tmp_path / "news.xlsx"), None, Findings())

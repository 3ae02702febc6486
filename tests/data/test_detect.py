"""One look at the files says what they are, and nothing is opened more often than twice before training."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.descriptions import describe_pairs
from qkv.data.detect import detect
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.errors import DataError
from qkv.recipe.draft import Draft
from qkv.tasks import registry

OPENED: Counter[str] = Counter()
WATCHING = [False]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and WATCHING[0] and isinstance(arguments[0], str | Path):
        OPENED[str(arguments[0])] += 1


@pytest.fixture
def opened() -> Iterator[Counter[str]]:
    """How often each file has been opened."""
    if not getattr(_hook, "added", False):
        sys.addaudithook(_hook)
        _hook.added = True  # type: ignore[attr-defined]
    OPENED.clear()
    WATCHING[0] = True
    yield OPENED
    WATCHING[0] = False


WORDS = ("river", "stone", "cloud", "paper", "garden", "window", "summer", "letter")


def sentence(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % 8] for step in (1, 3, 5, 7)) + f" {number}"


EXAMPLES = [{"text": sentence(n), "label": "good" if n % 2 else "bad"} for n in range(60)]
NUMBERS = [{"height": n * 1.5, "width": n % 7, "label": "tall" if n > 30 else "low"} for n in range(60)]
PAIRS = [{"source": sentence(n), "target": sentence(n + 1)} for n in range(60)]
ROWS = {"examples": EXAMPLES, "numbers": NUMBERS, "pairs": PAIRS}


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    path = folder / name
    ending = path.suffix
    if ending == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif ending == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = {".csv": ",", ".tsv": "\t"}[ending]
        lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
        path.write_text("".join(mark.join(line) + "\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("content", ["examples", "numbers", "pairs"])
def test_a_table_is_opened_at_most_twice(tmp_path: Path, content: str, ending: str, opened: Counter[str]) -> None:
    path = written(tmp_path, f"rows{ending}", ROWS[content])
    opened.clear()
    values: dict[str, Any] = {"corpus": {"files": [path]}}
    detected = registry.detect_corpus(values)
    assert detected.content == ("pairs" if content == "pairs" else "examples")
    assert detected.numeric == (content == "numbers") or content == "pairs"
    registry.open_task(Draft.parse(values, "here"), None, detected)
    assert 1 <= opened[path] <= 2


def test_aligned_files_and_packed_ones(tmp_path: Path, opened: Counter[str]) -> None:
    paths = [tmp_path / "train.en", tmp_path / "train.de"]
    for shift, path in enumerate(paths):
        path.write_text("".join(sentence(n + shift) + "\n" for n in range(60)))
    files = tuple(map(str, paths))
    opened.clear()
    detected = detect({"files": files})
    assert detected.content == "pairs"
    read_parallel(ParallelConfig(files=files), previews=detected.previews)
    assert all(opened[path] == 2 for path in files)


def test_reading_with_and_without_a_look_before_is_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.csv", EXAMPLES)
    detected = detect({"files": [path]})
    config = ExamplesConfig(files=(path,))
    first, second = read_examples(config), read_examples(config, previews=detected.previews)
    assert (first.fingerprint, first.notes) == (second.fingerprint, second.notes)


def test_what_cannot_be_read_is_said_as_often_as_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"text,label\n" + bytes(range(128, 256)) * 40)
    detected = detect({"files": [str(path)]})
    for _ in range(2):
        with pytest.raises(DataError, match="not text, or in an encoding that qkv does not detect"):
            read_examples(ExamplesConfig(files=(str(path),)), previews=detected.previews)


def test_several_languages_are_parallel_text_and_which_is_asked_for(tmp_path: Path) -> None:
    for language in ("en", "de", "fr"):
        (tmp_path / f"train.{language}").write_text("".join(sentence(n) + "\n" for n in range(20)))
    assert detect({"files": [str(tmp_path)]}).content == "pairs"
    with pytest.raises(DataError, match="which languages"):
        read_parallel(ParallelConfig(files=(str(tmp_path),)))


def test_pairs_described_are_the_pairs_that_are_learned_from(tmp_path: Path) -> None:
    path = written(tmp_path, "rows.tsv", PAIRS)
    pairs = read_parallel(ParallelConfig(files=(path,)), previews=detect({"files": [path]}).previews)
    description = describe_pairs(pairs)
    assert description.task == "translation"
    assert description.splits == {"train": 60}
    assert description.columns == {"source": "source", "target": "target"}
    assert description.lengths["source"]["longest"] == max(len(pair["source"]) for pair in PAIRS)
    assert description.beginning[0] == {"source": sentence(0), "target": sentence(1)}

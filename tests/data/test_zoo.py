"""Real text in every shape that people bring: each is read as it is, with no option, as a person would read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from data.zoo import zoo_inputs, zoo_labels, zoo_tables
from data.zoo.shapes import SHAPES, Found
from qkv.cli.describe import describe
from qkv.errors import QkvError

MODULES = (zoo_inputs, zoo_labels, zoo_tables)
NOT_YET = {
    "cp1252",
    "dates_line_by_line",
    "electronic_book",
    "endings_are_labels",
    "examples_under_their_label",
    "fasta_with_a_table_of_labels",
    "file_names_are_labels",
    "folder_of_markdown",
    "folder_with_one_file_of_tags",
    "folders_beside_documentation",
    "folders_some_latin1",
    "hierarchical_label_before_the_text",
    "label_after_an_at_sign",
    "label_and_blank_before_the_text",
    "label_and_colon_before_the_text",
    "label_and_comma_before_the_text",
    "label_in_the_name_of_each_file",
    "mixed_spellings_of_a_label",
    "notebooks",
    "one_bad_byte",
    "one_object_of_splits",
    "pdf",
    "questions_and_answers",
    "saved_to_disk",
    "source_code",
    "splits_by_name_beside_documentation",
    "splits_of_pairs",
    "tar_of_a_folder",
    "texts_and_labels_by_id",
    "texts_and_labels_line_by_line",
    "utf16",
    "web_page",
    "word_document",
    "words_and_tags_in_txt",
    "words_and_tags_without_suffix",
    "words_tab_tags",
    "workbook",
}
"""Shapes that are not understood; a test fails if one of them is."""
MAX_GROWTH = 200 * 2**20
"""How many bytes the process may grow while it reads a shape; most of it is the code of optional packages."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Fail if the process grows by more than MAX_GROWTH at its peak; Linux alone tells."""
    status, peak = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not peak.exists():
        yield
        return
    peak.write_text("5", encoding="ascii")  # forget the peak so far
    before = _kilobytes(status)
    yield
    grown = 1024 * (_kilobytes(status) - before)
    assert grown < MAX_GROWTH, f"{grown / 2**20:.0f} MB more at the peak"


def _kilobytes(status: Path) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text(encoding="ascii"))
    return int(found[1]) if found else 0


def described(files: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    with bounded_memory():
        describe(*files, json=True)
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values


def difference(found: Found, values: dict[str, Any]) -> str | None:
    """What is otherwise than a person finds it; None if all is the same."""
    if (task := values.get("task", "language-modelling")) != found.task:
        return f"the task is {task}, expected {found.task}"
    if found.task == "language-modelling":
        return _text_difference(found, values)
    counts = {name: len(rows) for name, rows in found.splits.items()}
    if values["splits"] != counts:
        return f"the splits are {values['splits']}, expected {counts}"
    if found.task in ("classification", "multi-label", "images", "tagging") and set(values["labels"]) != found.labels:
        return f"the labels are {sorted(values['labels'])[:20]}, expected {sorted(found.labels)[:20]}"
    if found.columns is not None and values["lengths"]["median"] != found.columns[1]:
        return f"{values['lengths']['median']} columns, expected {found.columns[1]}"
    rows = found.splits["train"]
    for example in values["beginning"]:
        if problem := _example_difference(example, found, rows):
            return problem
    return None


def _text_difference(found: Found, values: dict[str, Any]) -> str | None:
    if values["documents"] != len(found.documents):
        return f"{values['documents']} documents, expected {len(found.documents)}"
    beginning = _words(str(values["beginning"]))
    if marks := [mark for mark in found.unlike if mark in beginning]:
        return f"the text holds {marks}"
    if not any(_words(document)[:80] in beginning for document in found.documents):
        return f"the text begins {beginning[:100]!r}"
    return None


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _begins(shown: str, text: str) -> bool:
    """Whether a text begins as it is shown; a byte that could not be read is shown as U+FFFD or otherwise."""
    kept = re.split("…|\\.\\.\\.$", _words(shown))[0].rstrip()
    return len(kept) > 3 and _words(text)[: len(kept)] == kept


def _example_difference(example: dict[str, Any], found: Found, rows: list[tuple[str, str]]) -> str | None:
    if "shape" in example or "numbers" in example:
        return None if example["label"] in found.labels else f"{example} has an unknown label"
    if "words" in example:
        words = re.sub(r"/\S+", "", example["words"])
        return None if any(_words(text).startswith(words[:20]) for text, _ in rows) else f"{example} is no sentence"
    if "source" in example:
        pairs = [target for source, target in rows if _begins(example["source"], source)]
        return None if any(_begins(example["target"], target) for target in pairs) else f"{example} is no pair"
    label = example["label"]
    shown = " ".join(sorted(label)) if isinstance(label, list) else str(label)
    labels = [label for text, label in rows if _begins(example["text"], text)]
    same = [each for each in labels if each == shown or (found.task == "regression" and float(each) == float(shown))]
    return None if same else f"{example} is not among the examples; the text has the labels {labels}"


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_shape_is_read_as_a_person_reads_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = SHAPES[name](tmp_path)
    for package in found.packages:
        pytest.importorskip(package)
    files = [str(tmp_path / given) for given in found.given] or [str(tmp_path)]
    try:
        problem = difference(found, described(files, capsys))
    except QkvError as error:
        problem = f"refused: {error}"
    if name in NOT_YET:
        assert problem, f"{name} is understood: take it from NOT_YET"
    else:
        assert problem is None, f"{name}: {problem}"


def test_the_zoo_is_large_and_its_exceptions_are_shapes_of_it() -> None:
    assert len(SHAPES) >= 60
    assert set(SHAPES) >= NOT_YET

"""Tables as spreadsheets export them: delimiters, decimal commas, titles above the header, gaps, dates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Labelled, NumberExamples
from qkv.data.formats.delimited import sniff_dialect
from qkv.data.read_examples import read_examples

REVIEWS = [f"{'ein großer Film' if n % 3 else 'öde Handlung'} Nummer {n}" for n in range(120)]


def read(path: Path, lines: list[str], **options: Any) -> Labelled:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return read_examples(ExamplesConfig(files=(str(path),), **options), purpose="describe")


@pytest.mark.parametrize(
    ("lines", "delimiter"),
    [
        (["Kritik;Note", *(f"{text};{n % 9},{n % 7}" for n, text in enumerate(REVIEWS))], ";"),
        ([f"{text};{n % 9},{n % 7}" for n, text in enumerate(REVIEWS)], ";"),
        (["a;b;c", *(f"M-{n};{n},5;2,{n}" for n in range(50))], ";"),
        (["text,label", *(f"cats; and dogs {n},{'no' if n % 2 else 'yes'}" for n in range(50))], ","),
        (["a,b;c", *(f"{n},x;y" for n in range(50))], ","),
    ],
)
def test_a_delimiter_separates_whole_cells(lines: list[str], delimiter: str) -> None:
    assert sniff_dialect(lines, ",;\t|").delimiter == delimiter


def test_ratings_with_decimal_commas_are_numbers(tmp_path: Path) -> None:
    lines = ["Kritik;Note", *(f"{text};{n % 9},{n % 7}" for n, text in enumerate(REVIEWS))]
    found = read(tmp_path / "a.csv", lines, label="Note")
    assert (found.task, dict(found.columns)) == ("regression", {"text": "Kritik", "label": "Note"})
    assert [found.train[n].label for n in (0, 8)] == [0.0, 8.1]
    assert any("decimal commas" in note for note in found.notes)
    assert read(tmp_path / "a.csv", lines, label="Note", task="regression").fingerprint == found.fingerprint


def test_columns_of_numbers_with_decimal_commas(tmp_path: Path) -> None:
    lines = [f"{n % 90},{n % 7};{n % 20 + 1}.{n % 900 + 100};{'ja' if n % 3 else 'nein'}" for n in range(200)]
    found = read(tmp_path / "a.csv", ["Druck;Laufzeit;Ausfall", *lines])
    assert isinstance(found.train, NumberExamples) and found.train.columns == ("Druck", "Laufzeit")
    assert found.train.values[8].tolist() == pytest.approx([8.1, 9108])


def test_thousands_are_not_fractions(tmp_path: Path) -> None:
    lines = [f'"{n % 9 + 1},{n % 900 + 100}",{n},{"yes" if n % 3 else "no"}' for n in range(200)]
    assert not any("decimal" in note for note in read(tmp_path / "a.csv", ["size,age,sold", *lines]).notes)

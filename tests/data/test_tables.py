"""Tables as spreadsheets export them: delimiters, decimal commas, titles above the header, gaps, dates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.detect import detect
from qkv.data.examples import Labelled, NumberExamples
from qkv.data.formats.delimited import sniff_dialect
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.errors import DataError

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
    assert isinstance(found.train, NumberExamples)
    assert found.train.columns == ("Druck", "Laufzeit")
    assert found.train.values[8].tolist() == pytest.approx([8.1, 9108])


def test_thousands_are_not_fractions(tmp_path: Path) -> None:
    lines = [f'"{n % 9 + 1},{n % 900 + 100}",{n},{"yes" if n % 3 else "no"}' for n in range(200)]
    assert not any("decimal" in note for note in read(tmp_path / "a.csv", ["size,age,sold", *lines]).notes)


COMPLAINTS = [f"C-{n:04};{text};{n % 50},5;{'Versand' if n % 3 else 'Technik'}" for n, text in enumerate(REVIEWS)]
COMPLAINTS_HEADER = "Vorgang;Beschreibung;Wert;Abteilung"


@pytest.mark.parametrize("titles", [["Übersicht 2023;;;", "Stand: 4.1.;;;", ";;;"], ["Übersicht 2023", "", ""]])
def test_titles_above_a_header_are_left_out(titles: list[str], tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", [*titles, COMPLAINTS_HEADER, *COMPLAINTS])
    assert dict(found.columns) == {"text": "Beschreibung", "label": "Abteilung"}
    assert len(found.train) == len(REVIEWS)
    assert any("the header is row 4; " in note and "left out" in note for note in found.notes)
    plain = read(tmp_path / "a.csv", [COMPLAINTS_HEADER, *COMPLAINTS])
    assert plain.fingerprint == found.fingerprint
    assert not any("the header is row" in note for note in plain.notes)


def test_titles_above_a_header_in_a_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["Übersicht 2023"], [], *(line.split(";") for line in (COMPLAINTS_HEADER, *COMPLAINTS))]
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    found = read_examples(ExamplesConfig(files=(str(tmp_path / "a.xlsx"),)), purpose="describe")
    assert dict(found.columns) == {"text": "Beschreibung", "label": "Abteilung"}
    assert any("the header is row 3; 1 row above it is" in note for note in found.notes)


def test_the_row_with_a_given_name_is_the_header(tmp_path: Path) -> None:
    lines = ["made by hand,x", "Freitext,Wer", *(f"{text},{text[:3]}{n}" for n, text in enumerate(REVIEWS[:40]))]
    found = read(tmp_path / "a.csv", lines, label="Wer", text="Freitext", task="classification")
    assert len(found.train) == 40


QUESTIONS = "Timestamp,How would you rate the conference overall?,How was the venue?,What did you like the most of all?"


def test_questions_are_a_header(tmp_path: Path) -> None:
    lines = [f"2024/05/14 9:00:{n % 60:02} AM,{n % 5 + 1},{n % 4},{text}" for n, text in enumerate(REVIEWS)]
    found = read(tmp_path / "a.csv", [QUESTIONS, *lines])
    assert found.columns["text"] == QUESTIONS.split(",")[3]
    assert found.columns["label"] in QUESTIONS.split(",")[1:3]
    assert len(found.train) == len(REVIEWS)


def test_a_text_that_is_always_there_is_preferred(tmp_path: Path) -> None:
    lines = [
        f"{n % 5 + 1},{'' if n % 4 == 0 else 'much longer and longer ' + text},{text}" for n, text in enumerate(REVIEWS)
    ]
    assert read(tmp_path / "a.csv", ["mark,improve,liked", *lines]).columns["text"] == "liked"


def test_a_header_is_no_pair(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "\n".join(["Nr;Deutsch (DE);Status;English (US)", *(f"{n};{t};final;film {n}" for n, t in enumerate(REVIEWS))])
    )
    found = read_parallel(ParallelConfig(files=(str(tmp_path / "a.csv"),), source="4", target="2"))
    assert len(found.train) + len(found.valid) == len(REVIEWS)
    (tmp_path / "b.csv").write_text(
        "\n".join(["English (US);Deutsch (DE)", *(f"film {n};{text}" for n, text in enumerate(REVIEWS))])
    )
    found = read_parallel(ParallelConfig(files=(str(tmp_path / "b.csv"),), source="1", target="2"))
    assert len(found.train) + len(found.valid) == len(REVIEWS)


@pytest.mark.parametrize("shift", ["Früh", "F3"])
def test_dates_and_ids_are_not_the_text(shift: str, tmp_path: Path) -> None:
    cells = [
        (f"{n % 28 + 1:02}.01.20{n // 28 + 10} 06:00", f"R-{n:04}", f"{n % 90},{n % 7}", shift if n % 2 else "Nacht")
        for n in range(200)
    ]
    lines = [";".join((*row, "ja" if n % 3 else "nein")) for n, row in enumerate(cells)]
    found = read(tmp_path / "a.csv", ["Zeitpunkt;Lauf;Druck;Schicht;Ausfall", *lines])
    assert isinstance(found.train, NumberExamples)
    assert found.train.columns == ("Druck", f"Schicht={shift}", "Schicht=Nacht")
    assert any(
        "not used: Zeitpunkt, Lauf (dates and times are not learned from: Zeitpunkt)" in note for note in found.notes
    )
    assert read(tmp_path / "a.csv", ["Zeitpunkt;Lauf;Druck;Schicht;Ausfall", *lines], label="Ausfall").numeric


def test_rows_without_a_label_are_left_out_with_a_count(tmp_path: Path) -> None:
    lines = [f"{text};{'' if n % 7 == 0 else 'ab'[n % 2]}" for n, text in enumerate(REVIEWS)]
    found = read(tmp_path / "a.csv", ["Text;Team", *lines])
    assert len(found.train) == 102
    assert any("18 of 120 rows left out, the first here: no label in 'Team'" in note for note in found.notes)
    numbers = [f"{n};{n / 7};{'' if n % 7 == 0 else 'ab'[n % 2]}" for n in range(120)]
    assert len(read(tmp_path / "b.csv", ["width;height;class", *numbers]).train) == 102
    mostly_blank = [f"{text};{'' if n % 5 else 'ab'[n % 2]}" for n, text in enumerate(REVIEWS)]
    with pytest.raises(DataError, match=r"a\.csv:3: 96 of 120 rows cannot be used.*--label NAME"):
        read(tmp_path / "a.csv", ["Text;Team", *mostly_blank], label="Team")


def test_a_blank_cell_is_no_label_of_several(tmp_path: Path) -> None:
    several = ("", "Drama", "Krimi", "Drama|Krimi", "Krimi|Romanze")
    lines = [f"{text};{several[n % 5]}" for n, text in enumerate(REVIEWS)]
    found = read(tmp_path / "a.csv", ["Text;Tags", *lines])
    assert (found.task, len(found.train), found.train[0].label) == ("multi-label", 120, ())
    assert any("24 of 120 rows have nothing in 'Tags'" in note for note in found.notes)


def test_a_count_that_ends_early_says_so(tmp_path: Path) -> None:
    lines = [f"{text};{'ab'[n % 2]}" if n % 2 else f";{'ab'[n % 3 // 2]}" for n, text in enumerate(REVIEWS * 3)]
    with pytest.raises(DataError, match="more than 100 of the first 360 rows cannot be used"):
        read(tmp_path / "a.csv", ["Text;Team", *lines], label="Team", text="Text")


def test_columns_that_could_be_the_label_are_named_before_the_list_ends(tmp_path: Path) -> None:
    rows = [
        {"id": n, "description": text, "tags": ["a", "bc"[n % 2]], "custom": {"team": "xy"[n % 2]}}
        | {f"more{number}": f"{number} {n}x" for number in range(10)}
        for n, text in enumerate(REVIEWS)
    ]
    found = read(tmp_path / "a.jsonl", [json.dumps(row) for row in rows])
    note = next(note for note in found.notes if "label: column 'tags'" in note)
    assert "and 3 more; 'team' could be the label, too: --label team." in note
    by_path = read(
        tmp_path / "a.jsonl", [json.dumps(row) for row in rows], text="ticket.description", label="custom.team"
    )
    assert dict(by_path.columns) == {"text": "description", "label": "team", "id": "id"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_table_in_a_text_file(encoding: str, tmp_path: Path) -> None:
    rows = [f"{n}\t{'pt-BR' if n % 2 else 'hi-IN'}\t{text}\t{'xyz'[n % 3]}" for n, text in enumerate(REVIEWS)]
    (tmp_path / "a.txt").write_text("\r\n".join(["ID\tLocale\tComentário\tAvaliação", *rows]), encoding=encoding)
    files = (str(tmp_path / "a.txt"),)
    assert detect({"files": files}).content == "examples"
    found = read_examples(ExamplesConfig(files=files), purpose="describe")
    assert any("'Avaliação' could be the label, too: --label Avaliação" in note for note in found.notes)
    (tmp_path / "a.txt").write_text("\n".join(f"{text}\n\t{text}" for text in REVIEWS))
    assert detect({"files": files}).content == "text"


def test_workbooks_are_tables_and_empty_columns_are_named(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for line in (COMPLAINTS_HEADER, *COMPLAINTS):
        book.active.append(line.split(";"))
    book.save(tmp_path / "a.xlsx")
    assert detect({"files": [str(tmp_path / "a.xlsx")]}).content == "examples"
    (tmp_path / "b.xlsx").write_bytes((tmp_path / "a.xlsx").read_bytes()[:3000])
    with pytest.raises(DataError, match="not a valid workbook"):
        read_examples(ExamplesConfig(files=(str(tmp_path / "b.xlsx"),)))
    lines = [f"{text};{text[::-1]};{text[3:]};" for text in REVIEWS]
    with pytest.raises(DataError, match=r"no column looks like a label; .* \(Team: empty\)"):
        read(tmp_path / "a.csv", ["Text;Other;More;Team", *lines])


def test_the_whole_name_of_a_column_is_suggested(tmp_path: Path) -> None:
    lines = ["Nr;Deutsch (DE);English (US)", *(f"{n};{text};film {n}" for n, text in enumerate(REVIEWS))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"Did you mean --source 'English \(US\)'\?"):
        read_parallel(ParallelConfig(files=(str(tmp_path / "a.csv"),), source="English", target="2"))

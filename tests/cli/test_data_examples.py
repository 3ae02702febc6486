"""`qkv data describe` of labelled files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.bad_examples import GOOD, conll, csv
from data_at_hand import real
from qkv.cli.app import run


def described(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["data", "describe", *words, "--json"], False) == 0
    return json.loads(capsys.readouterr().out)


def test_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_bytes(GOOD)
    found = described(capsys, str(path))
    assert found["task"] == "classification"
    assert found["columns"] == {"text": "text", "label": "label"}
    assert found["labels"] == {"0": {"train": 100}, "1": {"train": 100}}
    assert found["splits"] == {"train": 200}
    assert found["lengths"]["shortest"] == len("the film number 0 is bad")
    assert run(["data", "describe", str(path)], False) == 0
    shown = capsys.readouterr()
    assert "one class for each text" in shown.out
    assert "column 'label'" in shown.out
    assert "50.0%" in shown.out
    assert "the film number 0 is bad" in shown.out
    assert "note: " in shown.err


def test_each_split_has_its_copies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, copies in (("train", 3), ("valid", 5), ("test", 0)):
        rows = [(f"the film number {n} of {name}", "np"[n % 2]) for n in range(40)]
        (tmp_path / f"{name}.csv").write_bytes(csv(rows + rows[:copies]))
    found = described(capsys, str(tmp_path))
    assert (found["copies"], found["copies_in_splits"]) == (3, {"train": 3, "valid": 5, "test": 0})
    expected = "3 of 43 training texts (7.0%) and 5 of 45 valid texts (11.1%) are copies of others."
    assert expected in found["notes"]
    assert run(["data", "describe", str(tmp_path)], False) == 0
    shown = capsys.readouterr().out
    assert "train 3 (7.0%), valid 5 (11.1%), test none" in shown
    assert "characters (train)" in shown
    assert "share of train" in shown


def test_each_split_of_pairs_has_its_copies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, copies in (("train", 0), ("valid", 4)):
        rows = [f"the river {n} of {name} is here\tder Fluss {n} von {name} ist da\n" for n in range(40)]
        (tmp_path / f"{name}.tsv").write_text("".join(["en\tde\n", *rows, *rows[:copies]]))
    found = described(capsys, str(tmp_path / "train.tsv"), "--valid", str(tmp_path / "valid.tsv"))
    assert found["copies_in_splits"] == {"train": 0, "valid": 4}
    assert "4 of 44 valid pairs (9.1%) are copies of others." in found["notes"]


def test_columns_of_words_are_not_counted_as_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [f"{'MFI'[n % 3]},{n / 7:.3f},{n % 11 / 3:.3f},{n % 5}" for n in range(60)]
    (tmp_path / "abalone.csv").write_text("\n".join(rows))
    assert run(["data", "describe", str(tmp_path / "abalone.csv")], False) == 0
    shown = capsys.readouterr()
    assert "2 of numbers, 1 of words (3 columns of 0 and 1)" in shown.out
    expected = "to learn: column '4'; from columns 2, 3; and a column of 0 and 1 for each word of column 1 (3 words) ("
    assert expected in shown.err


def test_a_list_of_many_columns_ends_with_their_number(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    columns = ["text", "label", *(f"time{n}" for n in range(10))]
    rows = [",".join([f"the film number {n}", "np"[n % 2], *["0:12"] * 10]) for n in range(60)]
    (tmp_path / "films.csv").write_text("\n".join([",".join(columns), *rows]))
    notes = described(capsys, str(tmp_path / "films.csv"))["notes"]
    assert any("'time6', 'time7' and 2 more" in note and "..." not in note for note in notes)


def test_a_column_without_a_name_is_not_called_by_its_number_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [f"{n},{n % 4},the film number {n},{'np'[n % 2]}" for n in range(60)]
    (tmp_path / "films.csv").write_text("\n".join([",count,text,label", *rows]))
    notes = described(capsys, str(tmp_path / "films.csv"))["notes"]
    assert any("not used: column 1 (no name), 'count'" in note for note in notes)


def test_files_with_labels_line_by_line_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        lines = [f"the {split} film number {n} is {'good' if n % 2 else 'bad'}" for n in range(40)]
        (tmp_path / f"{split}_text.txt").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{split}_labels.txt").write_text("\n".join(str(n % 2) for n in range(40)) + "\n")
    notes = described(capsys, str(tmp_path))["notes"]
    expected = (
        "test_labels.txt has the labels of the lines of test_text.txt; 2 more pairs of files are read the same way."
    )
    assert any(expected in note for note in notes)


def test_options_say_otherwise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_bytes(csv([(f"film {n}", f"remark {n}", n % 3) for n in range(60)], "text,remark,label"))
    assert described(capsys, str(path), "--text", "remark")["columns"]["text"] == "remark"
    numbers = described(capsys, str(path), "--task", "regression")
    assert numbers["numbers"] == {"lowest": 0.0, "mean": 1.0, "highest": 2.0}
    assert described(capsys, str(path), "--text2", "remark")["pairs"]
    assert run(["data", "describe", str(path), "--label", "lable"], False) == 2
    assert "Did you mean --label label?" in capsys.readouterr().err
    assert run(["data", "describe", str(path), "--task", "clasification"], False) == 2
    assert "task" in capsys.readouterr().err


def test_tags_and_control_characters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(conll(20).replace(b"Rome", b"Ro\x1bme"))
    assert run(["data", "describe", str(path)], False) == 0
    shown = capsys.readouterr().out
    assert "a tag for each word" in shown
    assert "\x1b" not in shown


def test_text_stays_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "stories.jsonl"
    path.write_text("".join(json.dumps({"text": f"story {n}"}) + "\n" for n in range(30)))
    assert described(capsys, str(path))["documents"] == 30


def test_a_real_folder(capsys: pytest.CaptureFixture[str]) -> None:
    found = described(capsys, str(real("rte")))
    assert found["splits"] == {"train": 2490, "valid": 277}
    assert found["pairs"]

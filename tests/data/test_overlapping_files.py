"""Files that are read together although one holds a part of the other."""

from __future__ import annotations

import json
from pathlib import Path

from qkv.data.corpus import ExamplesConfig
from qkv.data.findings import Caution
from qkv.data.read_examples import read_examples


def write(folder: Path, name: str, numbers: range) -> None:
    label = folder.name
    folder.mkdir(exist_ok=True)
    rows = [{"text": f"the song number {n} for {label}", "label": label} for n in numbers]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_examples_of_a_file_that_are_in_its_full_version_are_counted(tmp_path: Path) -> None:
    for label in ("play", "rate", "book"):
        write(tmp_path / label, f"train_{label}.jsonl", range(30))
        write(tmp_path / label, f"train_{label}_full.jsonl", range(20, 100))
        write(tmp_path / label, f"validate_{label}.jsonl", range(200, 210))
    found = read_examples(ExamplesConfig(files=(str(tmp_path),)))
    (note,) = (note for note in found.notes if "are read together" in note)
    assert isinstance(note, Caution)
    assert "_full.jsonl and 2 more such pairs are read together: 30 of the 90 examples in the files without" in note
    assert note.endswith("without '_full.jsonl' are in those with it; --filter '*_full.jsonl' reads only these.")
    only = read_examples(ExamplesConfig(files=(str(tmp_path),), filter="*_full.jsonl"))
    assert len(only.undivided().train) == 240


def test_parts_that_have_nothing_in_common_are_not_worth_a_note(tmp_path: Path) -> None:
    for label in ("play", "rate"):
        write(tmp_path / label, f"train_{label}.jsonl", range(30))
        write(tmp_path / label, f"train_{label}_more.jsonl", range(30, 60))
    found = read_examples(ExamplesConfig(files=(str(tmp_path),)))
    assert not any("are read together" in note for note in found.notes)

"""A file one can hold in the head; a model one can read in a sitting."""

from __future__ import annotations

from pathlib import Path

import pytest

MODEL_LINES = 130
FILE_LINES = 300


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", ["gpt.py", "modern.py"])
def test_a_model_file_is_short(source: Path, name: str) -> None:
    path = source / "models" / name
    if not path.exists():
        pytest.skip(f"models/{name} is not written yet")
    assert lines(path) <= MODEL_LINES


def test_no_long_files(source: Path) -> None:
    long = {str(path.relative_to(source)): lines(path) for path in source.rglob("*.py") if lines(path) > FILE_LINES}
    assert not long, f"a long file is a question: {long}"

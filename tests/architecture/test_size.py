"""A file one can hold in the head; a model one can read in a sitting."""

from __future__ import annotations

from pathlib import Path

MODEL_LINES = 135  # with the defaults of its kinds
FILE_LINES = 300
# files that became too long when small modules were merged; the list may only shrink
LONG = {
    "data/encode.py",
    "data/examples.py",
    "generation/native.py",
    "tasks/translation/predict.py",
    "text/tokenizer.py",
    "training/run.py",
}


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_model_files_are_short(source: Path) -> None:
    models = sorted((source / "models").glob("*.py"))
    assert {"gpt", "modern", "rnn"} <= {path.stem for path in models}
    assert all(lines(path) <= MODEL_LINES for path in models)


def test_no_long_files(source: Path) -> None:
    long = {str(path.relative_to(source)): lines(path) for path in source.rglob("*.py") if lines(path) > FILE_LINES}
    assert not long.keys() - LONG, f"a long file is a question: {long}"
    assert not LONG - long.keys(), "these are short enough now: take them off the list"

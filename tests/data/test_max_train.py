"""Where encoding all examples would take too long, some are learned from, evenly spread; the recipe holds how many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.prepare_examples import TIMED_EXAMPLES, examples_in_time, prepare_examples
from qkv.data.prepare_pairs import prepare_parallel
from qkv.text.tokenizer import TokenizerConfig

CHARACTERS = TokenizerConfig(kind="characters")


class Watch:
    """A clock that encoding moves."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.time, self.encoded = seconds, 0.0, 0

    def __call__(self) -> float:
        return self.time

    def encode(self, part: slice) -> None:
        self.time += self.seconds * len(range(10_000)[part])


@pytest.mark.parametrize(("a_text", "expected"), [(0.0001, 0), (0.01, 1000), (10.0, TIMED_EXAMPLES)])
def test_as_many_as_there_is_time_for(a_text: float, expected: int) -> None:
    watch = Watch(a_text)
    found = examples_in_time(10_000, watch.encode, 10.0, watch)
    assert found == pytest.approx(expected, rel=0.02)


def test_few_examples_are_not_timed() -> None:
    assert examples_in_time(TIMED_EXAMPLES, Watch(100.0).encode, 1.0) == 0


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [f"text number {number} is {'good' if number % 2 else 'bad'},{number % 2}" for number in range(400)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return path


def test_examples_are_spread_and_the_recipe_gives_the_same_again(table: Path) -> None:
    whole = prepare_examples(ExamplesConfig(files=(str(table),)), CHARACTERS)
    some = whole.limited(40)
    assert len(some.labelled.train) == 40
    assert np.bincount(some.labelled.train.targets).min() >= 10
    assert len(some.labelled.valid) == len(whole.labelled.valid)
    assert any(note.startswith("40 of ") for note in some.notes)
    again = prepare_examples(some.config, CHARACTERS)
    assert (again.labelled.train.rows == some.labelled.train.rows).all()
    assert again.within(0.0) is again  # what was decided stays
    assert whole.limited(0).labelled is whole.labelled


def test_pairs_likewise(tmp_path: Path) -> None:
    for language in ("en", "de"):
        lines = [f"{language} sentence number {number} of many" for number in range(400)]
        (tmp_path / f"a.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = ParallelConfig(files=(str(tmp_path / "a.en"), str(tmp_path / "a.de")))
    some = prepare_parallel(config, TokenizerConfig()).limited(50)
    assert len(some.parallel.train) == 50
    again = prepare_parallel(some.config, TokenizerConfig())
    assert [pair.source for pair in again.parallel.train] == [pair.source for pair in some.parallel.train]

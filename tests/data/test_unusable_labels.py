"""Examples whose labels cannot be learned: counted in what is left out, and refused where they are too many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Labelled
from qkv.data.read_examples import read_examples
from qkv.errors import DataError

SENTENCE = "The DET\nold ADJ\ndog NOUN\nsleeps VERB\n\n"
ODD = ("Well INTJ\nhe PRON\nsleeps VERB\n\n", "Alas INTJ\nno DET\ndog NOUN\nand CCONJ\n\n")


def tagged(folder: Path, odd: int, held_out: int = 40) -> Labelled:
    """Sentences of which so many held-out ones have tags that the training sentences do not have."""
    (folder / "train.conll").write_text("".join(SENTENCE.replace("dog", f"dog{n}") for n in range(40)))
    sentences = [ODD[n % 2] if n < odd else SENTENCE.replace("dog", f"cat{n}") for n in range(held_out)]
    (folder / "test.conll").write_text("".join(sentences))
    return read_examples(ExamplesConfig(files=(str(folder),)))


def test_sentences_with_unknown_tags_are_counted_as_sentences(tmp_path: Path) -> None:
    one = tagged(tmp_path, 1)
    assert one.test is not None
    assert len(one.test) == 39
    note = next(note for note in one.notes if "left out" in note)
    assert "test.conll:1: 1 of 40 test sentences left out: the tag 'INTJ' and 1 other are not among the tags" in note


def test_a_share_of_sentences_with_unknown_tags_is_left_out_and_more_are_refused(tmp_path: Path) -> None:
    some = tagged(tmp_path, 8)
    assert some.test is not None
    assert len(some.test) == 32
    note = next(note for note in some.notes if "left out" in note)
    assert "8 of 40 test sentences left out: the tag 'INTJ' and 2 others are not among the tags of the training" in note
    with pytest.raises(DataError, match=r"in 9 of 40 test sentences. Known are ADJ, DET, NOUN, VERB. Up to one sent"):
        tagged(tmp_path, 9)


def read(folder: Path, odd: list[str]) -> Labelled:
    for name, labels in (("train", ["good", "bad"] * 150), ("test", [*odd, *["good", "bad"] * 150])):
        rows = [f"the film number {n} of {name},{label}" for n, label in enumerate(labels)]
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]))
    return read_examples(ExamplesConfig(files=(str(folder),)))


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (["fair"] * 2, "2 of 302 test rows left out: the label 'fair' is not among the labels"),
        (["fair", "poor", "so-so"], "3 of 303 test rows left out: the label 'fair' and 2 others are not among"),
    ],
)
def test_the_number_of_different_labels_is_said(odd: list[str], expected: str, tmp_path: Path) -> None:
    found: Any = read(tmp_path, odd)
    assert any(expected in note for note in found.notes)
    assert len(found.test) == 300


def test_many_unknown_labels_are_refused_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the label 'a' and 3 others are not among the labels .* so on 20 of 320 test"):
        read(tmp_path, ["a", "b", "c", "d"] * 5)

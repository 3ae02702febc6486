"""How much of the validation text the training text holds as well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_at_hand import real
from qkv.data.findings import Caution
from qkv.data.split import Overlap, SplitText


def overlap(train: str, valid: str, size: int = 2**20) -> Overlap:
    watched = Overlap()
    for number, text in enumerate((train, valid)):
        starts = range(0, max(1, len(text)), size)
        for start in starts:
            watched.add(SplitText(bool(number), text[start : start + size], start == starts[-1]))
    return watched


def test_sentences() -> None:
    sentences = [f"this is the sentence number {number:02} of quite some length" for number in range(99)]
    held_out = sentences[:25] + [line.replace("quite", "about") for line in sentences[25:50]]
    found = overlap(". ".join(sentences), ". ".join(held_out))
    assert found.share() == pytest.approx(0.5, abs=0.01)
    (note,) = found.notes()
    assert isinstance(note, Caution)


def test_no_overlap_is_not_worth_a_note_and_little_is_not_called_none() -> None:
    assert not list(overlap("one text of some words\n", "and quite another one\n").notes())
    lines = "\n".join(f"the line number {number:05} of quite a long text" for number in range(5000))
    (note,) = overlap("one text of some words\n", f"{lines}\none text of some words\n").notes()
    assert note.startswith("overlap: less than 0.1% of the lines")
    assert not isinstance(note, Caution)


@given(st.lists(st.text("abc}.\n", max_size=6), min_size=1, max_size=20), st.integers(1, 40))
def test_a_copy_is_found_whatever_it_holds(lines: list[str], size: int) -> None:
    text = "\n".join(lines)
    (note,) = overlap(text, text, size).notes()
    assert "overlap: 100.0%" in note
    assert ", and 1 of 1 documents whole" in note


def test_short_lines_of_real_text() -> None:
    text = real("names/names.txt").read_text()
    cut = int(0.9 * len(text))
    train, valid = text[:cut], text[cut:]
    held_out = set(valid.split())
    true_share = len(held_out & set(train.split())) / len(held_out)
    assert overlap(train, valid).share() == pytest.approx(true_share, abs=0.01)
    assert overlap(text, text).share() == 1.0


def test_lines_that_are_everywhere_hardly_weigh() -> None:
    def program(name: str) -> str:
        function = "void {0}_{1}(int {0})\n{{\n    {0}_run({1}, {0});\n    return;\n}}\n\n"
        return "".join(function.format(name, number) for number in range(200))

    assert overlap(program("first"), program("second")).share() < 0.01


def test_it_does_not_matter_how_the_text_comes() -> None:
    text = "".join(f"name{number}\n" for number in range(500))
    assert overlap(text[:2000], text, 7).share() == overlap(text[:2000], text).share()


def test_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.split.MAX_UNITS", 500)
    text = "".join(f"line {number} padded to be long enough to count here\n" for number in range(3000))
    found = overlap(text, text[len(text) // 2 :], 5000)
    assert max(map(len, found.units)) <= 700
    assert found.share() > 0.95

"""What is held out: whole documents by their content, or exactly the tail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_at_hand import real
from qkv.data.readers import Piece
from qkv.data.splits import Census, Overlap


def split(documents: list[str], fraction: float = 0.1, size: int = 7) -> tuple[list[str], list[str]]:
    """The training and the validation documents."""
    pieces = []
    for document in documents:
        parts = [document[start : start + size] for start in range(0, len(document), size)] or [""]
        pieces += [Piece(part, number == len(parts) - 1) for number, part in enumerate(parts)]
    census = Census()
    for text, ends in pieces:
        census.add(text, ends)
    sides: tuple[list[str], list[str]] = ([], [])
    open_text = ["", ""]
    for valid, text, ends in census.border(fraction).sides(pieces):
        open_text[valid] += text
        if ends:
            sides[valid].append(open_text[valid])
            open_text[valid] = ""
    assert open_text == ["", ""]
    return sides


def test_tiny_shakespeare_holds_out_the_usual_tenth() -> None:
    text = real("tinyshakespeare/input.txt").read_text(encoding="utf-8")
    train, valid = split([text], size=2**16)
    assert len(text) == 1_115_394
    assert train == [text[:1_003_854]]
    assert valid == [text[1_003_854:]]


@given(st.text(min_size=2, max_size=80), st.floats(0.05, 0.9), st.integers(1, 30))
def test_one_document_is_cut_once(text: str, fraction: float, size: int) -> None:
    train, valid = split([text], fraction, size)
    assert "".join(train) == text[: int((1 - fraction) * len(text))]
    assert "".join(train) + "".join(valid) == text


@given(st.lists(st.text(min_size=1, max_size=9), min_size=2, max_size=40), st.floats(0.05, 0.9))
def test_something_is_on_either_side(documents: list[str], fraction: float) -> None:
    train, valid = split(documents, fraction)
    assert train
    assert valid
    assert sorted(train + valid) == sorted(documents)
    if len(set(documents)) > 1:
        assert not set(train) & set(valid)  # a copy never sits on the other side


def test_the_share_is_kept_and_the_order_does_not_matter() -> None:
    documents = [f"document number {number} " * (1 + number % 7) for number in range(400)]
    _, valid = split(documents)
    share = sum(map(len, valid)) / sum(map(len, documents))
    assert abs(share - 0.1) < 0.01
    again = split(documents[::-1])
    assert set(again[1]) == set(valid)


def test_overlap_is_measured() -> None:
    overlap = Overlap()
    sentences = [f"this is the sentence number {number} of quite some length" for number in range(100)]
    overlap.add(False, ".\n".join(sentences), False)
    overlap.add(True, ".\n".join(sentences[:25] + [line + " but changed" for line in sentences[25:50]]), False)
    assert overlap.share() == 0.5
    assert Overlap().share() == 0.0


def test_overlap_keeps_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.splits.MOST_UNITS", 500)
    overlap = Overlap()
    text = "\n".join(f"line {number} padded to be long enough to count here" for number in range(3000))
    for side in (False, True):
        for start in range(0, len(text), 5000):
            overlap.add(side, text[start : start + 5000], False)
    assert max(map(len, overlap.units)) <= 700
    assert overlap.share() > 0.95

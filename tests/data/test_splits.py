"""What is held out: whole documents by their content, or exactly the tail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_at_hand import real
from qkv.data.formats.text import DocumentPiece
from qkv.data.split import DocumentCensus


def split(documents: list[str], fraction: float = 0.1, size: int = 7) -> tuple[list[str], list[str]]:
    """The training and the validation documents."""
    pieces = []
    for document in documents:
        parts = [document[start : start + size] for start in range(0, len(document), size)] or [""]
        pieces += [DocumentPiece(part, number == len(parts) - 1) for number, part in enumerate(parts)]
    census = DocumentCensus()
    for text, ends in pieces:
        census.add(text, ends)
    sides: tuple[list[str], list[str]] = ([], [])
    open_text = ["", ""]
    for valid, text, ends in census.choose_split(fraction).split(pieces):
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
    assert sum(map(len, train + valid)) == sum(map(len, documents))
    if len(set(documents)) > 1 and sorted(train + valid) == sorted(documents):
        assert not set(train) & set(valid)  # a copy never sits on the other side


def share(documents: list[str], fraction: float = 0.1) -> float:
    """How much is held out, in any order of the documents."""
    sides = [split(order, fraction, size=997) for order in (documents, documents[::-1])]
    assert [sorted(side) for side in sides[0]] == [sorted(side) for side in sides[1]]
    return sum(map(len, sides[0][1])) / sum(map(len, documents))


def of_length(length: int, number: int) -> str:
    return f"{number} " + "x" * (length - len(f"{number} "))


@given(st.lists(st.integers(20, 5000), min_size=2, max_size=30), st.integers(0, 1000), st.floats(0.05, 0.95))
def test_neither_side_misses_its_size_by_more_than_twice(lengths: list[int], start: int, fraction: float) -> None:
    found = share([of_length(length, start + number) for number, length in enumerate(lengths)], fraction)
    for part, wanted in ((found, fraction), (1 - found, 1 - fraction)):
        assert wanted / 2 - 0.02 <= part <= 2 * wanted + 0.02


@pytest.mark.parametrize("number", range(10))
def test_a_long_book_beside_a_note_is_not_held_out(number: int) -> None:
    train, valid = split([of_length(100_000, number), "a note"], size=997)
    assert "a note" in train
    assert [len(text) for text in valid] == [10_001]


@pytest.mark.parametrize("number", range(10))
def test_a_long_book_beside_enough_notes_stays_whole(number: int) -> None:
    book = of_length(100_000, number)
    train, valid = split([book, *(of_length(1000, note) for note in range(40))], size=997)
    assert book in train
    assert 7_000 <= sum(map(len, valid)) <= 21_000


def test_two_equal_books_are_cut_at_the_end_of_one() -> None:
    books = [of_length(50_000, 1), of_length(50_000, 2)]
    train, valid = split(books, size=997)
    assert [len(text) for text in valid] == [10_000]
    assert sorted(map(len, train)) == [40_000, 50_000]
    assert any(book.endswith(valid[0]) for book in books)


def test_copies_of_a_cut_document_are_cut_alike() -> None:
    book = "".join(f"line {number}\n" for number in range(9000))
    train, valid = split([book, "a note", book], size=997)
    assert train[0] == train[2]
    assert valid == [book[len(train[0]) :]] * 2
    assert 0.09 < len(valid[0]) / len(book) < 0.11


def test_a_cut_that_was_good_stays() -> None:
    """The sides of this corpus as the first version drew them."""
    documents = [f"document number {number} " * (1 + number % 7) for number in range(60)]
    _, valid = split(documents)
    assert sorted(int(text.split()[2]) for text in valid) == [3, 10, 14, 25, 46, 47]


def test_the_share_is_kept_and_the_order_does_not_matter() -> None:
    documents = [f"document number {number} " * (1 + number % 7) for number in range(400)]
    assert abs(share(documents) - 0.1) < 0.01

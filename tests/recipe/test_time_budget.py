"""The time budget: more time never takes a smaller model, a text seen often gets dropout, and what is set stays."""

from __future__ import annotations

import pytest

from qkv.models.language_model import count
from qkv.recipe import resolve, time_budget
from qkv.recipe.recipe import parse_model


def size(row: time_budget.SizePreset) -> int:
    return count(parse_model(resolve.language_model({}, 1024, 400_000, row), "here").build())


def test_rows_are_in_order_and_grow() -> None:
    starts = [row.seconds for row in time_budget.SIZES]
    assert starts == sorted(starts)
    assert starts[0] == 0
    sizes = [size(row) for row in time_budget.SIZES]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("row", time_budget.SIZES)
def test_a_row_starts_at_its_seconds(row: time_budget.SizePreset) -> None:
    library = 10**9
    assert time_budget.size_for(row.seconds, library) is row
    assert time_budget.size_for(row.seconds + 1, library) is row


def test_no_time_at_all_takes_the_first_row() -> None:
    assert time_budget.size_for(-3.0, 10**6) is time_budget.SIZES[0]


def test_a_short_text_takes_a_deeper_row_instead_of_being_seen_again_and_again() -> None:
    shakespeare = {28.0: (2, 128), 110.0: (2, 192), 290.0: (4, 192), 870.0: (6, 192), 9000.0: (6, 192)}
    a_quarter = {28.0: (2, 128), 50.0: (4, 128), 290.0: (6, 128)}
    for tokens, wanted in ((410_000, shakespeare), (132_000, a_quarter)):
        found = {seconds: time_budget.size_for(seconds, tokens) for seconds in wanted}
        assert {seconds: (row.layers, row.width) for seconds, row in found.items()} == wanted


def test_a_text_too_short_for_any_deep_row_keeps_the_smallest() -> None:
    for seconds in (90.0, 9000.0):
        assert time_budget.size_for(seconds, 40_000) is time_budget.SIZES[0]


def test_a_deep_row_has_enough_after_a_few_epochs() -> None:
    assert {time_budget.useful_epochs(row) for row in time_budget.DEEP_SIZES} == {time_budget.DEEP_EPOCHS}
    assert {time_budget.useful_epochs(row) for row in time_budget.SIZES} == {float("inf")}
    assert time_budget.dropout(time_budget.DEEP_EPOCHS) == 0.0


def test_dropout_follows_how_often_a_text_is_seen() -> None:
    shares = [time_budget.dropout(epochs) for epochs in (0.1, 3.9, 4.0, 14.0, 15.0, 100.0)]
    assert shares == [0.0, 0.0, 0.1, 0.1, 0.2, 0.2]


def test_epochs_are_counted_from_the_speed_of_the_row() -> None:
    row = time_budget.SIZES[0]
    assert row.epochs(10.0, int(10 * row.speed)) == pytest.approx(1.0)


def test_dropout_of_the_time_budget_does_not_replace_what_was_said() -> None:
    for said in (0.0, 0.3):
        model = resolve.language_model({"dropout": said}, 1024, 400_000, time_budget.SIZES[0], 0.1)
        assert model["dropout"] == said

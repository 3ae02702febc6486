"""The dial: more time never takes a smaller row, a text seen often gets dropout, and what the user said stays."""

from __future__ import annotations

import pytest

from qkv.models.language_model import count
from qkv.recipe import choices, dial
from qkv.recipe.recipe import parse_model


def size(row: dial.Rung) -> int:
    values: choices.Values = {}
    choices.choose_model(values, 1024, 400_000, row)
    return count(parse_model(values["model"], "here").build())


def test_rows_are_in_order_and_grow() -> None:
    starts = [row.seconds for row in dial.RUNGS]
    assert starts == sorted(starts)
    assert starts[0] == 0
    sizes = [size(row) for row in dial.RUNGS]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("row", dial.RUNGS)
def test_a_row_starts_at_its_seconds(row: dial.Rung) -> None:
    library = 10**9
    assert dial.rung(row.seconds, library) is row
    assert dial.rung(row.seconds + 1, library) is row


def test_no_time_at_all_takes_the_first_row() -> None:
    assert dial.rung(-3.0, 10**6) is dial.RUNGS[0]


def test_a_short_text_takes_a_larger_row_instead_of_being_seen_again_and_again() -> None:
    first, second = dial.RUNGS[:2]
    assert dial.rung(90.0, 10**9) is first
    tokens = int(90.0 * first.speed / (1.1 * dial.OFTEN))
    assert dial.rung(90.0, tokens) is second
    assert dial.rung(300.0, 410_000) is dial.RUNGS[2]
    for seconds in (90.0, 9000.0):
        assert dial.rung(seconds, 40_000) is first, "a larger model would have too many weights for so short a text"


def test_dropout_follows_how_often_a_text_is_seen() -> None:
    shares = [dial.dropout(epochs) for epochs in (0.1, 3.9, 4.0, 14.0, 15.0, 100.0)]
    assert shares == [0.0, 0.0, 0.1, 0.1, 0.2, 0.2]


def test_epochs_are_counted_from_the_speed_of_the_row() -> None:
    row = dial.RUNGS[0]
    assert row.epochs(10.0, int(10 * row.speed)) == pytest.approx(1.0)


def test_dropout_of_the_dial_does_not_replace_what_was_said() -> None:
    for said in (0.0, 0.3):
        values: choices.Values = {"model": {"dropout": said}}
        choices.choose_model(values, 1024, 400_000, dial.RUNGS[0], 0.1)
        assert values["model"]["dropout"] == said

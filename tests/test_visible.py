"""Shares as percentages: what is rounded to nothing or to all is not called none or all."""

from __future__ import annotations

import pytest

from qkv.visible import percent


@pytest.mark.parametrize(
    ("share", "digits", "expected"),
    [
        (0.0, 1, "0.0%"),
        (2 / 5500, 1, "less than 0.1%"),
        (0.0006, 1, "0.1%"),
        (0.123, 1, "12.3%"),
        (5499 / 5500, 1, "more than 99.9%"),
        (1.0, 1, "100.0%"),
        (0.00004, 2, "less than 0.01%"),
        (0.0006, 2, "0.06%"),
    ],
)
def test_percentages(share: float, digits: int, expected: str) -> None:
    assert percent(share, digits) == expected

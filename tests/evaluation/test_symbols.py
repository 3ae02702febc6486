"""Errors of symbols: distances by hand and by law, rates beside the nearest reference, intervals, two systems."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.evaluation.translation_metrics import SymbolOutputs
from qkv.evaluation.translation_metrics import edit_distance as errors

short = st.lists(st.sampled_from("abc"), max_size=6)


@pytest.mark.parametrize(
    ("said", "true", "wrong"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("abc", "xabc", 1), ("ab", "ba", 2)],
)
def test_distances(said: str, true: str, wrong: int) -> None:
    assert errors(said, true) == wrong


@given(short, short, short)
def test_laws(one: list[str], other: list[str], third: list[str]) -> None:
    assert errors(one, other) == errors(other, one)
    assert (errors(one, other) == 0) == (one == other)
    assert errors(one, third) <= errors(one, other) + errors(other, third)
    assert abs(len(one) - len(other)) <= errors(one, other) <= max(len(one), len(other))


def test_the_nearest_reference_counts() -> None:
    said = ["T UW M AA", "R EH D", "AH"]
    true = [["T AH M EY T OW"], ["R IY D", "R EH D"], ["AH B", "EY"]]
    # T UW M AA -> T AH M EY T OW: four changes of six; R EH D is right; AH -> EY: one of one, AH B: one of two
    outputs = SymbolOutputs(said, said, true)
    assert outputs.quick_scores() == {"symbol_error_rate": 5 / 10, "word_error_rate": 2 / 3, "criterion": 5 / 10}
    score = outputs.score(loss=1.5)
    symbols, words = score.scores["symbol_error_rate"], score.scores["word_error_rate"]
    assert (symbols.value, words.value, score.count) == (5 / 10, 2 / 3, 3)
    assert score.quality == 0.5
    assert [row.value for row in score.rows()] == ["0.5000", "0.6667", "1.5000"]
    assert score.values()["symbol_error_rate"] == 0.5
    assert outputs.worst(5) == [(2, 1.0), (0, pytest.approx(4 / 6))]
    table = outputs.by_length()
    assert [(each.most, each.count) for each in table] == [(5, 2), (10, 1)]
    assert sum(each.count for each in table) == 3


def test_intervals_hold_the_rate() -> None:
    said = [" ".join(each) for each in itertools.product("ab", repeat=6)]
    score = SymbolOutputs(said, said, [["a a a a a a"]] * len(said)).score()
    symbols, words = score.scores["symbol_error_rate"], score.scores["word_error_rate"]
    assert symbols.value == 0.5
    assert symbols.low < 0.5 < symbols.high
    assert words.low < words.value == 63 / 64


def test_two_systems_on_the_same_sources() -> None:
    true = [["a b c d"]] * 40
    right, wrong = ["a b c d"] * 40, ["a b c x"] * 40
    outputs = lambda texts: SymbolOutputs(right, texts, true)  # noqa: E731
    found = outputs(right).compared_with(outputs(wrong))
    assert (found.values["first"], found.values["second"]) == (0.0, 0.25)
    assert "better" in found.sentence
    mixed = right[:20] + wrong[:20]
    assert "not distinguishable" in outputs(mixed).compared_with(outputs(mixed[::-1])).sentence
    assert outputs(right).compared_with(outputs(right)).values["noise"]

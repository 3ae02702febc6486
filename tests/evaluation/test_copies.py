"""Copies between texts: exact, edited, none; and within a text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from qkv.evaluation import text_baselines

random = np.random.default_rng(5)
ONE, OTHER = random.integers(0, 60, 5_000), random.integers(0, 60, 3_000)


def plainly(text: list[int], other: list[int], length: int) -> float:
    """The same by comparing every stretch with every other."""
    theirs = {tuple(other[start : start + length]) for start in range(len(other) - length + 1)}
    inside = [False] * len(text)
    for start in range(len(text) - length + 1):
        if tuple(text[start : start + length]) in theirs:
            inside[start : start + length] = [True] * length
    return float(np.mean(inside))


tokens = some.lists(some.integers(0, 2), min_size=8, max_size=40)


@given(text=tokens, other=tokens, length=some.integers(1, 8))
def test_shared_is_what_comparing_finds(text: list[int], other: list[int], length: int) -> None:
    assert text_baselines.shared(np.array(text), np.array(other), length) == pytest.approx(plainly(text, other, length))


@given(text=tokens, length=some.integers(1, 8))
def test_repeated_is_what_comparing_finds(text: list[int], length: int) -> None:
    starts = range(len(text) - length + 1)
    stretches = [tuple(text[start : start + length]) for start in starts]
    twice = [each for each in set(stretches) if stretches.count(each) > 1]
    wanted = plainly(text, [token for each in twice for token in (*each, 9)], length) if twice else 0.0
    assert text_baselines.repeated(np.array(text), length) == pytest.approx(wanted)


def test_a_copy_is_found_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_baselines, "HASHED", 97)
    whole = np.concatenate([OTHER[:1_000], ONE[:50], OTHER[1_000:]])
    assert text_baselines.shared(ONE[:50], whole, 40) == 1
    assert text_baselines.shared(ONE[:100], whole, 40) == pytest.approx(0.5, abs=0.02)
    assert text_baselines.shared(ONE, OTHER, 40) == 0
    assert text_baselines.repeated(whole, 40) == 0


def test_edits_do_not_hide_a_copy() -> None:
    edited = ONE.copy()
    edited[::100] = 61
    assert text_baselines.shared(edited, ONE, 40) > 0.95


def test_short_texts() -> None:
    assert text_baselines.shared(ONE[:3], OTHER, 40) == 0
    assert text_baselines.shared(ONE, OTHER[:3], 40) == 0
    assert text_baselines.repeated(ONE[:3], 40) == 0
    assert text_baselines.shingle_length(1.0) == 40
    assert text_baselines.shingle_length(4.0) == 10
    assert text_baselines.shingle_length(1000.0) == 4

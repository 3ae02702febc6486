"""Choosing the next token: each knob by its formula, and the draw by its frequencies."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from qkv.errors import InputError
from qkv.generation.sampling import Sampling, adjust, draw, keep_best, keep_min_p, keep_top_k, keep_top_p, penalize

# probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625, in a mixed order
SHARES = torch.tensor([[0.125, 0.5, 0.0625, 0.25, 0.0625]])
LOGITS = SHARES.log()
NOTHING = torch.zeros(1, 0, dtype=torch.long)


def kept(logits: Tensor) -> list[int]:
    return logits[0].isfinite().nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("k", "expected"), [(1, [1]), (2, [1, 3]), (3, [0, 1, 3]), (5, [0, 1, 2, 3, 4]), (99, [0, 1, 2, 3, 4])]
)
def test_top_k(k: int, expected: list[int]) -> None:
    found = keep_top_k(LOGITS, k)
    assert kept(found) == expected
    assert torch.equal(found[0, expected], LOGITS[0, expected]), "what stays is unchanged"


@pytest.mark.parametrize(
    ("p", "expected"),
    [(0.01, [1]), (0.5, [1]), (0.51, [1, 3]), (0.75, [1, 3]), (0.8, [0, 1, 3]), (1.0, [0, 1, 2, 3, 4])],
)
def test_top_p(p: float, expected: list[int]) -> None:
    """The fewest likeliest tokens that together reach p; the likeliest always stays."""
    assert kept(keep_top_p(LOGITS, p)) == expected


@pytest.mark.parametrize(
    ("p", "expected"), [(0.0, [0, 1, 2, 3, 4]), (0.2, [0, 1, 3]), (0.4, [1, 3]), (0.6, [1]), (1.0, [1])]
)
def test_min_p(p: float, expected: list[int]) -> None:
    """At least p times the likeliest one's probability."""
    assert kept(keep_min_p(LOGITS, p)) == expected


def test_rows_are_cut_each_by_itself() -> None:
    both = torch.cat([LOGITS, LOGITS.flip(1)])
    for cut in (lambda x: keep_top_k(x, 2), lambda x: keep_top_p(x, 0.6), lambda x: keep_min_p(x, 0.3), keep_best):
        assert torch.equal(cut(both)[0], cut(LOGITS)[0])
        assert torch.equal(cut(both)[1], cut(LOGITS)[0].flip(0))


def test_penalty() -> None:
    """Positive logits are divided, negative ones multiplied; a token written twice is penalized once."""
    logits = torch.tensor([[2.0, -2.0, 1.0, 0.0]])
    found = penalize(logits, torch.tensor([[0, 1, 0, 0, 3]]), 2.0)
    assert found.tolist() == [[1.0, -4.0, 1.0, 0.0]]
    assert torch.equal(penalize(logits, NOTHING, 2.0), logits)


def test_temperature_divides() -> None:
    found = adjust(LOGITS, Sampling(temperature=0.5), NOTHING).softmax(-1)
    torch.testing.assert_close(found, SHARES.square() / SHARES.square().sum())


def test_temperature_zero_keeps_the_likeliest_alone() -> None:
    assert kept(adjust(LOGITS, Sampling(temperature=0.0), NOTHING)) == [1]
    alike = torch.zeros(2, 5)
    for number in (0.0, 0.3, 0.999):  # of several alike the first, whatever was drawn
        chosen = draw(adjust(alike, Sampling(temperature=0.0), NOTHING.expand(2, 0)), torch.full((2,), number))
        assert chosen.tolist() == [0, 0]


def test_the_penalty_comes_before_greed() -> None:
    logits = torch.tensor([[3.0, 2.0]])
    greedy = Sampling(temperature=0.0, repetition_penalty=2.0)
    assert kept(adjust(logits, greedy, torch.tensor([[0]]))) == [1]


def test_knobs_work_in_order() -> None:
    """Top-p and min-p measure what temperature and top-k have left."""
    found = adjust(LOGITS, Sampling(top_k=3, top_p=0.6), NOTHING)
    assert kept(found) == [1, 3], "0.5 / 0.875 is below 0.6, so the second stays"
    assert kept(adjust(LOGITS, Sampling(top_k=3, top_p=0.57), NOTHING)) == [1]
    assert kept(adjust(LOGITS, Sampling(temperature=2.0, min_p=0.6), NOTHING)) == [1, 3]
    everything = adjust(LOGITS, Sampling(), NOTHING)
    assert torch.equal(everything, LOGITS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
    ],
)
def test_values_without_a_meaning_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name.replace('_', '-')} {value}: expected"):
        Sampling(**{name: value})


def test_draws_have_their_frequencies() -> None:
    """A chi-square of 4 degrees of freedom is above 18.5 once in a thousand times."""
    count = 20_000
    uniform = torch.rand(count, generator=torch.Generator().manual_seed(0))
    found = torch.bincount(draw(LOGITS.expand(count, -1), uniform), minlength=5)
    expected = SHARES[0] * count
    assert ((found - expected).square() / expected).sum() < 18.5


@pytest.mark.parametrize(
    ("number", "expected"), [(0.0, 0), (0.1249, 0), (0.1251, 1), (0.6249, 1), (0.63, 2), (0.7, 3), (0.95, 4)]
)
def test_a_draw_is_where_the_running_sum_passes(number: float, expected: int) -> None:
    assert draw(LOGITS, torch.tensor([number])).tolist() == [expected]


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-24, 1.0])
def test_the_impossible_is_never_drawn(number: float) -> None:
    """Not at the ends of the range either, where rounding could lead to a token that was cut away."""
    for possible in ([1], [3], [1, 3], [4], [0]):
        logits = torch.full((1, 5), float("-inf"))
        logits[0, possible] = torch.tensor(0.1)
        assert draw(logits, torch.tensor([number])).item() in possible


def test_many_small_shares_are_drawn_within_the_vocabulary() -> None:
    logits = torch.zeros(2, 50_000)
    assert draw(logits, torch.tensor([0.0, 1 - 2**-24])).tolist() == [0, 49_999]


def test_a_draw_looks_at_its_own_row_only() -> None:
    logits = torch.randn(6, 40, generator=torch.Generator().manual_seed(1))
    uniform = torch.rand(6, generator=torch.Generator().manual_seed(2))
    together = draw(logits, uniform).tolist()
    assert together == [draw(logits[row : row + 1], uniform[row : row + 1]).item() for row in range(6)]

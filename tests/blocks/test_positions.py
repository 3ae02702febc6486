"""Positions: the paper's formula, distances, places."""

from __future__ import annotations

import math

import pytest
import torch

from qkv.blocks.positions import (
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    llama3_rates,
    rotary_rates,
    sinusoids,
)


@pytest.mark.parametrize("width", [2, 6, 16])
def test_sinusoids_are_the_papers(width: int) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same (Vaswani et al. 2017, section 3.5)."""
    interleaved, concatenated = sinusoids(50, width), sinusoids(50, width, "concatenated")
    assert interleaved.shape == concatenated.shape == (50, width)
    for place in (0, 1, 7, 49):
        for i in range(width // 2):
            angle = place / 10000 ** (2 * i / width)
            assert interleaved[place, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert interleaved[place, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)
            assert concatenated[place, i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert concatenated[place, width // 2 + i].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_the_layouts_are_one_permutation_apart() -> None:
    order = [2 * i for i in range(4)] + [2 * i + 1 for i in range(4)]
    assert torch.equal(sinusoids(9, 8)[:, order], sinusoids(9, 8, "concatenated"))


def test_an_odd_width_has_its_shape() -> None:
    assert sinusoids(5, 7).shape == sinusoids(5, 7, "concatenated").shape == (5, 7)


def test_sinusoidal_positions_are_added_at_their_places() -> None:
    positions, x = SinusoidalPositions(10, 6), torch.randn(2, 3, 6)
    torch.testing.assert_close(positions(x, torch.tensor([4, 5, 6])), x + sinusoids(10, 6)[4:7])
    apart = torch.tensor([[0, 1, 2], [7, 8, 9]])
    torch.testing.assert_close(positions(x, apart)[1], x[1] + sinusoids(10, 6)[7:10])
    assert not positions.state_dict(), "nothing is learned, so nothing is saved"


def test_learned_positions_are_added_at_their_places() -> None:
    positions, x = LearnedPositions(10, 6), torch.randn(2, 3, 6)
    torch.testing.assert_close(positions(x, torch.tensor([4, 5, 6])), x + positions.table.weight[4:7])
    apart = torch.tensor([[0, 1, 2], [7, 8, 9]])
    torch.testing.assert_close(positions(x, apart)[1], x[1] + positions.table.weight[7:10])


def test_no_positions_change_nothing() -> None:
    x = torch.randn(2, 3, 6)
    assert NoPositions()(x) is x


def turned(x: torch.Tensor, place: int, rotary: RotaryPositions) -> torch.Tensor:
    return rotary(x.view(1, 1, 1, -1), torch.tensor([place])).flatten()


def test_rotary_sees_distances_only() -> None:
    """q·k is the same for all pairs of places as far apart, and differs for another distance."""
    rotary = RotaryPositions(64, 8)
    torch.manual_seed(0)
    query, key = torch.randn(8), torch.randn(8)

    def likeness(here: int, there: int) -> float:
        return (turned(query, here, rotary) @ turned(key, there, rotary)).item()

    for shift in (1, 10, 50):
        assert likeness(5 + shift, 2 + shift) == pytest.approx(likeness(5, 2), abs=1e-5)
    assert likeness(5, 4) != pytest.approx(likeness(5, 2), abs=1e-2)
    assert likeness(2, 5) != pytest.approx(likeness(5, 2), abs=1e-2), "before and after are not the same"


def test_rotary_keeps_norms_and_starts_with_nothing() -> None:
    rotary, x = RotaryPositions(64, 8), torch.randn(2, 3, 64, 8)
    found = rotary(x, torch.arange(64))
    torch.testing.assert_close(found.norm(dim=-1), x.norm(dim=-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[:, :, 0], x[:, :, 0])


def test_rotary_by_hand() -> None:
    """The pair (x_i, x_{i+K/2}) turns by place · base^(-2i/K)."""
    rotary = RotaryPositions(10, 4, base=100.0)
    found = turned(torch.tensor([1.0, 2.0, 3.0, 4.0]), 3, rotary)
    for i, angle in enumerate((3.0, 0.3)):
        first, second = float(i + 1), float(i + 3)
        assert found[i].item() == pytest.approx(first * math.cos(angle) - second * math.sin(angle), abs=1e-5)
        assert found[i + 2].item() == pytest.approx(second * math.cos(angle) + first * math.sin(angle), abs=1e-5)


def test_rotary_at_places_of_each_row() -> None:
    rotary, x = RotaryPositions(20, 8), torch.randn(2, 3, 4, 8)
    apart = torch.tensor([[0, 1, 2, 3], [9, 10, 11, 12]])
    for row in range(2):
        torch.testing.assert_close(rotary(x, apart)[row], rotary(x[row : row + 1], apart[row])[0])


def test_rotary_keeps_the_kind_of_number() -> None:
    assert RotaryPositions(4, 4)(torch.ones(1, 1, 2, 4, dtype=torch.bfloat16), torch.arange(2)).dtype == torch.bfloat16


def test_rotary_refuses_an_odd_width() -> None:
    with pytest.raises(ValueError, match="head width 5 must be even"):
        RotaryPositions(4, 5)


def test_stretched_turns_slow_down_slow_pairs_only() -> None:
    """Llama 3.1: less than one turn in the original context is eight times slower, more than four stays."""
    rates = rotary_rates(128, 500000.0)
    slower = rates / llama3_rates(rates, 8.0, 1.0, 4.0, 8192)
    turns = 8192 * rates / (2 * math.pi)
    assert torch.equal(llama3_rates(rates, 8.0, 1.0, 4.0, 8192)[turns > 4], rates[turns > 4])
    torch.testing.assert_close(slower[turns < 1], torch.full_like(slower[turns < 1], 8.0))
    between = slower[(turns > 1) & (turns < 4)]
    assert len(between) > 3
    assert (between.diff() > 0).all()
    assert torch.equal(llama3_rates(rates, 1.0, 1.0, 4.0, 8192), rates), "a factor of one changes no bit"


def test_rotary_takes_rates_of_its_own() -> None:
    usual, given = RotaryPositions(9, 8, 500.0), RotaryPositions(9, 8, rates=rotary_rates(8, 500.0))
    assert torch.equal(usual.cosines, given.cosines)
    assert torch.equal(usual.sines, given.sines)

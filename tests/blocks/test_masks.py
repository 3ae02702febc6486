"""Masks: True = may look."""

from __future__ import annotations

import pytest
import torch

from qkv.blocks import masks


def test_causal() -> None:
    assert masks.causal(torch.arange(3), 3).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_causal_after_a_state() -> None:
    """Two new tokens after three old ones see the old ones."""
    assert masks.causal(torch.tensor([3, 4]), 5).tolist() == [[True] * 4 + [False], [True] * 5]


def test_causal_for_rows_of_unequal_length() -> None:
    mask = masks.causal(torch.tensor([[3], [1]]), 4)
    assert mask.tolist() == [[[True, True, True, True]], [[True, True, False, False]]]


def test_window() -> None:
    assert masks.window(torch.arange(4), 4, 2).tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [False, True, True, False],
        [False, False, True, True],
    ]


@pytest.mark.parametrize("reach", [6, 7, 100])
def test_a_window_as_long_as_the_text_is_causal(reach: int) -> None:
    places = torch.arange(6)
    assert torch.equal(masks.window(places, 6, reach), masks.causal(places, 6))


def test_a_window_counts_itself() -> None:
    assert torch.equal(masks.window(torch.arange(5), 5, 1), torch.eye(5, dtype=torch.bool))
    assert masks.window(torch.arange(9), 9, 3).sum(-1).tolist() == [1, 2, 3, 3, 3, 3, 3, 3, 3]


def test_padding_joins_with_causal() -> None:
    present = torch.tensor([[True, True, True], [True, True, False]])
    both = masks.padding(present) & masks.causal(torch.arange(3), 3)
    assert both.shape == (2, 3, 3)
    assert both[1].tolist() == [[True, False, False], [True, True, False], [True, True, False]]


def test_a_last_token_alone_needs_no_mask() -> None:
    assert masks.causal_or_none(torch.tensor([4]), 5) is None
    assert masks.causal(torch.tensor([4]), 5).all()
    for places in (torch.tensor([3]), torch.tensor([3, 4]), torch.tensor([[4], [2]])):
        found = masks.causal_or_none(places, 5)
        assert found is not None
        assert torch.equal(found, masks.causal(places, 5))

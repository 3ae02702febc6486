"""Dropout: the share that was asked for, the sum kept, the same from the same seed."""

from __future__ import annotations

import pytest
import torch

from qkv.blocks.dropout import Dropout, drop


@pytest.mark.parametrize("share", [0.003, 0.1, 0.5, 0.97])
def test_the_share_is_dropped_and_the_rest_grows(share: float) -> None:
    torch.manual_seed(0)
    number = 400_003  # no multiple of four
    found = drop(torch.ones(number), share)
    dropped = int((found == 0).sum())
    assert abs(dropped - share * number) < 5 * (number * share * (1 - share)) ** 0.5 + number / 65_536
    torch.testing.assert_close(found[found != 0].unique(), torch.tensor([1 / (1 - share)]))


def test_neighbours_do_not_fall_together() -> None:
    """Four values share a draw: whether one falls says nothing about the next."""
    torch.manual_seed(1)
    fallen = (drop(torch.ones(100_000, 4), 0.5) == 0).double()
    assert (torch.corrcoef(fallen.T) - torch.eye(4)).abs().max() < 5 / 100_000**0.5


def test_gradients_fall_with_the_values() -> None:
    x = torch.ones(50, 3, requires_grad=True)
    found = drop(x, 0.3)
    found.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, found.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_format_stays_and_the_seed_decides(dtype: torch.dtype) -> None:
    layer, x = Dropout(0.4), torch.ones(7, 5, dtype=dtype)
    torch.manual_seed(2)
    one = layer(x)
    torch.manual_seed(2)
    assert torch.equal(layer(x), one)
    assert one.dtype == dtype
    assert not torch.equal(layer(x), one)


def test_nothing_falls_outside_training_and_all_at_one() -> None:
    x = torch.ones(4, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert (Dropout(1.0)(x) == 0).all()

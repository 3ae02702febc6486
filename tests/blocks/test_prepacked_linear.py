"""Packed linear layers: the same products, and nothing of them is left afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from qkv.blocks.decoder import TiedBiasedHead
from qkv.blocks.fast_paths import AVAILABLE, LARGE, PackedLinear, packed

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this torch has no oneDNN")


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LARGE // 32, 32)
        self.narrow, self.wide = nn.Linear(32, 32), nn.Linear(32, LARGE // 32, bias=False)
        self.head = TiedBiasedHead(self.embedding)
        nn.init.normal_(self.head.bias)


@pytest.mark.parametrize("shape", [(1, 32), (5, 1, 32), (64, 3, 32)])
def test_packed_layers_equal_plain_ones(shape: tuple[int, ...]) -> None:
    model, x = Small(), torch.randn(shape)
    with torch.inference_mode():
        expected = model.wide(x), model.head(x)
        with packed(model):
            assert isinstance(model.wide.forward, PackedLinear)
            assert isinstance(model.head.forward, PackedLinear)
            assert not isinstance(model.narrow.forward, PackedLinear)
            found = model.wide(x), model.head(x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_nothing_is_left_of_the_packing() -> None:
    model, x = Small(), torch.randn(2, 32)
    names = set(model.state_dict())
    with packed(model):
        assert set(model.state_dict()) == names
    model.wide(x).sum().backward()
    assert model.wide.weight.grad is not None
    with torch.no_grad():
        model.wide.weight.zero_()
    assert not model.wide(x).any(), "the weights that are there, not those that were packed"


def test_other_formats_stay_as_they_are() -> None:
    model = Small().to(torch.bfloat16)
    with packed(model):
        assert not isinstance(model.wide.forward, PackedLinear)
    with torch.autocast("cpu", torch.bfloat16), packed(Small()) as nothing:
        assert nothing is None

"""Attention: the open sums and the fused kernel give one answer, in training and after it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks import masks
from qkv.blocks.attention import (
    MultiHeadAttention,
    attend,
    fused,
    open_attention,
    opened,
    scores,
    weights,
    width_of_head,
)
from qkv.blocks.norms import RMSNorm
from qkv.blocks.positions import RotaryPositions

WIDTH, HEADS, TIME, ROWS = 24, 4, 7, 3
CLOSE = {"atol": 2e-6, "rtol": 1e-5}


def made(key_heads: int = HEADS, head_width: int = 6, dropout: float = 0.0, kind: str = "plain") -> MultiHeadAttention:
    torch.manual_seed(0)
    wide, narrow = HEADS * head_width, key_heads * head_width
    rich = kind == "modern"
    return MultiHeadAttention(
        nn.Linear(WIDTH, wide),
        nn.Linear(WIDTH, narrow),
        nn.Linear(WIDTH, narrow),
        nn.Linear(wide, WIDTH),
        heads=HEADS,
        dropout=dropout,
        query_norm=RMSNorm(head_width) if rich else None,
        key_norm=RMSNorm(head_width) if rich else None,
        positions=RotaryPositions(TIME, head_width) if rich else None,
    )


MASKS = {
    "none": None,
    "causal": masks.causal(torch.arange(TIME), TIME),
    "window": masks.window(torch.arange(TIME), TIME, 3),
    "padding": masks.padding(torch.arange(TIME) < torch.tensor([[7], [4], [1]])),
    "of each row": masks.causal(torch.arange(TIME) + torch.tensor([[0], [2], [5]]), TIME),
}
FORMS = {
    "plain": made(),
    "grouped keys": made(key_heads=2),
    "one key head": made(key_heads=1),
    "wide heads": made(head_width=WIDTH),
    "norms and turns": made(key_heads=2, head_width=8, kind="modern"),
    "dropout": made(dropout=0.4),
    "grouped keys, dropout": made(key_heads=2, dropout=0.4),
}


def outcome(module: MultiHeadAttention, mask: Tensor | None, mode: str) -> tuple[Tensor, list[Tensor]]:
    """The output and all gradients, that of the input included, from the same seed."""
    torch.manual_seed(1)
    x = torch.randn(ROWS, TIME, WIDTH, requires_grad=True)
    module.train(mode == "train")
    torch.manual_seed(2)
    output = module(x, mask=mask, positions=torch.arange(TIME))
    return output.detach(), list(torch.autograd.grad(output.square().sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("form", FORMS)
def test_open_is_fused(form: str, mask: str, mode: str) -> None:
    """Forward and backward, with dropout too: the same seed drops the same weights."""
    module = FORMS[form]
    expected, expected_gradients = outcome(module, MASKS[mask], mode)
    with open_attention(module):
        found, gradients = outcome(module, MASKS[mask], mode)
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(gradients, expected_gradients, atol=2e-5, rtol=1e-4)


def test_dropout_is_at_work_in_training_only() -> None:
    module = FORMS["dropout"]
    torch.testing.assert_close(outcome(module, None, "eval")[0], outcome(FORMS["plain"], None, "eval")[0])
    assert not torch.allclose(outcome(module, None, "train")[0], outcome(module, None, "eval")[0])


@pytest.mark.parametrize("mix", [fused, opened])
def test_dropout_in_expectation(mix: object) -> None:
    """What is left is made larger: many draws average to the answer without dropout, in either kernel."""
    module = made(dropout=0.4)
    module.mix = mix
    x = torch.randn(1, TIME, WIDTH, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected = module.eval()(x)
        torch.manual_seed(4)
        draws = module.train()(x.expand(4000, -1, -1))
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - expected[0]).abs() < 5 * error + 1e-6).all()


@pytest.mark.parametrize("form", ["plain", "dropout"])
def test_who_sees_nobody_receives_zeros_in_both(form: str) -> None:
    mask = torch.ones(TIME, TIME, dtype=torch.bool).tril()
    mask[2] = False
    module = FORMS[form]
    expected, expected_gradients = outcome(module, mask, "train")
    with open_attention(module):
        found, gradients = outcome(module, mask, "train")
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(gradients, expected_gradients, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(found[:, 2], module.output.bias.expand(ROWS, -1))


def test_open_attention_is_undone() -> None:
    model = nn.ModuleList([made(), made()])
    model[1].mix = opened
    with open_attention(model):
        assert all(module.mix is opened for module in model)
    assert model[0].mix is fused
    assert model[1].mix is opened


def test_open_attention_is_undone_after_an_error() -> None:
    model = nn.ModuleList([made(), made()])
    model[1].mix = opened
    with pytest.raises(RuntimeError, match="shape"), open_attention(model):
        model[0].query(torch.ones(1, 1, 1))
    assert model[0].mix is fused
    assert model[1].mix is opened


def test_grouped_keys_are_shared_by_neighbouring_queries() -> None:
    """Two key heads for four query heads are four key heads of which each pair is alike."""
    grouped, full = made(key_heads=2), made()
    full.load_state_dict({name: value for name, value in grouped.state_dict().items() if "query" in name}, strict=False)
    full.output.load_state_dict(grouped.output.state_dict())
    with torch.no_grad():
        for own, shared in ((full.key, grouped.key), (full.value, grouped.value)):
            own.weight.copy_(shared.weight.view(2, 1, 6, WIDTH).expand(2, 2, 6, WIDTH).reshape(WIDTH, WIDTH))
            own.bias.copy_(shared.bias.view(2, 1, 6).expand(2, 2, 6).reshape(WIDTH))
    x = torch.randn(ROWS, TIME, WIDTH)
    torch.testing.assert_close(grouped(x), full(x), **CLOSE)


def test_cross_attention_looks_at_the_memory_only() -> None:
    module = FORMS["plain"].eval()
    x, memory = torch.randn(2, 5, WIDTH), torch.randn(2, 9, WIDTH)
    assert module(x, memory).shape == (2, 5, WIDTH)
    # every query is its own: another one may change without moving it
    changed = x.clone()
    changed[:, 3] += 1
    before, after = module(x, memory), module(changed, memory)
    torch.testing.assert_close(after[:, :3], before[:, :3], **CLOSE)
    # and the answer does not depend on the order of the memory
    torch.testing.assert_close(module(x, memory.flip(1)), before, **CLOSE)


def test_pieces_by_hand() -> None:
    queries, keys = torch.tensor([[1.0, 0.0, 2.0, 0.0]]), torch.tensor([[3.0, 0, 0, 0], [0, 0, 4, 0]])
    assert scores(queries, keys).tolist() == [[1.5, 4.0]]
    assert scores(queries, keys, 1.0).tolist() == [[3.0, 8.0]]
    assert weights(torch.zeros(1, 4), torch.tensor([True, False, True, False])).tolist() == [[0.5, 0, 0.5, 0]]
    values = torch.tensor([[10.0], [20.0]])
    first, second = torch.tensor([1.5, 4.0]).softmax(0).tolist()
    torch.testing.assert_close(attend(queries, keys, values), torch.tensor([[10 * first + 20 * second]]))


def test_heads_that_do_not_divide_are_refused() -> None:
    assert width_of_head(48, 3) == 16
    with pytest.raises(ValueError, match="width 50 does not divide into 3 heads; choose a multiple of 3"):
        width_of_head(50, 3)

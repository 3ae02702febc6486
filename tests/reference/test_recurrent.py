"""torch.nn's RNN, GRU and LSTM against `Recurrent`, and against the formulas written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks.recurrent import LearnedStart, Recurrent, ZeroStart, unrolled
from qkv.blocks.state import RecurrentState

KINDS = {"rnn": (nn.RNN, 1), "gru": (nn.GRU, 1), "lstm": (nn.LSTM, 2)}
INPUT, WIDTH, ROWS, TIME = 5, 7, 3, 9


def made(kind: str, layers: int) -> tuple[nn.RNNBase, tuple[Tensor, ...], Tensor]:
    """A layer, a start that is not zero, and an input."""
    torch.manual_seed(layers)
    layer, parts = KINDS[kind]
    start = tuple(torch.randn(layers, ROWS, WIDTH) for _ in range(parts))
    return layer(INPUT, WIDTH, layers, batch_first=True), start, torch.randn(ROWS, TIME, INPUT)


def for_torch(hidden: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    return hidden if len(hidden) > 1 else hidden[0]


def as_tuple(hidden: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return hidden if isinstance(hidden, tuple) else (hidden,)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_formulas_are_torchs_kernel(kind: str, layers: int) -> None:
    layer, start, x = made(kind, layers)
    expected, expected_last = layer(x, for_torch(start))
    found, found_last = unrolled(layer, x, start)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found_last, as_tuple(expected_last), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_is_torchs_layer(kind: str, layers: int) -> None:
    """From zero, from a given start, and in two pieces through the state."""
    layer, start, x = made(kind, layers)
    ours = Recurrent(layer, ZeroStart(KINDS[kind][1], layers, WIDTH))
    torch.testing.assert_close(ours(x), layer(x)[0], atol=0, rtol=0)
    expected, expected_last = layer(x, for_torch(start))
    state = RecurrentState(ROWS, tuple(part[:, :1] for part in start))
    state.hidden = start
    found = torch.cat([ours(x[:, :4], state=state), ours(x[:, 4:], state=state)], 1)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(state.hidden, as_tuple(expected_last), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_learned_start_is_a_given_start(kind: str) -> None:
    layer, start, x = made(kind, 2)
    ours = Recurrent(layer, LearnedStart(len(start), 2, WIDTH))
    rows = tuple(part[:, :1] for part in start)
    with torch.no_grad():
        ours.start.table.copy_(torch.stack(rows))
    expected = layer(x, for_torch(tuple(row.expand(-1, ROWS, -1).contiguous() for row in rows)))[0]
    torch.testing.assert_close(ours(x), expected, atol=0, rtol=0)
    ours(x).sum().backward()
    assert ours.start.table.grad is not None
    assert ours.start.table.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_through_the_formulas(kind: str) -> None:
    layer, start, x = made(kind, 2)
    found = torch.autograd.grad(unrolled(layer, x, start)[0].square().sum(), list(layer.parameters()))
    expected = torch.autograd.grad(layer(x, for_torch(start))[0].square().sum(), list(layer.parameters()))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)

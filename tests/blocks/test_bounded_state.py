"""States of bounded size, alone: what they hold, show and refuse. Models with them are in tests/models."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qkv.blocks.bounded_state import SPARE, PastState, RingState
from qkv.blocks.convolution import Convolution
from qkv.blocks.state import Pair, State

WINDOW, CAPACITY = 3, 40
ROOM = WINDOW + SPARE


def numbered(state: RingState, new: int) -> Pair:
    """Keys that are their own places, values their negatives."""
    places = torch.tensor([[length + step for step in range(new)] for length in state.lengths], dtype=torch.float)
    keys = places.view(len(places), 1, new, 1).expand(-1, 2, -1, 3)
    return keys, -keys


def take(state: RingState, new: int) -> None:
    """Every key that is shown is where `places` says."""
    places = state.key_positions(new, torch.device("cpu"))
    keys, values = state.take(lambda: numbered(state, new))
    assert torch.equal(keys, -values)
    shown = keys[:, 0, :, 0]
    expected = places.expand(shown.shape).float()
    real = expected >= 0
    for row, length in enumerate(state.lengths):
        seen = set(expected[row][real[row]].tolist())
        assert seen >= {float(place) for place in range(max(0, length - new - state.window + 1), length)}
    recent = real & (expected > torch.tensor(state.lengths).unsqueeze(1) - new - state.window)
    assert torch.equal(shown[recent], expected[recent])


@pytest.mark.parametrize("first", [1, WINDOW, ROOM - 1, ROOM, ROOM + 1, 30])
def test_a_ring_shows_what_it_says(first: int) -> None:
    state = RingState(2, CAPACITY, WINDOW)
    for new in (first, 1, 2, 1, 1, 3, 1):
        take(state, new)
    assert state.keys is not None
    assert state.keys.shape == (2, 2, ROOM, 3)


def test_a_ring_with_rows_of_unequal_length() -> None:
    state = RingState(3, CAPACITY, WINDOW)
    take(state, 12)
    state.reset(1)
    take(state, 2)
    state = state.rows([1, 0, 1, 2])
    assert state.lengths == [2, 14, 2, 14]
    for new in (1, 4, 1, 9, 1):
        take(state, new)
    state.reset(3)
    take(state, 1)
    assert state.lengths == [19, 31, 19, 1]


def test_a_ring_of_one_place() -> None:
    state = RingState(1, CAPACITY, 1)
    for new in (1, 1, 20, 1):
        take(state, new)
    state.truncate(2)  # nothing of the past is needed
    take(state, 1)


def test_a_ring_has_the_capacity_of_the_context() -> None:
    state = RingState(1, 14, WINDOW)
    take(state, 13)
    with pytest.raises(ValueError, match="the state holds 14 positions, 15 were asked for; start a new one"):
        state.take(lambda: numbered(state, 2))
    assert state.lengths == [13]
    take(state, 1)
    assert RingState(1, 4, 100).room == 4, "never more than the context"


@pytest.mark.parametrize("back", range(1, SPARE + 1))
def test_a_ring_goes_back_by_what_it_spares(back: int) -> None:
    state = RingState(2, CAPACITY, WINDOW)
    take(state, 20)
    state.truncate(20 - back)
    for new in (1, 5, 1):
        take(state, new)


def test_a_ring_refuses_to_go_back_further() -> None:
    state = RingState(2, CAPACITY, WINDOW)
    take(state, 10)
    state.reset(1)
    take(state, 10)
    for length in (10, 1):
        with pytest.raises(ValueError, match=r"the state holds positions 9 to 19; to go back to length .* start a new"):
            state.truncate(length)
    assert state.lengths == [20, 10], "a refusal changes nothing"
    state.truncate(0)
    for new in (20, 1):
        take(state, new)
    state.truncate(14)


def test_nothing_is_left_of_a_rows_last_user() -> None:
    state = RingState(2, CAPACITY, WINDOW)
    take(state, 20)
    state.reset(0)
    assert state.keys is not None
    assert state.values is not None
    assert state.keys[0].eq(0).all()
    assert state.values[0].eq(0).all()
    past = PastState(2, 4)
    past.take(torch.ones(2, 20, 3))
    past.reset(0)
    assert past.inputs is not None
    assert past.inputs[0].eq(0).all()
    assert past.inputs[1].eq(1).all()


def past(reach: int, *pieces: int) -> tuple[PastState, Tensor]:
    """A state that has seen the numbers 1, 2, 3 …, in pieces."""
    state, x = PastState(1, reach), torch.arange(1.0, 41).view(1, -1, 1)
    for piece in x[:, : sum(pieces)].split(list(pieces), 1):
        state.take(piece)
    return state, x


@pytest.mark.parametrize("pieces", [(), (1,), (2, 1), (20,), (5, 20), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize("reach", [0, 1, 4, 12])
def test_the_past_comes_before_the_new(pieces: tuple[int, ...], reach: int) -> None:
    state, x = past(reach, *pieces)
    seen = sum(pieces)
    found = state.take(x[:, seen : seen + 2]).flatten().tolist()
    assert found == [max(0, place) for place in range(seen - reach + 1, seen + 3)]
    assert state.lengths == [seen + 2]
    assert state.inputs is not None
    assert state.inputs.shape == (1, reach + SPARE, 1), "its size does not depend on the text"


@pytest.mark.parametrize("back", range(SPARE + 1))
@pytest.mark.parametrize("seen", [SPARE, 11, 25])
def test_the_past_goes_back(seen: int, back: int) -> None:
    state, x = past(4, seen)
    state.truncate(seen - back)
    found = state.take(x[:, 30:31]).flatten().tolist()
    assert found == [max(0, seen - back - less) for less in (3, 2, 1, 0)] + [31]


def test_the_past_refuses_to_go_back_further() -> None:
    state, x = past(4, 30)
    state.truncate(26)
    state.take(x[:, 26:28])
    with pytest.raises(ValueError, match="the state holds positions 18 to 27; to go back to length 21 it would need"):
        state.truncate(21)
    assert state.lengths == [28]
    assert state.take(x[:, 28:29]).flatten().tolist() == [25, 26, 27, 28, 29]
    state.truncate(0)
    assert state.take(x[:, :1]).flatten().tolist() == [0, 0, 0, 0, 1]
    short, _ = past(20, 15)
    short.truncate(1)  # all of a short text is held
    assert short.take(x[:, 9:10]).flatten().tolist() == [0] * 19 + [1, 10]


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (3, 4), (12, 1)])
def test_a_convolution_word_by_word(kernel: int, dilation: int) -> None:
    torch.manual_seed(0)
    layer, x = Convolution(5, kernel, "causal", outputs=4, dilation=dilation), torch.randn(3, 14, 5)
    state = layer.state(3)
    found = torch.cat([layer(piece, state=state) for piece in x.split([4, 1, 1, 7, 1], 1)], 1)
    torch.testing.assert_close(found, layer(x), atol=1e-6, rtol=1e-5)


def test_what_looks_ahead_has_no_state() -> None:
    with pytest.raises(AssertionError, match="only a causal"):
        Convolution(4, 3).state(1)


def test_unused_states_keep_the_protocol() -> None:
    for state in (RingState(3, 8, 2), PastState(3, 2)):
        assert isinstance(state, State)
        chosen = state.rows([2, 0])
        chosen.truncate(1)
        chosen.reset(1)
        assert chosen.lengths == [0, 0]

"""State: keys and values, the memory's, a recurrence's hidden vectors. Rows may have unequal lengths."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks.recurrent import Recurrent, ZeroStart
from qkv.blocks.state import (
    ROOM,
    KeyValueState,
    LayerStates,
    MemoryState,
    Pair,
    RecurrentState,
    State,
    next_positions,
    runs,
)


def pair(rows: int, new: int, value: float) -> Pair:
    return torch.full((rows, 2, new, 3), value), torch.full((rows, 2, new, 3), -value)


def contents(state: KeyValueState, row: int) -> list[float]:
    """What one row remembers, position by position."""
    assert state.keys is not None
    assert state.values is not None
    length = state.lengths[row]
    assert torch.equal(state.keys[row, :, :length], -state.values[row, :, :length])
    return state.keys[row, 0, :length, 0].tolist()


def filled() -> KeyValueState:
    """Three rows: 1 1 2, then row 1 anew; then 3."""
    state = KeyValueState(3, 6)
    state.take(lambda: pair(3, 2, 1.0))
    state.take(lambda: pair(3, 1, 2.0))
    state.reset(1)
    state.take(lambda: pair(3, 1, 3.0))
    return state


def test_keys_and_values_are_appended_at_each_rows_end() -> None:
    state = filled()
    assert state.lengths == [4, 1, 4]
    assert [contents(state, row) for row in range(3)] == [[1, 1, 2, 3], [3], [1, 1, 2, 3]]
    keys, values = state.take(lambda: pair(3, 1, 4.0))
    assert keys.shape == values.shape == (3, 2, 5, 3)
    assert keys[1, 0, :, 0].tolist() == [3, 4, 0, 0, 0], "nothing is left of the row's last user"


def test_rows_are_chosen_repeated_and_independent() -> None:
    state = filled()
    chosen = state.rows([1, 0, 0, 2])
    assert chosen.lengths == [1, 4, 4, 4]
    chosen.take(lambda: pair(4, 1, 9.0))
    assert contents(chosen, 0) == [3, 9]
    assert contents(chosen, 2) == [1, 1, 2, 3, 9]
    assert [contents(state, row) for row in range(3)] == [[1, 1, 2, 3], [3], [1, 1, 2, 3]]
    chosen.reset(1)
    assert contents(chosen, 2) == [1, 1, 2, 3, 9]


def test_truncate_shortens_only_the_longer_rows() -> None:
    state = filled()
    state.truncate(2)
    assert state.lengths == [2, 1, 2]
    state.take(lambda: pair(3, 1, 5.0))
    assert [contents(state, row) for row in range(3)] == [[1, 1, 5], [3, 5], [1, 1, 5]]


def test_a_full_state_says_so_and_stays_as_it_was() -> None:
    state = filled()
    with pytest.raises(ValueError, match="the state holds 6 positions, 7 were asked for; start a new one"):
        state.take(lambda: pair(3, 3, 1.0))
    assert state.lengths == [4, 1, 4]
    state.take(lambda: pair(3, 2, 7.0))
    assert contents(state, 0) == [1, 1, 2, 3, 7, 7]


def test_an_unused_state_can_be_chosen_truncated_and_reset() -> None:
    for state in (KeyValueState(3, 4), LayerStates.empty(2, 3, 4)):
        chosen = state.rows([0, 2])
        chosen.truncate(1)
        chosen.reset(1)
        assert chosen.lengths == [0, 0]


def test_a_stack_of_states_moves_as_one() -> None:
    state = LayerStates.empty(2, 2, 4)
    for layer in state.layers:
        layer.take(lambda: pair(2, 2, 1.0))
    state.reset(0)
    assert [layer.lengths for layer in state.layers] == [[0, 2], [0, 2]]
    state.truncate(1)
    assert [layer.lengths for layer in state.layers] == [[0, 1], [0, 1]]
    assert [layer.lengths for layer in state.rows([1, 1, 0]).layers] == [[1, 1, 0], [1, 1, 0]]


def test_the_memory_is_projected_once() -> None:
    state, calls = MemoryState(), []

    def project() -> Pair:
        calls.append(1)
        keys = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 2, 4, 5)
        return keys, -keys

    first = state.take(project)
    assert state.take(project) is first
    assert len(calls) == 1
    keys, values = state.rows([2, 0, 2]).take(project)
    assert keys[:, 0, 0, 0].tolist() == [2, 0, 2]
    assert torch.equal(values, -keys)
    assert len(calls) == 1
    assert MemoryState().rows([0]).pair is None


KINDS = {"rnn": (nn.RNN, 1), "gru": (nn.GRU, 1), "lstm": (nn.LSTM, 2)}


def recurrent(kind: str) -> tuple[Recurrent, Tensor]:
    torch.manual_seed(0)
    layer, parts = KINDS[kind]
    return Recurrent(layer(4, 6, 2, batch_first=True), ZeroStart(parts, 2, 6)), torch.randn(3, 8, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recurrence_with_rows_of_unequal_length(kind: str) -> None:
    """Row 1 begins anew after three words; each row goes on as if it were alone."""
    model, x = recurrent(kind)
    state = model.state(3)
    model(x[:, :3], state=state)
    state.reset(1)
    found = model(x[:, 3:5], state=state)
    assert state.lengths == [5, 2, 5]
    torch.testing.assert_close(found[0], model(x[:1, :5])[0, 3:], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found[1], model(x[1:2, 3:5])[0], atol=1e-6, rtol=1e-5)
    forked = state.rows([1, 2, 1])
    assert forked.lengths == [2, 5, 2]
    found = model(x[[1, 2, 1], 5:], state=forked)
    torch.testing.assert_close(found[0], model(x[1:2, 3:])[0, 2:], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found[1], model(x[2:])[0, 5:], atol=1e-6, rtol=1e-5)
    assert state.lengths == [5, 2, 5], "a fork leaves its origin alone"


@pytest.mark.parametrize("kind", KINDS)
def test_a_recurrence_goes_back_to_an_earlier_call(kind: str) -> None:
    model, x = recurrent(kind)
    state = model.state(3)
    for piece in x.split([3, 2, 3], 1):
        model(piece, state=state)
    state = state.rows([0, 2])  # forks remember the way, too
    with pytest.raises(ValueError, match="end of an earlier call, not to length 4"):
        state.truncate(4)
    assert state.lengths == [8, 8], "a refusal changes nothing"
    state.truncate(8)
    state.truncate(5)
    torch.testing.assert_close(model(x[[0, 2], 5:], state=state), model(x)[[0, 2], 5:], atol=1e-6, rtol=1e-5)
    state.truncate(0)
    torch.testing.assert_close(model(x[[0, 2]], state=state), model(x)[[0, 2]], atol=1e-6, rtol=1e-5)


def test_every_state_keeps_the_protocol() -> None:
    for state in (KeyValueState(1, 1), LayerStates.empty(1, 1, 1), RecurrentState(1, (torch.zeros(1, 1, 2),))):
        assert isinstance(state, State)


def test_runs_of_equal_length() -> None:
    assert runs([3, 3, 1, 3]) == [(0, 2, 3), (2, 3, 1), (3, 4, 3)]
    assert runs([]) == []


@pytest.mark.parametrize(
    ("lengths", "expected", "answers"),
    [([0, 0], [0, 1], 2), ([4, 4], [4, 5], 6), ([4, 1], [[4, 5], [1, 2]], 6)],
)
def test_places_after_old_tokens(lengths: list[int], expected: list[int], answers: int) -> None:
    state = KeyValueState(2, 9)
    state.lengths = lengths
    where, found = next_positions(state, 2, torch.device("cpu"))
    assert (where.tolist(), found) == (expected, answers)


def test_places_without_a_state() -> None:
    where, answers = next_positions(None, 3, torch.device("cpu"))
    assert (where.tolist(), answers) == ([0, 1, 2], 3)


def test_chosen_rows_take_more_room_as_they_grow() -> None:
    """A beam search chooses after every token: empty positions are not moved, and no position is lost."""
    state = KeyValueState(2, 100)
    state.take(lambda: pair(2, 1, 0.0))
    for step in range(1, 100):
        if step % 3 == 0 or step < 20:
            state = state.rows([1, 0])
            assert state.keys is not None
            assert state.keys.size(2) <= step + ROOM
        keys, _ = state.take(lambda step=step: pair(2, 1, float(step)))  # type: ignore[misc]
        assert keys.size(2) == step + 1
    assert contents(state, 0) == [float(step) for step in range(100)]
    with pytest.raises(ValueError, match="the state holds 100 positions"):
        state.take(lambda: pair(2, 1, 1.0))

"""State: what a model remembers between tokens. Keys and values for attention, a hidden vector for a recurrence.

A state knows its length per row and takes `rows(index)`, `truncate(length)` and `reset(row)`, so sampling, beam search,
forking and slot-wise batching never ask which kind it is. Buffers are allocated at the first use; chosen rows
get room for one more position, and much more when that is full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]

ROOM = 8  # positions by which a full buffer grows at least


@runtime_checkable
class State(Protocol):
    """What is remembered for every row of a batch."""

    @property
    def lengths(self) -> list[int]: ...
    def rows(self, index: Sequence[int]) -> State: ...
    def truncate(self, length: int) -> None: ...
    def reset(self, row: int) -> None: ...


@runtime_checkable
class LayerState(Protocol):
    """What one attention layer remembers: `take` returns the keys and values to attend to."""

    def take(self, project: Callable[[], Pair]) -> Pair: ...


class KeyValueState:
    """Keys and values of one self-attention, (rows, G, capacity, K) each, filled from the left."""

    def __init__(self, rows: int, capacity: int) -> None:
        self.lengths = [0] * rows
        self.capacity = capacity
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def take(self, project: Callable[[], Pair]) -> Pair:
        """Append the new keys and values; give all of them, up to the longest row."""
        keys, values = project()
        if self.keys is None or self.values is None:
            self.keys = keys.new_zeros(*keys.shape[:2], self.capacity, keys.size(3))
            self.values = values.new_zeros(*values.shape[:2], self.capacity, values.size(3))
        new = keys.size(2)
        longest = self.require(new)
        if longest > self.keys.size(2):
            room = min(self.capacity, longest + max(ROOM, longest // 2))
            self.keys, self.values = _longer(self.keys, room), _longer(self.values, room)
        for first, last, start in runs(self.lengths):
            self.keys[first:last, :, start : start + new] = keys[first:last]
            self.values[first:last, :, start : start + new] = values[first:last]
        self.lengths = [length + new for length in self.lengths]
        return self.keys[:, :, :longest], self.values[:, :, :longest]

    def require(self, new: int) -> int:
        """The length of the longest row with `new` tokens; refused beyond the capacity."""
        longest = max(self.lengths) + new
        if longest > self.capacity:
            raise ValueError(f"the state holds {self.capacity} positions, {longest} were asked for; start a new one")
        return longest

    def rows(self, index: Sequence[int]) -> KeyValueState:
        chosen = KeyValueState(len(index), self.capacity)
        self.copy_rows(chosen, index)
        return chosen

    def copy_rows(self, chosen: KeyValueState, index: Sequence[int], room: int | None = None) -> None:
        """The rows with so much room, or with what is filled and one position more: a beam search chooses after every
        token, and keys that lie close together in memory are read fastest."""
        chosen.lengths = [self.lengths[row] for row in index]
        room = min(self.capacity, max(self.lengths) + 1) if room is None else room
        if self.keys is not None and self.values is not None:
            which = torch.as_tensor(list(index), device=self.keys.device)
            chosen.keys, chosen.values = _picked(self.keys, which, room), _picked(self.values, which, room)

    def truncate(self, length: int) -> None:
        self.lengths = [min(length, own) for own in self.lengths]

    def reset(self, row: int) -> None:
        self.lengths[row] = 0
        if self.keys is not None and self.values is not None:
            self.keys[row] = 0  # the next user of the row must find nothing of the last one
            self.values[row] = 0


class MemoryState:
    """Keys and values of a cross-attention: computed from the memory once, then only read."""

    def __init__(self) -> None:
        self.pair: Pair | None = None

    def take(self, project: Callable[[], Pair]) -> Pair:
        if self.pair is None:
            self.pair = project()
        return self.pair

    def rows(self, index: Sequence[int]) -> MemoryState:
        chosen = MemoryState()
        if self.pair is not None:
            which = torch.as_tensor(list(index), device=self.pair[0].device)
            chosen.pair = (self.pair[0][which], self.pair[1][which])
        return chosen


class LayerStates:
    """The states of a stack of layers, one for each, all of the same lengths."""

    def __init__(self, layers: Sequence[State]) -> None:
        self.layers = layers

    @classmethod
    def empty(cls, layers: int, rows: int, capacity: int) -> LayerStates:
        return cls([KeyValueState(rows, capacity) for _ in range(layers)])

    @property
    def lengths(self) -> list[int]:
        return self.layers[0].lengths

    def rows(self, index: Sequence[int]) -> LayerStates:
        return LayerStates([layer.rows(index) for layer in self.layers])

    def truncate(self, length: int) -> None:
        for layer in self.layers:
            layer.truncate(length)

    def reset(self, row: int) -> None:
        for layer in self.layers:
            layer.reset(row)


class RecurrentState:
    """The hidden vectors of a recurrence, each (layers, rows, D): one for an RNN or a GRU, two for an LSTM.

    A hidden vector does not contain the earlier ones, so those after every call are kept, with the rows chosen in
    between; `truncate` goes back to one of them.
    """

    def __init__(self, rows: int, initial: tuple[Tensor, ...]) -> None:
        self.lengths = [0] * rows
        self.begun = False
        self.initial = self.hidden = tuple(part.expand(-1, rows, -1) for part in initial)
        self._past: list[tuple[list[int], tuple[Tensor, ...]] | list[int]] = [(list(self.lengths), self.hidden)]

    def begin(self, initial: tuple[Tensor, ...]) -> None:
        """Start each row from its own vector, (layers, rows, D), as a decoder does from the encoded source."""
        assert not any(self.lengths), "a state that holds tokens cannot start again"
        self.begun = True
        self.initial = self.hidden = initial
        self._past = [(list(self.lengths), self.hidden)]

    def update(self, hidden: tuple[Tensor, ...], new: int) -> None:
        self.hidden = hidden
        self.lengths = [length + new for length in self.lengths]
        self._past.append((list(self.lengths), hidden))

    def rows(self, index: Sequence[int]) -> RecurrentState:
        which = torch.as_tensor(list(index), device=self.hidden[0].device)
        chosen = RecurrentState(len(index), tuple(part[:, which] for part in self.initial))
        chosen.lengths, chosen.begun = [self.lengths[row] for row in index], self.begun
        chosen.hidden = tuple(part[:, which] for part in self.hidden)
        chosen._past = [*self._past, list(index)]
        return chosen

    def truncate(self, length: int) -> None:
        wanted = [min(length, own) for own in self.lengths]
        order = list(range(len(wanted)))
        for place in reversed(range(len(self._past))):
            kept = self._past[place]
            if isinstance(kept, list):
                order = [kept[row] for row in order]
            elif [kept[0][row] for row in order] == wanted:
                self.lengths, self.hidden = wanted, tuple(part[:, order] for part in kept[1])
                self._past = [*self._past[: place + 1], order]
                return
        raise ValueError(f"a recurrence can only go back to the end of an earlier call, not to length {length}")

    def reset(self, row: int) -> None:
        self.lengths[row] = 0
        self.hidden = tuple(
            torch.cat([part[:, :row], start[:, row : row + 1], part[:, row + 1 :]], 1)
            for part, start in zip(self.hidden, self.initial, strict=True)
        )
        self._past = [(list(self.lengths), self.hidden)]


def _longer(held: Tensor, room: int) -> Tensor:
    """(rows, G, S, K) with room for more positions, which are zero."""
    return torch.cat([held, held.new_zeros(*held.shape[:2], room - held.size(2), held.size(3))], 2)


def _picked(held: Tensor, which: Tensor, room: int) -> Tensor:
    """Some rows of (rows, G, S, K), with room for so many positions; those beyond S are zero."""
    filled = min(room, held.size(2))
    copy = held.new_empty(len(which), held.size(1), room, held.size(3))
    torch.index_select(held[:, :, :filled], 0, which, out=copy[:, :, :filled])
    copy[:, :, filled:] = 0
    return copy


def runs(lengths: list[int]) -> list[tuple[int, int, int]]:
    """Neighbouring rows of equal length as (first, last, length): one slice writes each run."""
    spans: list[tuple[int, int, int]] = []
    for row, length in enumerate(lengths):
        if spans and spans[-1][2] == length:
            spans[-1] = (spans[-1][0], row + 1, length)
        else:
            spans.append((row, row + 1, length))
    return spans


def next_positions(state: State | None, new: int, device: torch.device) -> tuple[Tensor, int]:
    """Absolute positions of `new` tokens after the old ones, (T,) or (B, T), and the number of keys with them."""
    counted = torch.arange(new, device=device)
    if state is None:
        return counted, new
    lengths = state.lengths
    if len(set(lengths)) == 1:
        return counted + lengths[0], lengths[0] + new
    return torch.tensor(lengths, device=device).unsqueeze(1) + counted, max(lengths) + new

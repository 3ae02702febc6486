"""States of bounded size: what lies further back than a layer can reach is dropped, however long the text.

PastState   the last inputs of a convolution                                (rows, reach + SPARE, D)
RingState   keys and values of an attention with a window, position p in slot p mod room (rows, G, window + SPARE, K)

`SPARE` more positions are kept than a layer reaches, so that as many tokens can be taken back. A model with a window
calls `window_mask` and `window_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from qkv.blocks import masks
from qkv.blocks.state import KeyValueState, LayerStates, Pair, runs

SPARE = 8
LONG = 4  # windows; for a shorter text the whole mask is as quick as its band


class PastState:
    """The newest input is the last one; before the first one there are zeros, as before the start of a text."""

    def __init__(self, rows: int, reach: int) -> None:
        self.lengths = [0] * rows
        self.reach = reach
        self.held = [0] * rows
        self.inputs: Tensor | None = None

    def take(self, x: Shaped[Tensor, "B T D"]) -> Shaped[Tensor, "B _ D"]:
        """The new inputs after the `reach` that came before them."""
        if self.inputs is None:
            self.inputs = x.new_zeros(len(x), self.reach + SPARE, x.size(2))
        joined = torch.cat([self.inputs, x], 1)
        self.inputs = joined[:, x.size(1) :]
        self.lengths = [length + x.size(1) for length in self.lengths]
        self.held = [min(self.reach + SPARE, held + x.size(1)) for held in self.held]
        return joined[:, SPARE:]

    def rows(self, index: Sequence[int]) -> PastState:
        chosen = PastState(len(index), self.reach)
        chosen.lengths, chosen.held = [self.lengths[row] for row in index], [self.held[row] for row in index]
        if self.inputs is not None:
            chosen.inputs = self.inputs[torch.as_tensor(list(index), device=self.inputs.device)]
        return chosen

    def truncate(self, length: int) -> None:
        back = [max(0, own - length) for own in self.lengths]
        for own, held, less in zip(self.lengths, self.held, back, strict=True):
            if less and max(0, held - less) < min(length, self.reach):
                raise _forgotten(own - held, own, length, max(0, length - self.reach))
        self.lengths = [own - less for own, less in zip(self.lengths, back, strict=True)]
        self.held = [max(0, held - less) for held, less in zip(self.held, back, strict=True)]
        if self.inputs is not None:
            room = self.inputs.size(1)
            moved = [
                torch.cat([torch.zeros_like(row[:less]), row[: room - less]])
                for row, less in zip(self.inputs, (min(room, less) for less in back), strict=True)
            ]
            self.inputs = torch.stack(moved)

    def reset(self, row: int) -> None:
        self.lengths[row] = self.held[row] = 0
        if self.inputs is not None:
            self.inputs = self.inputs.index_fill(0, torch.tensor([row], device=self.inputs.device), 0.0)


class RingState(KeyValueState):
    """As `KeyValueState`, up to the same `capacity` of positions, but only the last ones are kept."""

    def __init__(self, rows: int, capacity: int, window: int) -> None:
        super().__init__(rows, capacity)
        self.window = window
        self.room = min(capacity, window + SPARE)
        self.first = [0] * rows  # the oldest position that is still held

    def take(self, project: Callable[[], Pair]) -> Pair:
        """Remember the new keys and values; return those to attend to, in the order of `key_positions`."""
        pair = project()
        self.require(pair[0].size(2))
        if self.keys is None or self.values is None:
            self.keys, self.values = (part.new_zeros(*part.shape[:2], self.room, part.size(3)) for part in pair)
        ring, new = (self.keys, self.values), pair[0].size(2)
        shown = self._shown(new)
        joined = [torch.cat(parts, 2) for parts in zip(ring, pair, strict=True)] if shown is None else []
        kept = min(new, self.room)
        for first, last, start in runs(self.lengths):
            slots = _slots(start + new - kept, kept, self.room, pair[0].device)
            for own, part in zip(ring, pair, strict=True):
                own[first:last, :, slots] = part[first:last, :, new - kept :]
        self.lengths = [length + new for length in self.lengths]
        self.first = [max(old, length - self.room) for old, length in zip(self.first, self.lengths, strict=True)]
        if shown is None:
            return joined[0], joined[1]
        return pair if shown == 0 else (self.keys[:, :, :shown], self.values[:, :, :shown])

    def key_positions(self, new: int, device: torch.device) -> Int[Tensor, "... S"]:
        """The positions of the keys that `take` will give with `new` ones; a negative one is empty."""
        shown = self._shown(new)
        if shown == 0:
            return torch.arange(new, device=device)
        lengths = torch.tensor(self.lengths, device=device).unsqueeze(1)  # (B, 1)
        if len(set(self.lengths)) == 1:
            lengths = lengths[0]  # (1,)
        if shown is not None:
            return _held_positions(lengths + new, shown, self.room)
        return torch.cat(
            [_held_positions(lengths, self.room, self.room), lengths + torch.arange(new, device=device)], -1
        )

    def _shown(self, new: int) -> int | None:
        """How many slots to return once `new` are written. 0: only the new ones. None: all slots, then the new ones."""
        if max(self.lengths) == 0:
            return 0
        longest = max(self.lengths) + new
        return None if new > 1 and longest > self.room else min(longest, self.room)

    def rows(self, index: Sequence[int]) -> RingState:
        chosen = RingState(len(index), self.capacity, self.window)
        self.copy_rows(chosen, index, self.room)
        chosen.first = [self.first[row] for row in index]
        return chosen

    def truncate(self, length: int) -> None:
        needed = max(0, length - self.window + 1)
        for own, first in zip(self.lengths, self.first, strict=True):
            if own > length > needed and first > needed:
                raise _forgotten(first, own, length, needed)
        super().truncate(length)
        self.first = [min(first, own) for first, own in zip(self.first, self.lengths, strict=True)]

    def reset(self, row: int) -> None:
        super().reset(row)
        self.first[row] = 0


def _forgotten(first: int, own: int, length: int, needed: int) -> ValueError:
    return ValueError(
        f"the state holds positions {first} to {own - 1}; to go back to length {length} it would need those "
        f"from {needed} on. At least {SPARE} tokens can be taken back; start a new state and give it the text again"
    )


def _slots(position: int, kept: int, room: int, device: torch.device) -> slice | Tensor:
    """The slots of `kept` positions from `position` on: neighbours, or wrapped around the end."""
    first = position % room
    if first + kept <= room:
        return slice(first, first + kept)
    return torch.arange(first, first + kept, device=device) % room


def _held_positions(lengths: Tensor, slots: int, room: int) -> Tensor:
    """The position in each of the first slots: the last one before the length that maps to it."""
    last = lengths - 1
    return last - (last - torch.arange(slots, device=lengths.device)) % room


def window_states(layers: int, rows: int, capacity: int, window: int) -> LayerStates:
    """The states of a stack of attention layers; with a window of 0 they keep everything."""
    if not window:
        return LayerStates.empty(layers, rows, capacity)
    return LayerStates([RingState(rows, capacity, window) for _ in range(layers)])


def window_mask(
    state: LayerStates | None, positions: Int[Tensor, "... T"], window: int
) -> Bool[Tensor, "... S"] | masks.Band:
    """The mask for the keys that the state will return; a `Band` where a text is long and starts here."""
    new = positions.size(-1)
    if state is None or max(state.lengths) == 0:
        return masks.Band(window) if new >= LONG * window else masks.window(positions, new, window)
    first = state.layers[0]
    assert isinstance(first, RingState), "a model with a window takes the state that it gave"
    return masks.within(positions, first.key_positions(new, positions.device), window)

"""Masks: causality and padding as data. True = may attend. Positions are absolute, counted from the start of the text,
so a mask fits any state.

Deck 004, "causal mask requires a token cannot use the information of a future token".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal(positions: Int[Tensor, "... T"], keys: int) -> Bool[Tensor, "... T S"]:
    """A query at each of these positions may attend to itself and to earlier ones, of the first `keys` positions."""
    return torch.arange(keys, device=positions.device) <= positions.unsqueeze(-1)


def causal_or_none(positions: Int[Tensor, "... T"], keys: int) -> Bool[Tensor, "... T S"] | None:
    """As `causal`; None, which costs nothing, for the last token alone: it may attend to everything."""
    return None if positions.numel() == 1 and int(positions) == keys - 1 else causal(positions, keys)


def window(positions: Int[Tensor, "... T"], keys: int, reach: int) -> Bool[Tensor, "... T S"]:
    """Causal, with the last `reach` positions only, itself included: O(r n d) in deck 002's table."""
    return within(positions, torch.arange(keys, device=positions.device), reach)


def within(positions: Int[Tensor, "... T"], keys: Int[Tensor, "... S"], reach: int) -> Bool[Tensor, "... T S"]:
    """As `window`, for keys in any order, given by their positions; a negative one marks an empty slot."""
    positions, keys = positions.unsqueeze(-1), keys.unsqueeze(-2)
    return (keys <= positions) & (keys > positions - reach) & (keys >= 0)


@dataclass(frozen=True)
class Band:
    """`window` over a whole text, not computed: its n² values would cost more than the attention itself."""

    reach: int

    def mask(self, length: int, device: torch.device) -> Bool[Tensor, "T S"]:
        return window(torch.arange(length, device=device), length, self.reach)


def padding(present: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 S"]:
    """No query attends to padding; `present` is True for real tokens."""
    return present.unsqueeze(1)

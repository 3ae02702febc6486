"""Masks: causality and padding as data. True = may look. Places are absolute positions, so a mask fits any state.

Deck 004, "causal mask requires a token cannot use the information of a future token".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal(places: Int[Tensor, "... T"], keys: int) -> Bool[Tensor, "... T S"]:
    """A query at each of these places may look at itself and at what came before, of the first `keys` places."""
    return torch.arange(keys, device=places.device) <= places.unsqueeze(-1)


def causal_or_none(places: Int[Tensor, "... T"], keys: int) -> Bool[Tensor, "... T S"] | None:
    """As `causal`; None, which costs nothing, for the last token alone: it may look at everything."""
    return None if places.numel() == 1 and int(places) == keys - 1 else causal(places, keys)


def window(places: Int[Tensor, "... T"], keys: int, reach: int) -> Bool[Tensor, "... T S"]:
    """Causal, and no further back than `reach` positions, itself included: O(r n d) in deck 002's table."""
    return within(places, torch.arange(keys, device=places.device), reach)


def within(places: Int[Tensor, "... T"], keys: Int[Tensor, "... S"], reach: int) -> Bool[Tensor, "... T S"]:
    """The same where the places of the keys may stand in any order; a negative one is empty."""
    places, keys = places.unsqueeze(-1), keys.unsqueeze(-2)
    return (keys <= places) & (keys > places - reach) & (keys >= 0)


@dataclass(frozen=True)
class Band:
    """`window` over a whole text, not written out: n² values would cost more than the attention itself."""

    reach: int

    def mask(self, length: int, device: torch.device) -> Bool[Tensor, "T S"]:
        return window(torch.arange(length, device=device), length, self.reach)


def padding(present: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 S"]:
    """Nobody looks at padding; `present` is True for real tokens."""
    return present.unsqueeze(1)

"""Masks: causality and padding as data. True = may look. Places are absolute positions, so a mask fits any state.

Deck 004, "causal mask requires a token cannot use the information of a future token".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal(asking: Int[Tensor, "... T"], answers: int) -> Bool[Tensor, "... T S"]:
    """A position may look at itself and at what came before; `answers` positions are there to look at."""
    answering = torch.arange(answers, device=asking.device)
    return answering <= asking.unsqueeze(-1)


def written(asking: Int[Tensor, "... T"], answers: int) -> Bool[Tensor, "... T S"] | None:
    """As `causal`; None, which costs nothing, where the last token asks alone: it may look at all that is written."""
    return None if asking.numel() == 1 and int(asking) == answers - 1 else causal(asking, answers)


def window(asking: Int[Tensor, "... T"], answers: int, reach: int) -> Bool[Tensor, "... T S"]:
    """Causal, and no further back than `reach` positions, itself included: O(r n d) in deck 002's table."""
    return within(asking, torch.arange(answers, device=asking.device), reach)


def within(asking: Int[Tensor, "... T"], answering: Int[Tensor, "... S"], reach: int) -> Bool[Tensor, "... T S"]:
    """The same where the answering positions may stand in any order; a negative one is empty."""
    asking, answering = asking.unsqueeze(-1), answering.unsqueeze(-2)
    return (answering <= asking) & (answering > asking - reach) & (answering >= 0)


@dataclass(frozen=True)
class Band:
    """`window` over a whole text, not written down: n² values would cost more than the attention itself."""

    reach: int

    def written(self, length: int, device: torch.device) -> Bool[Tensor, "T S"]:
        return window(torch.arange(length, device=device), length, self.reach)


def padding(present: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 S"]:
    """Nobody looks at padding; `present` is True for real tokens."""
    return present.unsqueeze(1)

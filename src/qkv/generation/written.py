"""What a model gives to people: a text it wrote, and rows of the next-word table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Written:
    """One sample: the text after the prompt, its tokens, and why it ended ("length", "end" or "stop")."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["length", "end", "stop"] = "length"


@dataclass(frozen=True)
class Next:
    """One row of the next-word table."""

    piece: str
    token: int
    probability: float

"""The ranges of numbers that commands and library calls accept, and what can be learned of an example.

Numbers beyond these ranges would exhaust memory, time or floating-point arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qkv.errors import InputError

ExampleTask = Literal["classification", "regression", "multi-label", "tagging", "images"]
"""A class, a number, several classes, a class for each word, a picture's class."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `high` is included, and so is `low` unless `above_low` is set."""

    low: int | float
    high: int | float
    hint: str = ""
    above_low: bool = False

    def __contains__(self, value: int | float) -> bool:
        return self.low <= value <= self.high and not (self.above_low and value == self.low)  # nan is in no range

    def __str__(self) -> str:
        if self.above_low:
            numbers = f"a number above {self.low:,}, at most {self.high:,}"
        else:
            numbers = f"{self.low:,} to {self.high:,}"
        return f"expected {numbers}{f' ({self.hint})' if self.hint else ''}"

    def require(self, name: str, value: int | float) -> int | float:
        """Return the value; InputError if it is outside the range."""
        if value not in self:
            raise InputError(f"{name} {value}: {self}.")
        return value


COUNT = Range(1, 1_000_000)
SEED = Range(0, 2**40)
TRAINING_SEED = Range(0, 2**31)
MINUTES = Range(0, 1_000_000, above_low=True)
STEPS = Range(1, 2**31)
CONTEXT = Range(1, 2**20)
VOCABULARY = Range(1, 2**22)
LENGTH = Range(1, 10_000_000)
SAMPLES = Range(1, 10_000, "for more samples, use other seeds")
BEAMS = Range(1, 10_000, "5 are usual; more seldom help")
LENGTH_PENALTY = Range(-5, 5, "1 divides by the length")
TEMPERATURE = Range(0, 1_000, "0 is greedy")
TOP_K = Range(0, 2**31, "0 is all")
FRACTION = Range(0, 1)
LORA_RANK = Range(1, 2**16, "a rank, such as 8")
POSITIVE_FRACTION = Range(0, 1, above_low=True)
REPETITION_PENALTY = Range(0.01, 100, "1 is none")

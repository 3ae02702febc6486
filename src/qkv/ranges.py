"""How far the numbers of commands and calls may go. Beyond, memory, time or arithmetic would give out first. And the
metrics that systems are compared by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qkv.errors import InputError

ComparedMetric = Literal["auto", "accuracy", "f1", "macro_f1", "matthews"]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included unless `open_` leaves `low` out."""

    low: int | float
    high: int | float
    more: str = ""  # what else a person should know
    open_: bool = False

    def __contains__(self, value: int | float) -> bool:
        return self.low <= value <= self.high and not (self.open_ and value == self.low)  # nan is in no range

    def __str__(self) -> str:
        lead = f"a number above {self.low:,}, at most {self.high:,}" if self.open_ else f"{self.low:,} to {self.high:,}"
        return f"expected {lead}{f' ({self.more})' if self.more else ''}"

    def require(self, name: str, value: int | float) -> int | float:
        """The value, if it is within; else it is refused."""
        if value not in self:
            raise InputError(f"{name} {value}: {self}.")
        return value


COUNT = Range(1, 1_000_000)
SEED = Range(0, 2**40)
TRAINING_SEED = Range(0, 2**31)
MINUTES = Range(0, 1_000_000, open_=True)
STEPS = Range(1, 2**31)
CONTEXT = Range(1, 2**20)
VOCABULARY = Range(1, 2**22)
LENGTH = Range(1, 10_000_000)
SAMPLES = Range(1, 10_000, "more come by other seeds")
BEAMS = Range(1, 10_000, "5 are usual; more seldom help")
PENALTY = Range(-5, 5, "1 divides by the length")
TEMPERATURE = Range(0, 1_000, "0 is greedy")
TOP_K = Range(0, 2**31, "0 is all")
SHARE = Range(0, 1)
ABOVE_ZERO = Range(0, 1, open_=True)
REPETITION = Range(0.01, 100, "1 is none")


def require_writing(length: int, samples: int) -> None:
    LENGTH.require("length", length)
    SAMPLES.require("samples", samples)

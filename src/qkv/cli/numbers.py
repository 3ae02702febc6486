"""Numeric options. Each has its range, which the parser checks: nothing is opened for a number that cannot be meant."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from qkv import ranges
from qkv.ranges import Range


class Within:
    """The parser's check of one option."""

    def __init__(self, allowed: Range) -> None:
        self.allowed = allowed

    def __call__(self, _: Any, value: int | float | None) -> None:
        if value is not None and value not in self.allowed:
            raise ValueError(str(self.allowed))


def within(allowed: Range, **more: Any) -> Parameter:
    return Parameter(validator=Within(allowed), **more)


Top = Annotated[int, within(ranges.COUNT)]
Seed = Annotated[int, within(ranges.SEED)]
Minutes = Annotated[float, within(ranges.MINUTES)]
MinutesOrNone = Annotated[float | None, within(ranges.MINUTES)]
StepsOrNone = Annotated[int | None, within(ranges.STEPS)]
TrainingSeed = Annotated[int, within(ranges.TRAINING_SEED)]
SeedOrNone = Annotated[int | None, within(ranges.TRAINING_SEED)]
Length = Annotated[int, within(ranges.LENGTH)]
Temperature = Annotated[float, within(ranges.TEMPERATURE)]
TopK = Annotated[int, within(ranges.TOP_K)]
TopP = Annotated[float, within(ranges.ABOVE_ZERO)]

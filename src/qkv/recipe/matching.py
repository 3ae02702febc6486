"""Equal numbers of parameters: the width at which a model is as large as another (deck 000's skeptical aside)."""

from __future__ import annotations

import functools
import math
from typing import Any

from qkv.blocks.initialization import outline
from qkv.errors import ConfigError
from qkv.models.language_model import count
from qkv.recipe.recipe import parse_model

CLOSE = 0.02  # of the wanted number; round widths come first, for processors like them


def parameters(model: dict[str, Any]) -> int:
    """How many a model section asks for; nothing is allocated."""
    with outline():
        return count(parse_model(model, "the recipe").build())


def matched_width(model: dict[str, Any], wanted: int) -> int | None:
    """The width that gives about the wanted number; None for a section that cannot be built: others say why."""

    @functools.cache
    def off(width: int) -> float:
        return parameters({**model, "width": width}) / wanted - 1

    try:
        low, high = 1, math.isqrt(wanted) + 2  # every model has a matrix of its width squared
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if off(middle) < 0 else (low, middle)
        for step in (16, 8, 4, 2, 1):
            width = min((max(step, low // step * step), max(step, -(-high // step) * step)), key=lambda w: abs(off(w)))
            if abs(off(width)) < CLOSE:
                break
    except ConfigError:
        return None
    return width

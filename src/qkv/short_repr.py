"""A `repr` that fits on a screen, for results that hold tensors or long lists: shapes and counts, not contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

LONGEST_TEXT, MOST_ITEMS = 60, 6


class ShortRepr:
    """For dataclasses, which need `repr=False` as well. Whatever is long is described, not written out."""

    def __repr__(self) -> str:
        parts = (f"{field.name}={described(getattr(self, field.name))}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(parts)})"


def described(value: Any) -> str:
    kind = type(value).__name__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{kind} {tuple(value.shape)}>"
    if isinstance(value, Mapping):
        keys = [str(key) for key in list(value)[:MOST_ITEMS]]
        return f"<{kind} of {len(value)}: {', '.join(keys)}{', …' if len(value) > MOST_ITEMS else ''}>"
    if isinstance(value, list | tuple):
        nested = any(isinstance(each, ShortRepr) for each in value)
        if nested or len(value) > MOST_ITEMS:
            return f"<{kind} of {len(value)}>"
    text = repr(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"

"""Classification: one or several labels, or a number, for each text, image or row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Claims labelled examples."""
    return detected.content == "examples"

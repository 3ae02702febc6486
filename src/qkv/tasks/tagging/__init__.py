"""Tagging: a label for each word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Nothing by itself: classification hands examples over when they turn out to be tagged words."""
    return False

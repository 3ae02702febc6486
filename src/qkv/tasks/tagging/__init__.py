"""Tagging: a label for each word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Claims nothing: `registry.open_task` turns the classification of tagged words into this task."""
    return False

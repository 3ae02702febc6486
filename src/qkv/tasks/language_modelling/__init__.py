"""Language modelling: predict the next token."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Claims all data that no other task claims."""
    return True

"""Translation: parallel text in, a translator out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.models.registry import TRANSLATORS, preset

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Claims parallel text, and any data for a translator or a translation metric unless label columns are named."""
    model = str(draft.model.get("kind"))
    asked_for = model in TRANSLATORS or preset(TRANSLATORS, model) is not None or "metric" in draft.task
    return detected.content == "pairs" or (asked_for and not detected.labelled_options_given)

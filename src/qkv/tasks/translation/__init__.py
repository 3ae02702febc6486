"""Translation: parallel text in, a translator out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.models.registry import TRANSLATORS, preset

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Parallel text; and any data where model or metric are of translations and no columns of labels are named."""
    model = str(draft.model.get("kind"))
    wanted = model in TRANSLATORS or preset(TRANSLATORS, model) is not None or "metric" in draft.task
    return detected.content == "pairs" or (wanted and not detected.labelled_options_given)

"""Masked language modelling: predict masked tokens, and whether a passage follows another (BERT)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.models.registry import TEXT_ENCODERS, preset

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.recipe.draft import Draft


def claims(draft: Draft, detected: Detected) -> bool:
    """Claims any data for a model that predicts masked tokens."""
    model = str(draft.model.get("kind"))
    return model in ("bert", "masked") or preset(TEXT_ENCODERS, model) is not None

"""What the rules choose for a translator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import small_pairs
from qkv.recipe.draft import Draft
from qkv.tasks.translation.task import RECURRENT_SECONDS, TranslationTask


@pytest.mark.parametrize(
    ("model", "seconds", "said"),
    [
        ({}, 300.0, True),
        ({}, RECURRENT_SECONDS + 60, False),
        ({}, None, False),
        ({"kind": "transformer-tiny"}, 300.0, False),
    ],
)
def test_a_faster_learner_is_named_where_time_is_short_and_nobody_chose(
    model: dict[str, Any], seconds: float | None, said: bool, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"corpus": {"files": small_pairs.write(tmp_path)}, "model": model}
    draft = Draft.parse(values, "the test")
    opened = TranslationTask.open(draft, None)
    resolved, _ = opened.resolve(draft, None if seconds is None else time.perf_counter() + seconds)
    assert any("--model rnn-translator" in note for note in opened.notes) == said
    assert resolved.model["kind"] == "transformer"

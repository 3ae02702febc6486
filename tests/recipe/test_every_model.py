"""Every name of a model on every kind of data: a complete recipe, or a refusal with the name and what fits instead."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from qkv.errors import InputError
from qkv.models import bert, gpt, transformer
from qkv.models.registry import IMAGE_ENCODERS, LANGUAGE_MODELS, MODELS, TEXT_ENCODERS, TRANSLATORS
from qkv.recipe.draft import Draft
from qkv.tasks import registry
from qkv.tasks.classification import systems
from reliability import families

PRESETS = [*gpt.PRESETS, *bert.PRESETS, *transformer.PRESETS]
NAMES = dict.fromkeys([*MODELS, *systems.TEXT_SYSTEMS, *systems.IMAGE_SYSTEMS, *systems.NUMBER_SYSTEMS, *PRESETS])
ENCODERS = [*TEXT_ENCODERS, *LANGUAGE_MODELS, *IMAGE_ENCODERS]
OPTIONS = {"--label": "label", "--task": "task"}


def values(folder: Path, data: str, **model: Any) -> dict[str, dict[str, Any]]:
    """A recipe as the command line makes it of these words."""
    words = families.write(folder, data)
    given = {OPTIONS[name]: value for name, value in pairwise(words) if name in OPTIONS}
    files = [word for word in words if word not in OPTIONS and word not in given.values()]
    return {"model": model, "corpus": {"files": files, **given}, "training": {"threads": 1, "steps": 2}}


def resolved(recipe: dict[str, dict[str, Any]]) -> str:
    """Fill the gaps, all but the weights: an empty string, or the refusal."""
    try:
        draft = Draft.parse(recipe, "the recipe")
        opened = registry.open_task(draft, None)
        draft, _ = opened.resolve(draft, None)
        opened.complete(opened.resolve_steps(draft, 2, timed=False))
    except InputError as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("data", families.DATA)
def test_a_model_fits_or_is_refused(tmp_path: Path, data: str) -> None:
    refused = {name: said for name in [*NAMES, "nonsense"] if (said := resolved(values(tmp_path, data, kind=name)))}
    fitting = families.models(data)
    assert not refused.keys() & set(fitting), refused
    assert "nonsense" in refused
    # a translator's name asks for pairs, whatever the files are, so that its refusal is about those
    about_models = {name: said for name, said in refused.items() if name not in (*TRANSLATORS, *transformer.PRESETS)}
    for name, said in about_models.items():
        assert repr(name) in said
        assert "did you mean" in said or all(each in said for each in fitting), said


@pytest.mark.parametrize("data", families.DATA)
def test_a_model_around_an_encoder_fits_or_is_refused(tmp_path: Path, data: str) -> None:
    """As somebody may write it who has seen a resolved recipe."""
    for kind in ("classifier", "tagger", "masked"):
        for encoder in ({}, "lstm", *({"kind": name} for name in [*ENCODERS, "nonsense"])):
            resolved(values(tmp_path, data, kind=kind, encoder=encoder))  # a fault would be raised


@pytest.mark.parametrize("data", families.DATA)
def test_a_task_fits_or_is_refused(tmp_path: Path, data: str) -> None:
    for task in registry.TASKS:
        resolved({**values(tmp_path, data), "task": {"kind": task}})


@pytest.mark.parametrize("name", ["bert", "masked", *bert.PRESETS])
def test_a_model_that_fills_gaps_is_not_advised_to_itself(tmp_path: Path, name: str) -> None:
    said = resolved({**values(tmp_path, "text", kind=name), "task": {"kind": "language-modelling"}})
    assert f"model {name!r} fills gaps" in said
    assert "did you mean" not in said
    assert all(each in said for each in LANGUAGE_MODELS)

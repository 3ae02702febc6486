"""Models of equal size: what is chosen for a text has as many parameters as `modern` would have."""

from __future__ import annotations

from typing import Any

import pytest

from qkv.models.registry import defaults
from qkv.recipe import resolve
from qkv.recipe.origin import matched_width, parameters


def chosen(kind: str, vocabulary: int, tokens: int, **said: Any) -> dict[str, Any]:
    return resolve.language_model({"kind": kind, **said}, vocabulary, tokens)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("vocabulary", [30, 4096])
@pytest.mark.parametrize("tokens", [5_000, 1_000_000])
def test_as_many_parameters_as_modern(kind: str, vocabulary: int, tokens: int) -> None:
    wanted = parameters(chosen("modern", vocabulary, tokens))
    for said in ({}, {"layers": 4, "context": 48}):
        model = chosen(kind, vocabulary, tokens, **said)
        assert said.items() <= model.items()
        assert parameters(model) == pytest.approx(wanted, rel=0.05)


def test_a_width_that_is_said_stays() -> None:
    model = chosen("mlp", 30, 5_000, width=33)
    assert (model["width"], model["layers"]) == (33, defaults("mlp").layers)


def test_any_kind_can_be_matched() -> None:
    width = matched_width({"kind": "lstm", "vocabulary": 67, "layers": 2}, 500_000)
    assert width is not None
    assert parameters({"kind": "lstm", "vocabulary": 67, "layers": 2, "width": width}) == pytest.approx(
        500_000, rel=0.02
    )


def test_a_section_that_cannot_be_built_is_left_to_others() -> None:
    assert matched_width({"kind": "cnn", "vocabulary": 9, "layers": "many"}, 10_000) is None
    assert chosen("cnn", 9, 5_000, layers=0)["layers"] == 0

"""How bench/pins.py compares two commits: renames are applied, and whatever else differs is reported."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def comparison(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pinned_comparison", root / "bench" / "pinned" / "comparison.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


TABLE: dict[str, Any] = {
    "recipe": {"training.rate": "training.learning_rate", "corpus": "data", "model.*.there": "model.*.support"},
    "evaluate": {"classes.*.there": "classes.*.support"},
    "options": {"--beside": "--compare", "tune --each": "--trial-minutes", "--metric errors": "--metric error-rate"},
    "added": {"recipe": ["format"]},
    "absent": {"recipe: training.start": ""},
}


def different(comparison: ModuleType, kind: str, base: Any, head: Any) -> list[tuple[str, Any, Any]]:
    found = comparison.document("probe", kind, base, head, comparison.Renames(TABLE))
    return [(each.key, each.base, each.head) for each in found]


def test_renamed_keys_are_equal(comparison: ModuleType) -> None:
    base = {"training": {"rate": 0.1, "start": ""}, "corpus": {"files": ["a", "b"]}, "model": {"good": {"there": 3}}}
    head = {"format": 2, "training": {"learning_rate": 0.1}, "data": {"files": ["a", "b"]}}
    head["model"] = {"good": {"support": 3}}
    assert not different(comparison, "recipe", base, head)
    assert not different(comparison, "evaluate", {"classes": [{"there": 1}]}, {"classes": [{"support": 1}]})


def test_everything_else_is_reported(comparison: ModuleType) -> None:
    base = {"training": {"rate": 0.1, "steps": 3, "keep": 2}, "corpus": {"files": ["a"]}}
    head = {"training": {"learning_rate": 0.2, "steps": 3.0, "more": 1}, "data": {"files": ["a", "b"]}}
    assert different(comparison, "recipe", base, head) == [
        ("recipe: training.learning_rate", 0.1, 0.2),
        ("recipe: training.steps", 3, 3.0),
        ("recipe: training.keep", 2, comparison.MISSING),
        ("recipe: training.more", comparison.MISSING, 1),
        ("recipe: data.files.1", comparison.MISSING, "b"),
    ]
    assert different(comparison, "train", {"training": {"rate": 1}}, {"training": {"learning_rate": 1}})


def test_times_are_masked_and_sentences_have_facts(comparison: ModuleType) -> None:
    base = {"seconds": 0.4, "notes": ["a.csv:3: 2 of 9 rows left out, the first is 'x'."], "sample": "old words"}
    head = {"seconds": 0.9, "notes": ["2 of 9 rows were left out; a.csv:3: is 'x'."], "sample": "old words"}
    assert not different(comparison, "train", base, head)
    head["notes"] = ["2 of 8 rows were left out; a.csv:3: is 'x'."]
    assert [key for key, _, _ in different(comparison, "train", base, head)] == ["train: notes.0"]
    assert different(comparison, "train", {"sample": "old words"}, {"sample": "new words"})


def test_facts_and_remedies(comparison: ModuleType) -> None:
    message = "qkv: data/dev.csv:6: the label 'maybe' is not among 2 classes. Check the file."
    assert comparison.facts(message) == {"places": ["dev.csv:6"], "numbers": ["2", "6"], "quoted": ["maybe"]}
    assert comparison.remedy(message)
    assert not comparison.remedy("qkv: data/dev.csv: is empty.")


def test_words_of_the_head(comparison: ModuleType) -> None:
    renames = comparison.Renames(TABLE)
    assert renames.words(["evaluate", "m", "--beside", "n", "--metric", "errors"]) == (
        ["evaluate", "m", "--compare", "n", "--metric", "error-rate"]
    )
    assert renames.words(["tune", "--each", "1"]) == ["tune", "--trial-minutes", "1"]
    assert renames.words(["train", "--set", "training.rate=0.1"]) == ["train", "--set", "training.learning_rate=0.1"]


def test_the_table_names_keys(root: Path) -> None:
    table = tomllib.loads((root / "bench" / "pins_renames.toml").read_text(encoding="utf-8"))
    flat = [pair for name, section in table.items() if name not in ("added", "absent") for pair in section.items()]
    assert all(isinstance(old, str) and isinstance(new, str) and old != new for old, new in flat)

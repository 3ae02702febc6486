"""A run is named after the model that was trained, whatever the task, also where a complete recipe is trained again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.test_every_option import corpus
from qkv.library import new_run
from qkv.recipe.recipe import parse_model
from qkv.tasks.classification import systems
from reliability import families

IMAGE_SIZES = {"height": 14, "width_pixels": 14, "channels": 1}
DEFAULTS = {
    "text": "modern", "classification": "lstm", "multi-label": "lstm", "regression": "lstm", "two texts": "lstm",
    "tagging": "lstm", "images": "cnn", "numbers": "mlp", "translation": "transformer",
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "name"),
    [
        *(("classification", name) for name in systems.TEXT_SYSTEMS),
        *(("tagging", name) for name in systems.TAGGING_SYSTEMS),
        *(("images", name) for name in systems.IMAGE_SYSTEMS),
    ],
)
def test_the_name_of_a_system_is_found_again(task: str, name: str) -> None:
    section, _ = systems.classifier_section({"kind": name, "labels": ["a", "b"]}, task, "here")
    section["encoder"] |= IMAGE_SIZES if task == "images" else {"vocabulary": 100, "context": 32}
    assert systems.system_name(parse_model(section, "here")) == name


@pytest.mark.parametrize("kind", sorted(DEFAULTS))
def test_runs_are_named_after_the_default_model(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = corpus(families.write(tmp_path / "data", kind))
    options: dict[str, Any] = {f"corpus.{key}": value for key, value in section.items()}
    monkeypatch.chdir(tmp_path)
    start = {"settings": {"training.steps": 1}, "minutes": None, "run": None}
    first = new_run.start(options, names=("data", ""), **start)
    assert first.run.folder.name == f"data-{DEFAULTS[kind]}"
    again = new_run.start({}, recipe=first.run.folder / "recipe.toml", names=("data", ""), **start)
    assert again.run.folder.name == f"data-{DEFAULTS[kind]}-2"

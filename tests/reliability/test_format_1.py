"""Runs saved with the first format of recipes open, and resume to the bits of a run that was never interrupted."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path

import pytest
import tomli_w

from qkv.recipe.recipe import CORPUS_KEYS_OF_FORMAT_1, EVALUATION_UNITS, FORMAT, TRAINING_KEYS_OF_FORMAT_1
from qkv.tasks.registry import load_recipe
from reliability import families
from reliability.families import Family
from reliability.nursery import Nursery
from reliability.runs import fingerprint, resume


def as_format_1(path: Path) -> None:
    """Write a recipe as the first format had it."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    assert values.pop("format") == FORMAT
    task, training = values["task"], values["training"]
    unit = EVALUATION_UNITS.get(task["kind"], "tokens")
    training["evaluate_tokens"] = task.pop(f"evaluation_{unit}")
    training["evaluate_last"] = task.pop(f"final_evaluation_{unit}", 2000)
    for section, names in ((training, TRAINING_KEYS_OF_FORMAT_1), (values["corpus"], CORPUS_KEYS_OF_FORMAT_1)):
        for old, new in names.items():
            if new in section:
                section[old] = section.pop(new)
    path.write_text(tomli_w.dumps(values), encoding="utf-8")


def first_of_each_kind_of_data() -> list[Family]:
    chosen: dict[str, Family] = {}
    for family in [*families.families(), Family("text", "bert")]:
        chosen.setdefault(family.data + (" masked" if family.model == "bert" else ""), family)
    return list(chosen.values())


@pytest.mark.parametrize("family", first_of_each_kind_of_data(), ids=str)
def test_a_run_of_format_1_opens_and_resumes(nursery: Nursery, tmp_path: Path, family: Family) -> None:
    data = families.write(tmp_path / "data", family.data)
    done = nursery.qkv(*families.command(family, data, tmp_path / "whole"))
    assert done.code == 0, done.err
    run = tmp_path / "killed"
    assert nursery.call("killed", words=families.command(family, data, run), step=5).code == -signal.SIGKILL
    resolved = load_recipe(run / "recipe.toml")
    as_format_1(run / "recipe.toml")
    assert load_recipe(run / "recipe.toml") == resolved
    done = nursery.qkv(*resume(run))
    assert done.code == 0, done.err
    assert fingerprint(run) == fingerprint(tmp_path / "whole")

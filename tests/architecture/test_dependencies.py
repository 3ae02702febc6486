"""What is installed stays small, pinned and free of GPU libraries."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]).lower()


@pytest.fixture(scope="module")
def pins(root: Path) -> dict[str, str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.fixture(scope="module")
def declared(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def test_constraints_hold_pins_only(root: Path) -> None:
    for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line), line


def test_no_gpu_and_no_vision_packages(pins: dict[str, str]) -> None:
    unwanted = re.compile(r"nvidia-|cuda-|triton$|torchvision$|torchaudio$")
    assert not [name for name in pins if unwanted.match(name)]


def test_torch_is_pinned_for_every_machine(pins: dict[str, str]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", pins["torch"])  # no +cpu: that name exists in one index only


def test_every_direct_dependency_is_pinned(pins: dict[str, str], declared: dict[str, Any]) -> None:
    project, groups = declared["project"], declared["dependency-groups"].values()
    named = [project["dependencies"], *project["optional-dependencies"].values(), *groups]
    direct = {canonical(item) for group in named for item in group if isinstance(item, str)}
    assert direct - {"qkv"} <= set(pins)


def test_few_runtime_dependencies(declared: dict[str, Any]) -> None:
    assert len(declared["project"]["dependencies"]) <= 12


def test_the_extra_all_has_every_other(declared: dict[str, Any]) -> None:
    extras = declared["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == f"qkv[{','.join(name for name in extras if name != 'all')}]"


def test_what_developers_need_is_not_published(declared: dict[str, Any], root: Path) -> None:
    groups = declared["dependency-groups"]
    assert not groups.keys() & declared["project"]["optional-dependencies"].keys()
    used = set(re.findall(r"--group (\w+)", (root / "Makefile").read_text(encoding="utf-8")))
    assert used == {"dev", "bench"} <= groups.keys()

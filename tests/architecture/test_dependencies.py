"""What is installed stays small, pinned and free of GPU libraries."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]).lower()


@pytest.fixture(scope="module")
def pins(root: Path) -> dict[str, str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, object]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_constraints_hold_pins_only(root: Path) -> None:
    for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line), line


def test_no_gpu_and_no_vision_packages(pins: dict[str, str]) -> None:
    unwanted = re.compile(r"nvidia-|cuda-|triton$|torchvision$|torchaudio$")
    assert not [name for name in pins if unwanted.match(name)]


def test_torch_is_pinned_for_every_machine(pins: dict[str, str]) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", pins["torch"])  # no +cpu: that name exists in one index only


def test_every_direct_dependency_is_pinned(pins: dict[str, str], project: dict[str, list[str]]) -> None:
    extras = project["optional-dependencies"].values()
    direct = {canonical(item) for group in (project["dependencies"], *extras) for item in group}
    assert direct - {"qkv"} <= set(pins)


def test_few_runtime_dependencies(project: dict[str, list[str]]) -> None:
    assert len(project["dependencies"]) <= 12
